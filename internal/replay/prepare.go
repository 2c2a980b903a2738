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
	if b.shared == nil && b.held != nil {
		b.held = &closeOnce{ReadCloser: b.held}
		out.Body = b.held
	}
}

// Choose makes the body that the attempt sends of what Prepare left in out. A
// body that Prepare put there is closed along with the one that it found. err is
// what Prepare returned: then nothing is sent.
func (b *Body) Choose(out *http.Request, err error) {
	original := io.Closer(b.held)
	if own, ok := b.held.(*reader); ok {
		own = b.shared.choose(own, out.Body)
		b.held, original = own, lender{own}
	}
	switch {
	case err != nil:
		if out.Body != b.held {
			Close(out.Body)
		}
	case out.Body == nil || out.Body == http.NoBody: // which net/http must be able to see
		Close(b.held)
	case b.held == nil:
		b.held = out.Body
	case out.Body != b.held:
		b.held = replacedBody{out.Body, original}
		out.Body = b.held
	default:
		if once, ok := b.held.(*closeOnce); ok {
			out.Body = once.ReadCloser // as net/http knows it
		}
	}
}

// choose returns the reader that the attempt sends, now that Prepare has put body
// into the request. A copy takes the place of the attempt's own; copies that
// were begun and perhaps forgotten are ended. A body of Prepare's making may
// read any of them whenever it likes, until it is closed.
func (s *shared) choose(own *reader, body io.ReadCloser) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if body == nil || body == http.NoBody {
		s.leaveAll()
		return own
	}
	if body != io.ReadCloser(own) {
		copied, ok := body.(*reader)
		if !ok || copied.shared != s || copied.attempt != s.attempt {
			s.wrapped = true
			return own
		}
		own.leave()
		own, copied.own = copied, true
		if !own.closed && own.end == nil && !slices.Contains(s.open, own) {
			s.open = append(s.open, own)
		}
	}
	for _, r := range slices.Clone(s.open) { // leave takes it off
		if !r.own {
			r.leave()
		}
	}
	return own
}

// A lender is closed along with a body of Prepare's making that may read those
// of the attempt, and ends them all.
type lender struct{ *reader }

func (l lender) Close() error {
	s := l.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.attempt == s.attempt {
		s.wrapped = false
		s.leaveAll()
		if s.done() {
			s.closeSource()
		}
	}
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
