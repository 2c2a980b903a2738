package replay

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// A State says whether an error may have come out of the body that was sent:
// then it is no proof that nothing was sent.
type State uint8

const (
	Fine    State = iota // the body did not fail
	Failed               // it did
	Unknown              // nothing is known about it
)

// StateOf returns what is known of the body of a request that a base was handed.
func StateOf(out *http.Request) State {
	if body, ok := out.Body.(watched); ok {
		if body.failure() != nil {
			return Failed
		}
		return Fine
	}
	if hasBody(out) && out.GetBody != nil && !InMemory(out.Body) {
		return Unknown
	}
	return Fine
}

// Broke reports whether err is that of the body of a request that a base was
// handed.
func Broke(out *http.Request, err error) bool {
	body, ok := out.Body.(watched)
	if !ok {
		return false
	}
	defer func() { _ = recover() }() // errors may be of types that can't be compared
	failure := body.failure()
	return failure != nil && errors.Is(err, failure)
}

// A watched body returns the error with which it could not be read, or nil.
type watched interface{ failure() error }

func (r *reader) failure() error {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	return r.body.source.failure()
}

// A watchedBody notes whether it failed. Of several in one attempt the first
// takes note for all.
type watchedBody struct {
	io.ReadCloser
	broken *atomic.Pointer[error]
}

func watch(body io.ReadCloser) *watchedBody { return &watchedBody{body, new(atomic.Pointer[error])} }

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, ErrOver) { // which is what a closed copy gives
		b.broken.Store(&err)
	}
	return n, err
}

func (b *watchedBody) failure() error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// watchCopies does the same for the bodies that out.GetBody returns.
func (b *watchedBody) watchCopies(out *http.Request) {
	open := out.GetBody
	if open == nil {
		return
	}
	out.GetBody = func() (io.ReadCloser, error) {
		another, err := open()
		if another == nil || err != nil {
			return another, err
		}
		return &watchedBody{another, b.broken}, nil
	}
}
