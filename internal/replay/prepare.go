package replay

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
)

// Lend puts a body into out that Prepare may read, close, or put into another.
func (b *Body) Lend(out *http.Request) {
	if b.opaqueBody == nil && b.held != nil {
		b.held = &closeOnce{ReadCloser: b.held}
		out.Body = b.held
	}
}

// Choose makes the body that the attempt sends of what Prepare left in out. A
// body of Prepare's making is closed along with the one that it found. err is
// what Prepare returned: then nothing is sent.
func (b *Body) Choose(out *http.Request, err error) {
	original := io.Closer(b.held)
	if own, ok := b.held.(*reader); ok {
		original = lender{own}
		if err == nil {
			b.chosen(own, out.Body)
		}
	}
	once, _ := b.held.(*closeOnce)
	switch {
	case err != nil:
		if out.Body != b.held {
			Close(out.Body)
		}
	case out.Body == nil || out.Body == http.NoBody: // which net/http must be able to see
		Close(original)
	case b.held == nil:
		b.held = out.Body
	case out.Body != b.held:
		b.held = replacedBody{out.Body, original}
		out.Body = b.held
	case once != nil:
		out.Body = once.ReadCloser // as net/http knows it
	}
}

// chosen notes that the attempt sends body. If that is its own, copies of it that
// were perhaps forgotten are ended. A body of Prepare's making may read any of
// them whenever it likes, until it is closed.
func (o *opaqueBody) chosen(own *reader, body io.ReadCloser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wrapped = body != io.ReadCloser(own); o.wrapped {
		return
	}
	for _, r := range slices.Clone(o.open) { // leave takes it off
		if !r.own {
			r.leave(ErrOver)
		}
	}
}

// A lender ends all readers of an attempt.
type lender struct{ *reader }

func (l lender) Close() error {
	l.body.end(l.attempt)
	return nil
}

// A closeOnce is closed once, however often Close is called.
type closeOnce struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *closeOnce) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// A replacedBody closes the body that Prepare found along with the one that it
// put in its place.
type replacedBody struct {
	io.ReadCloser
	original io.Closer
}

func (b replacedBody) Close() error {
	return errors.Join(b.ReadCloser.Close(), b.original.Close())
}
