package retrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// An attemptLimit bounds one attempt up to its response headers.
type attemptLimit struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	over   *AttemptTimeoutError
}

func startLimit(parent context.Context, after time.Duration) *attemptLimit {
	l := &attemptLimit{over: &AttemptTimeoutError{After: after}}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.timer = time.AfterFunc(after, func() { l.cancel(l.over) })
	return l
}

// settle ends the timing of an attempt with its outcome. The caller may read
// the response's body for as long as it likes: the attempt's context lives
// until the body has ended or is closed.
func (l *attemptLimit) settle(resp *http.Response, err error) (*http.Response, error) {
	l.timer.Stop()
	if errors.Is(context.Cause(l.ctx), l.over) {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // its context is gone
		}
		resp, err = nil, l.over
	}
	if resp == nil || resp.Body == nil {
		l.cancel(nil)
		return resp, err
	}
	body := &limitedBody{resp.Body, l.cancel}
	if w, ok := resp.Body.(io.Writer); ok { // 101 Switching Protocols
		resp.Body = struct {
			*limitedBody
			io.Writer
		}{body, w}
	} else {
		resp.Body = body
	}
	return resp, nil
}

// A limitedBody releases its attempt's context when it has ended.
type limitedBody struct {
	io.ReadCloser
	release context.CancelCauseFunc
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release(nil)
	}
	return n, err
}

func (b *limitedBody) Close() error {
	defer b.release(nil)
	return b.ReadCloser.Close()
}
