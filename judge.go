package retrip

import (
	"math"
	"time"
)

// judge classifies the outcome and decides whether a retry follows. If so, its
// body is at hand, its tokens are taken, and pause is how long to wait.
func (c *call) judge() (retry bool) {
	a := &c.attempt
	c.reason, c.verdict, c.pause, c.from = 0, verdict{}, 0, ""
	if a.Err != nil || a.Response.StatusCode >= 400 {
		if a.Done.IsZero() {
			a.Done = time.Now()
		}
		if a.Err != nil && cancellation(a.Request) != nil {
			c.strategy.abandoned(a.Done)
			c.reason = Cancelled
			return false
		}
		if a.Response != nil {
			a.Code = readCode(a.Request, a.Response)
		}
	}
	c.verdict = c.strategy.judge(*a, c.cost, c.skewed())
	if c.verdict.class == Success {
		return false
	}
	c.reason = c.refusal()
	return c.reason == 0
}

// skewed notes how far the server's clock is off, and reports whether that
// explains a refused time stamp.
func (c *call) skewed() bool {
	if c.t.Prepare == nil {
		return false
	}
	measured, ok := measureSkew(c.attempt)
	if ok {
		c.entry.skew.store(measured)
	}
	return ok && explainsRefusal(c.signed, measured)
}

// refusal is why no retry follows the attempt, or 0. It asks the questions
// that take nothing first and the quota last.
func (c *call) refusal() Reason {
	a, class := &c.attempt, c.verdict.class
	switch {
	case class == Permanent:
		return NotRetryable
	case !c.repeatable && !unprocessed(*a, class, c.verdict.byCode):
		return NotRepeatable
	case a.Number >= c.maxAttempts:
		return AttemptsSpent
	case !c.replayable():
		return BodyNotReplayable
	}
	if reason := c.schedule(); reason != 0 {
		return reason
	}
	if c.replay == nil && hasBody(a.Request) { // now, while there still is an answer to fall back on
		body, err := reopen(a.Request)
		if err != nil {
			c.obstacle = err
			return BodyNotReplayable
		}
		c.body = body
	}
	cost := c.strategy.costOf(class)
	if !c.strategy.take(cost) {
		c.closeBody()
		return QuotaSpent
	}
	c.cost = cost
	if c.replay != nil {
		c.replay.fence()
	}
	return 0
}

// replayable reports whether the body can be sent again. A Read of the
// caller's body that is under way gets a moment to finish.
func (c *call) replayable() bool {
	if c.replay == nil {
		return !hasBody(c.attempt.Request) || c.attempt.Request.GetBody != nil
	}
	pending, err := c.replay.replayable()
	if pending != nil && pause(c.attempt.Request, sourceGrace, pending) == nil {
		_, err = c.replay.replayable()
	}
	c.obstacle = err
	return err == nil
}

// schedule sets how long to wait, or returns why that is not to be.
func (c *call) schedule() Reason {
	a, s := &c.attempt, c.strategy
	if c.failed.IsZero() {
		c.failed = a.Done
	}
	own, ok := s.delay(Retry{
		Index: a.Number - 1, Class: c.verdict.class, Prev: c.own, Elapsed: a.Done.Sub(c.failed),
	})
	if !ok {
		return BackoffStopped
	}
	c.own, c.pause, c.from = own, own, "backoff"
	if h, ok := s.hint(*a); ok && h.Wait > own {
		if h.Within > 0 && own <= math.MaxInt64-h.Within {
			h.Wait = min(h.Wait, own+h.Within)
		}
		c.pause, c.from = h.Wait, h.From
		if h.Wait > s.MaxWait-c.hinted {
			return WaitOverCap
		}
		c.hinted += h.Wait
	}
	queued := time.Duration(0)
	if s.Limiter != nil {
		queued = s.Limiter.queueTime(a.Done)
	}
	switch {
	case s.MaxAdmitWait > 0 && queued-c.pause > s.MaxAdmitWait:
		c.pause, c.from = queued, "limiter"
		return WaitOverCap
	case c.outlivesDeadline(max(c.pause, queued)):
		return WaitOverDeadline
	}
	return 0
}

func (c *call) outlivesDeadline(wait time.Duration) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && wait >= time.Until(deadline)
}
