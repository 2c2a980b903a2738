package retrip

import "time"

// admit gets a permit from the limiter, waiting for it if need be.
func (c *call) admit() (Reason, error) {
	if c.clocked {
		c.attempt.Sent, c.limiterWait = time.Now(), 0
		if c.begun.IsZero() {
			c.begun = c.attempt.Sent
		}
	}
	if c.limiter == nil || !c.limiter.enabled.Load() {
		return 0, nil
	}
	now := c.limiter.clock()
	paid, place := c.limiter.admit(now, c.attempt.Number > 0)
	c.paid = paid
	if place == nil {
		return 0, nil
	}
	return c.queue(place, now)
}

// queue waits in the limiter's queue. Unless the wait itself is bounded, only
// the first in the queue holds a timer.
func (c *call) queue(p *place, joined time.Duration) (Reason, error) {
	limiter, longest := c.limiter, c.policy.MaxLimiterWait
	now, expected := joined, p.expected
	for {
		granted, wait := limiter.turn(p, now)
		if granted {
			c.paid, c.limiterWait = true, now-joined
			if c.clocked {
				c.attempt.Sent = time.Now()
			}
			return 0, nil
		}
		if wait >= 0 {
			expected = wait
		}
		reason := Reason(0)
		if left := longest - (now - joined); longest > 0 {
			if expected > left || left <= 0 {
				reason = WaitOverCap
			}
			if wait < 0 {
				wait = left
			}
		}
		if c.outlivesDeadline(expected, time.Time{}) {
			reason = WaitOverDeadline
		}
		if reason != 0 {
			limiter.leave(p)
			c.delay, c.from = expected, "limiter"
			return reason, &limiterError{expected, now - joined}
		}
		if err := pause(c.attempt.Request, wait, p.wake); err != nil {
			limiter.leave(p)
			return Cancelled, err
		}
		now, expected = limiter.clock(), 0
	}
}
