package retrip

import (
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
	if c.reason == QuotaSpent {
		_ = pause(a.Request, c.delay, nil) // cut short, too, it gives the answer back
	}
	if a.Err == nil {
		return a.Response, nil
	}
	during := c.reason == Cancelled && c.verdict.class == Unknown // the attempt, not what came after
	switch {
	case a.Number == 1 && (c.reason == NotRetryable || during):
		return nil, a.Err // retrip had no part in it
	case during:
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
		go func() { // closing may wait for the network
			defer func() { _ = recover() }() // in a goroutine of ours, nobody could catch it
			_ = resp.Body.Close()
		}()
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
	if cause := cancellation(c.attempt.Request); c.reason == Cancelled && cause != nil {
		e.Err, e.ctxErr = cause, c.ctx.Err()
	}
	return e
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
