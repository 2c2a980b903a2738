package http2

import "net/http"

// gotestsPlain is the Transport without its wrapper.
type gotestsPlain struct{ t *Transport }

func (p gotestsPlain) RoundTrip(req *http.Request) (*http.Response, error) {
	return p.t.gotestsRoundTrip(req)
}
func (p gotestsPlain) CloseIdleConnections() { p.t.gotestsCloseIdleConnections() }

// GotestsOwn returns the Transport and its wrapper.
func (t *Transport) GotestsOwn() (owner any, wrapper http.RoundTripper) {
	return t, t.gotests.Around(gotestsPlain{t})
}

// RoundTrip sends req through the wrapper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.gotests.Around(gotestsPlain{t}).RoundTrip(req)
}

// CloseIdleConnections asks the wrapper to close idle connections.
func (t *Transport) CloseIdleConnections() {
	wrapper := t.gotests.Around(gotestsPlain{t})
	if closer, ok := wrapper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
