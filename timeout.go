package retrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// An attemptLimit bounds one attempt up to its response headers.
type attemptLimit struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	over   *AttemptTimeoutError
	sends  bool // a body, perhaps for longer than it gets an answer
}

func newLimit(parent context.Context, after time.Duration, sends bool) *attemptLimit {
	l := &attemptLimit{over: &AttemptTimeoutError{After: after}, sends: sends}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	return l
}

// start begins the timing, when the attempt is about to be sent.
func (l *attemptLimit) start() {
	l.timer = time.AfterFunc(l.over.After, func() { l.cancel(l.over) })
}

// settle ends the timing of an attempt with its outcome. The caller may read
// the response's body for as long as it likes: the attempt's context lives
// until the body is closed, or has ended and nothing is being sent either.
func (l *attemptLimit) settle(resp *http.Response, err error) (*http.Response, error) {
	if !l.timer.Stop() {
		<-l.ctx.Done() // the timer has fired, and its goroutine may be on its way
	}
	if errors.Is(context.Cause(l.ctx), l.over) {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // its context is gone
		}
		resp, err = nil, l.over
	}
	switch {
	case resp == nil || resp.Body == nil || resp.Body == http.NoBody:
		l.cancel(nil)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		// The body is the connection, with methods nobody can list. Its context
		// goes when the caller's does.
	default:
		resp.Body = &limitedBody{ReadCloser: resp.Body, limit: l}
	}
	return resp, err
}

// stop ends an attempt that is not sent after all.
func (l *attemptLimit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(nil)
}

// A limitedBody releases its attempt's context when it is done with.
type limitedBody struct {
	io.ReadCloser
	limit  *attemptLimit
	closed atomic.Bool
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.limit.sends {
		b.limit.cancel(nil)
	}
	return n, err
}

func (b *limitedBody) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	defer b.limit.cancel(nil)
	return b.ReadCloser.Close()
}
