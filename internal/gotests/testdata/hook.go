package http

import "sync"

// GotestsHook wraps every transport that sends a test's requests.
var GotestsHook func(base RoundTripper) RoundTripper

// A GotestsWrapper keeps the wrapper of one transport.
type GotestsWrapper struct {
	once    sync.Once
	wrapper RoundTripper
}

// Around returns the wrapper around base, made on the first call.
func (w *GotestsWrapper) Around(base RoundTripper) RoundTripper {
	if GotestsHook == nil {
		return base
	}
	w.once.Do(func() { w.wrapper = GotestsHook(base) })
	return w.wrapper
}

// GotestsWrap returns rt inside a wrapper: its own, if it is a Transport, or
// else a new one. It compares the owner because a type that embeds a Transport
// has the method, too.
func GotestsWrap(rt RoundTripper) RoundTripper {
	if GotestsHook == nil {
		return rt
	}
	if t, ok := rt.(interface {
		GotestsOwn() (owner any, wrapper RoundTripper)
	}); ok {
		if owner, wrapper := t.GotestsOwn(); owner == any(rt) {
			return wrapper
		}
	}
	return GotestsHook(rt)
}

// gotestsPlain is the Transport without its wrapper.
type gotestsPlain struct{ t *Transport }

func (p gotestsPlain) RoundTrip(req *Request) (*Response, error) { return p.t.gotestsRoundTrip(req) }
func (p gotestsPlain) CloseIdleConnections()                     { p.t.gotestsCloseIdleConnections() }

// GotestsOwn returns the Transport and its wrapper.
func (t *Transport) GotestsOwn() (owner any, wrapper RoundTripper) {
	return t, t.gotests.Around(gotestsPlain{t})
}

// RoundTrip sends req through the wrapper.
func (t *Transport) RoundTrip(req *Request) (*Response, error) {
	if t == nil {
		panic("transport is nil")
	}
	return t.gotests.Around(gotestsPlain{t}).RoundTrip(req)
}

// CloseIdleConnections asks the wrapper to close idle connections.
func (t *Transport) CloseIdleConnections() {
	wrapper := t.gotests.Around(gotestsPlain{t})
	if closer, ok := wrapper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
