package retrip

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
)

// conclude ends a call whose last attempt was sent. A long poll that is refused
// a retry by the quota waits all the same, with the answer in its hand.
func (c *call) conclude() (*http.Response, error) {
	c.ended = true
	c.closeBody()
	a := &c.attempt
	if c.reason == QuotaExhausted {
		_ = pause(a.Request, c.delay, nil) // cut short, too, it gives the answer back
	}
	if a.Err == nil {
		return a.Response, nil
	}
	during := c.reason == Cancelled && c.verdict.class == Unknown // the attempt, not what came after
	switch {
	case a.Number == 1 && (c.reason == NotRetryable || c.bodyFailed || during) && c.tellsEnd(a.Err):
		return nil, a.Err // retrip had no part in it
	case during && a.Number > 1:
		return nil, c.failure(a.Err, c.last)
	case c.reason == Cancelled:
		return nil, c.failure(a.Err, failure{err: a.Err})
	}
	if c.obstacle != nil {
		return nil, c.failure(fmt.Errorf("%w; %w", a.Err, c.obstacle), failure{})
	}
	return nil, c.failure(a.Err, failure{})
}

// stop ends a call whose next attempt will not be sent, and gives back all
// that was at hand for it. If there is a response, the caller gets it, unless it
// cancelled or Prepare failed.
func (c *call) stop(reason Reason, err error) (*http.Response, error) {
	c.ended = true
	if cause := cancellation(c.attempt.Request); cause != nil {
		reason, err = Cancelled, cause // what failed may have failed for that
	}
	c.tokens = c.policy.tokens()
	c.giveBack()
	if reason != WaitOverCap && reason != WaitOverDeadline {
		c.delay, c.from = 0, ""
	}
	c.reason, c.verdict, c.limiterWait = reason, verdict{}, 0
	c.attempt = Attempt{Number: c.attempt.Number, Request: c.attempt.Request, Err: err}
	resp := c.kept.resp
	if reason == Cancelled || reason == PrepareFailed {
		c.letGo()
		resp = nil
	}
	c.attempt.Response = resp
	c.observe(false, true)
	if resp != nil {
		return resp, nil
	}
	return nil, c.failure(err, c.last)
}

// panicked cleans up after code of the user's that panicked, since an
// http.Server, for one, goes on after that.
func (c *call) panicked() {
	if c.ended {
		return
	}
	for _, resp := range [...]*http.Response{c.attempt.Response, c.kept.resp} {
		if resp != nil && resp.Body != nil {
			go closeQuietly(resp.Body) // closing may wait for the network
		}
	}
	if c.body != nil {
		closeQuietly(c.body) // also if the base, which was handed it, panicked
		c.body = nil
	}
	if c.replay != nil {
		c.replay.fence() // whatever still reads it
	}
	c.giveBack()
}

// giveBack returns what was at hand for an attempt that is not sent.
func (c *call) giveBack() {
	if c.paid {
		c.limiter.giveBack()
	}
	if c.cost > 0 && !c.spent {
		c.policy.give(c.cost)
	}
	if c.limit != nil {
		c.limit.stop()
	}
	c.closeBody()
}

// failure is the error of a call that ends without a response. last is what
// failed before, where err does not tell.
func (c *call) failure(err error, last failure) *Error {
	e := &Error{
		Attempts: c.attempt.Number, Reason: c.reason, Err: err,
		Last: last.err, Status: last.status, Code: last.code,
	}
	switch cause := cancellation(c.attempt.Request); {
	case c.reason == Cancelled && cause != nil:
		e.Err, e.ctxErr = cause, c.ctx.Err()
	case !c.tellsEnd(err):
		e.Err, e.ctxErr = fmt.Errorf("%w; %w", err, context.Cause(c.ctx)), c.ctx.Err()
	}
	if c.reason == WaitOverDeadline {
		e.ctxErr = context.DeadlineExceeded // that is what it would have come to
	}
	return e
}

// tellsEnd reports whether err says how the caller's context ended, if it has.
// Of a deadline, err itself must say that it is a timeout: http.Client asks no
// error that it wraps.
func (c *call) tellsEnd(err error) bool {
	end := c.ctx.Err()
	if end == nil {
		return true
	}
	timeout, ok := err.(interface{ Timeout() bool })
	return errors.Is(err, end) && errors.Is(err, context.Cause(c.ctx)) &&
		(!errors.Is(end, context.DeadlineExceeded) || ok && timeout.Timeout())
}

// closeBody closes a body that the base was not handed, and tells the replay
// that no attempt will follow.
func (c *call) closeBody() {
	if c.body != nil {
		_ = c.body.Close() // there is a better reason to fail than this
		c.body = nil
		if c.replay != nil {
			c.replay.fence() // with all copies of a body that was never sent
		}
	}
	if c.replay != nil {
		if closing := c.replay.finish(); closing != nil {
			runtime.Gosched() // as good as at once, unless it blocks
			_ = pause(c.attempt.Request, discardTime, closing)
		}
	}
}
