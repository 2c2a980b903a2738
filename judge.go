package retrip

import "time"

// A verdict is what a strategy makes of an attempt's outcome.
type verdict struct {
	class  Class
	proves bool // the classifier says that the request was not processed
}

// judge classifies the outcome and decides whether a retry follows. If so, its
// body is at hand, its tokens are taken, and delay is how long to wait.
func (c *call) judge() (retry bool) {
	a := &c.attempt
	c.reason, c.verdict, c.delay, c.from = 0, verdict{}, 0, ""
	if c.observed() {
		c.tokens = c.policy.tokens()
	}
	if a.Err != nil || a.Response.StatusCode >= 400 {
		if a.Done.IsZero() {
			a.Done = time.Now()
		}
		if a.Err != nil && (cancellation(a.Request) != nil || cancelRequested(a.Err)) {
			if c.limiter != nil {
				c.limiter.count(c.limiter.clock()) // it was sent, and says nothing about the server
			}
			c.reason = Cancelled
			return false
		}
		if a.Response != nil {
			readError(a)
		}
	}
	c.verdict = c.classify()
	c.report()
	if c.verdict.class == Success {
		return false
	}
	if outerAttempt(a.Request) > 1 {
		c.maxAttempts = 1 // a retrier further out has taken over already
	}
	c.reason = c.refusal()
	return c.reason == 0
}

// classify asks the strategy, showing it the body if it wants to see it.
func (c *call) classify() (v verdict) {
	a := &c.attempt
	v.class, v.proves = c.policy.classify(a)
	if v.class == NeedsBody {
		readBody(a, -1) // for as long as it takes: the classifier knows what it asks for
		v.class, v.proves = c.policy.classify(a)
	}
	skewed := c.skewed()
	switch {
	case v.class == Success && a.Err == nil, v.class == Transient, v.class == Throttled, v.class == ClockSkewed && skewed:
	default: // also what is no class, and a success without a response
		v.class = Permanent
	}
	if v.class != Success && a.Done.IsZero() {
		a.Done = time.Now()
	}
	return v
}

// skewed notes how far the server's clock is off, and reports whether that
// explains a refused time stamp.
func (c *call) skewed() bool {
	if c.t.Prepare == nil {
		return false
	}
	measured, ok := measureSkew(c.attempt)
	if ok {
		c.entry.setSkew(measured)
	}
	return ok && explainsRefusal(c.signed, measured)
}

// report takes note of how the attempt ended, once for each that was sent: the
// limiter hears of all of them, the quota of successes.
func (c *call) report() {
	if c.verdict.class == Success {
		c.policy.give(max(c.cost, 1))
	} else if c.limiter == nil && c.policy.Limiter != nil { // one for each request
		c.limiter = newLimiter(c.begun)
	}
	if c.limiter != nil {
		c.limiter.update(c.limiter.clock(), c.verdict.class == Throttled)
	}
}

// refusal is why no retry follows the attempt, or 0. It asks the questions
// that take nothing first and the quota last.
func (c *call) refusal() Reason {
	a, class := &c.attempt, c.verdict.class
	switch {
	case class == Permanent:
		return NotRetryable
	case !c.repeatable() && !unprocessed(*a, class, c.verdict.proves, c.bodyFailed || c.bodyUnknown):
		return NotIdempotent
	case a.Number >= c.maxAttempts:
		return AttemptsExhausted
	case cancellation(a.Request) != nil:
		return Cancelled
	case !c.holdBody():
		if cancellation(a.Request) != nil {
			return Cancelled
		}
		return BodyNotReplayable
	}
	if reason := c.schedule(); reason != 0 {
		return reason
	}
	if !c.reopenBody() {
		c.delay, c.from = 0, ""
		return BodyNotReplayable
	}
	cost := c.policy.costOf(a, class)
	if !c.policy.take(cost) {
		if longPoll := c.policy.LongPoll; longPoll == nil || !longPoll(a.Request) {
			c.delay, c.from = 0, ""
		}
		return QuotaExhausted
	}
	c.cost, c.spent = cost, false
	if c.replay != nil {
		c.replay.fence()
	}
	return 0
}

// repeatable reports whether the request may be sent again although the first
// time may have had its effect.
func (c *call) repeatable() bool {
	return c.idempotent || c.policy.RetryNonIdempotent || repeatable(c.attempt.Request)
}

// holdBody reports whether the body can be sent again, and stops the attempt
// from reading on in it until that is decided. A Read of the caller's body that
// is under way gets a moment to finish.
func (c *call) holdBody() bool {
	req := c.attempt.Request
	if c.replay == nil {
		return !hasBody(req) || req.GetBody != nil
	}
	pending, err := c.replay.hold()
	end := time.Now().Add(sourceGrace)
	for left := sourceGrace; pending != nil && left > 0; left = time.Until(end) {
		if pause(req, left, pending) != nil {
			break
		}
		pending, err = c.replay.hold()
	}
	c.obstacle = err
	return err == nil
}

// reopenBody calls GetBody while there is still an answer to fall back on.
func (c *call) reopenBody() bool {
	if c.replay == nil && hasBody(c.attempt.Request) {
		c.body, c.obstacle = reopen(c.attempt.Request)
	}
	return c.obstacle == nil
}

// schedule sets how long to wait, or returns why that is not to be.
func (c *call) schedule() Reason {
	a, s := &c.attempt, c.policy
	if c.failed.IsZero() {
		c.failed = a.Done
	}
	own, ok := s.delay(Retry{
		Index: a.Number - 1, Class: c.verdict.class, Attempt: *a, Prev: c.own, Elapsed: a.Done.Sub(c.failed),
	})
	if !ok {
		return BackoffStopped
	}
	c.own, c.delay, c.from = own, own, "backoff"
	if h, ok := s.hint(a, own); ok && h.Wait > own {
		c.delay, c.from = h.Wait, h.From
		if h.Wait > s.MaxRetryAfter-c.hinted {
			return WaitOverCap
		}
		c.hinted += h.Wait
	}
	var queued time.Duration // the delay counts towards it
	if c.limiter != nil {
		queued = c.limiter.queueTime(c.limiter.clock())
	}
	switch {
	case s.MaxLimiterWait > 0 && queued-c.delay > s.MaxLimiterWait:
		c.delay, c.from = queued, "limiter"
		return WaitOverCap
	case c.outlivesDeadline(c.delay, a.Done), c.outlivesDeadline(queued, time.Time{}):
		if queued > c.delay {
			c.delay, c.from = queued, "limiter"
		}
		return WaitOverDeadline
	}
	return 0
}

// outlivesDeadline reports whether a wait that began at a time, or begins now if
// that is zero, would end too late.
func (c *call) outlivesDeadline(wait time.Duration, from time.Time) bool {
	deadline, ok := c.ctx.Deadline()
	if !ok {
		return false
	}
	now := time.Now()
	if !from.IsZero() {
		wait -= now.Sub(from)
	}
	return wait >= deadline.Sub(now)
}
