package retrip

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/retrip-go/retrip/internal/replay"
)

// conclude ends a call whose last attempt was sent. A long poll that is refused
// a retry by the quota waits all the same, with the answer in its hand.
func (c *call) conclude() (*http.Response, error) {
	c.ended = true
	c.body.Finish()
	a := &c.attempt
	if c.reason == QuotaSpent {
		_ = pause(a.Request, c.delay, nil) // cut short, too, it gives the answer back
	}
	if a.Err == nil {
		return a.Response, nil
	}
	during := c.reason == Cancelled && c.verdict.class == Unknown // the attempt, not what came after
	switch {
	case a.Number == 1 && (c.reason == NotRetryable || during) && c.tellsEnd(a.Err):
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
// that was at hand for it.
func (c *call) stop(reason Reason, err error) error {
	c.ended = true
	if cause := cancellation(c.attempt.Request); cause != nil {
		reason, err = Cancelled, cause // what failed may have failed for that
	}
	c.tokens = c.policy.tokens()
	c.giveBack()
	if reason != WaitOverCap && reason != WaitOverDeadline {
		c.delay, c.from = 0, ""
	}
	c.reason, c.verdict, c.admitWait = reason, verdict{}, 0
	c.attempt = Attempt{Number: c.attempt.Number, Request: c.attempt.Request, Err: err}
	c.observe(false, true)
	return c.failure(err, c.last)
}

// panicked cleans up after code of the user's that panicked, since an
// http.Server, for one, goes on after that.
func (c *call) panicked() {
	if c.ended {
		return
	}
	if resp := c.attempt.Response; resp != nil && resp.Body != nil {
		go replay.Close(resp.Body) // closing may wait for the network
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
	c.body.Finish()
}

// failure is the error of a call that ends without a response. last is what
// failed before, where err does not tell.
func (c *call) failure(err error, last failure) *Error {
	e := &Error{
		Attempts: c.attempt.Number, Reason: c.reason, Err: err,
		Last: last.err, Status: last.status, Code: last.code,
	}
	switch {
	case c.reason == Cancelled:
		e.Err, e.ctxErr = cancellation(c.attempt.Request), c.ctx.Err()
	case !c.tellsEnd(err):
		e.Err, e.ctxErr = fmt.Errorf("%w; %w", err, context.Cause(c.ctx)), c.ctx.Err()
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
