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
	var original io.Closer
	if b.held != nil {
		original = b.held
	}
	if own, ok := b.held.(*reader); ok {
		original = allReaders{own}
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
	case out.Body != b.held: // also if there was none
		replaced := watch(out.Body)
		replaced.watchCopies(out)
		b.held = replacedBody{replaced, original}
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

// allReaders are those of an attempt, which are closed at once.
type allReaders struct{ own *reader }

func (a allReaders) Close() error {
	a.own.body.end(a.own.attempt)
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

// A replacedBody is one of Prepare's making. If Prepare found another, that is
// closed along with it.
type replacedBody struct {
	*watchedBody
	original io.Closer
}

func (b replacedBody) Close() error {
	err := b.watchedBody.Close()
	if b.original == nil {
		return err
	}
	return errors.Join(err, b.original.Close())
}
