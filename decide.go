package retrip

import (
	"time"
)

// A verdict is what a strategy makes of an attempt's outcome.
type verdict struct {
	class  Class // Unknown if the caller cancelled, which says nothing of the server
	proves bool  // the rule that decided says that the request was not processed
}

// A decision is what follows from a failure.
type decision struct {
	reason   Reason        // why no retry follows, or 0
	wait     time.Duration // before the retry; or the wait that is too long
	from     string        // the source of the wait
	backoff  time.Duration // the strategy's share of it
	asked    time.Duration // what servers have asked for so far, this wait included
	obstacle error         // why the body can't be sent again
	linger   time.Duration // how long the answer of a long poll is held back
}

// noRetry is the decision that no retry follows.
func noRetry(reason Reason) decision { return decision{reason: reason} }

// A history is what later attempts need of earlier ones.
type history struct {
	failed  time.Time     // when the first attempt ended
	backoff time.Duration // the last
	asked   time.Duration // what servers asked for so far
	hints   int           // how many failures came with a hint that may be obeyed
	class   Class         // of the last attempt
	last    ending
}

// An ending is what is kept of an attempt whose response is gone.
type ending struct {
	err    error
	status int
	code   string
}

// classify says what the outcome means. It may read the beginning of the
// response's body, which the caller still gets whole.
func (r *route) classify(o *outcome) (v verdict) {
	if r.observed() {
		o.tokens = r.policy.tokens()
	}
	failed := o.Err != nil || o.Response.StatusCode >= 400
	if failed {
		o.stampDone()
		if o.Err != nil && (cancellation(r.req) != nil || cancelRequested(o.Err)) {
			return verdict{}
		}
		if o.Response != nil {
			readError(&o.Attempt)
		}
	}
	v.class, v.proves = r.policy.classify(&o.Attempt)
	if v.class == NeedsBody {
		readBody(&o.Attempt, -1) // for as long as it takes: the classifier knows what it asks for
		v.class, v.proves = r.policy.classify(&o.Attempt)
	}
	skewed := r.t.Prepare != nil && r.noteSkew(o)
	switch {
	case v.class == Success && o.Err == nil:
		return v
	case v.class == Transient, v.class == Throttled, v.class == ClockSkewed && skewed:
	default: // also a wrong time stamp where the clocks agree, a success without a response, and what is no class
		v.class = Permanent
	}
	o.stampDone()
	if v.class != Permanent {
		o.hint, o.hasHint = r.policy.hint(&o.Attempt)
	}
	return v
}

// stampDone reads the clock, unless that was done when the attempt ended.
func (o *outcome) stampDone() {
	if o.Done.IsZero() {
		o.Done = time.Now()
	}
}

// noteSkew notes how far the server's clock is off, and reports whether that
// explains a refused time stamp.
func (r *route) noteSkew(o *outcome) bool {
	measured, ok := measureSkew(o.Attempt)
	if ok {
		r.entry.setSkew(measured)
	}
	return ok && explainsRefusal(o.signed, measured, r.policy.MinSkew)
}

// report tells the limiter and the quota how the attempt ended, once for each
// that was sent. It comes before the decision, which asks how long the limiter's
// queue is.
func (r *route) report(o *outcome, v verdict, past *history) {
	if v.class == Unknown { // it was sent, and says nothing about the server
		if r.limiter != nil {
			r.limiter.count(r.limiter.clock())
		}
		return
	}
	if v.class != Success && v.class != Permanent {
		r.pin(o)
	}
	if v.class != Success && o.Number == 1 {
		r.resolveFailure()
	}
	if r.limiter != nil {
		r.limiter.update(r.limiter.clock(), v.class == Throttled)
	}
	quota := r.policy.Quota
	if quota == nil {
		return
	}
	switch {
	case o.broke: // the server has not failed
	case v.class == Transient, v.class == Throttled:
		quota.Failed(r.failure(o, v, past))
	case o.Response != nil:
		quota.Answered(v.class, o.cost)
	}
}

// failure is what the quota is told of a failure that may be retried.
func (r *route) failure(o *outcome, v verdict, past *history) Failure {
	obeyed := o.obeyed(r.policy, past)
	return Failure{
		Class: v.class, Timeout: isTimeout(o.Err), Attempt: o.Number, MaxAttempts: r.attempts,
		Hint: obeyed == 1, Hinted: past.hints + obeyed, Cost: r.policy.costOf(&o.Attempt, v.class), Sent: o.Sent, Done: o.Done,
	}
}

// obeyed is 1 if the server's hint asks for a wait and the strategy would obey it,
// however long the backoff.
func (o *outcome) obeyed(p *policy, past *history) int {
	if wait := o.hint.beside(0); o.hasHint && 0 < wait && wait <= p.MaxRetryAfter-past.asked {
		return 1
	}
	return 0
}

// decide says whether a retry should follow a failure and how long it waits. It
// takes nothing and gives nothing away: what a retry needs is taken by secure.
func (r *route) decide(p *permit, o *outcome, v verdict, past *history) decision {
	switch {
	case v.class == Unknown:
		return noRetry(Cancelled)
	case v.class == Permanent:
		return noRetry(NotRetryable)
	case !r.mayRepeat() && !unprocessed(o, v):
		return noRetry(NotIdempotent)
	case o.Number >= r.attempts:
		return noRetry(AttemptsExhausted)
	case cancellation(r.req) != nil:
		return noRetry(Cancelled)
	}
	if obstacle := p.body.Check(); obstacle != nil {
		return decision{reason: BodyNotReplayable, obstacle: obstacle}
	}
	return r.schedule(o, v, past)
}

// mayRepeat reports whether the request may be sent again although the first
// attempt may have been processed.
func (r *route) mayRepeat() bool {
	return r.idempotent || r.policy.RetryNonIdempotent || repeatable(r.req)
}

// schedule says how long the retry waits, or that it would wait too long.
func (r *route) schedule(o *outcome, v verdict, past *history) decision {
	s := r.policy
	elapsed := time.Duration(0)
	if !past.failed.IsZero() {
		elapsed = o.Done.Sub(past.failed)
	}
	backoff, ok := s.delay(Retry{Index: o.Number - 1, Class: v.class, Attempt: o.Attempt, Prev: past.backoff, Elapsed: elapsed})
	if !ok {
		return noRetry(BackoffStopped)
	}
	d := decision{wait: backoff, from: "backoff", backoff: backoff, asked: past.asked}
	if hint := o.hint.beside(backoff); o.hasHint && hint > backoff {
		d.wait, d.from = hint, o.hint.From
		if hint > s.MaxRetryAfter-past.asked {
			d.reason = WaitOverCap
			return d
		}
		d.asked += hint
	}
	var queued time.Duration // the wait counts towards it
	if r.limiter != nil {
		queued = r.limiter.queueTime(r.limiter.clock())
	}
	switch {
	case s.MaxLimiterWait > 0 && queued-d.wait > s.MaxLimiterWait:
		d.reason, d.wait, d.from = WaitOverCap, queued, "limiter"
	case r.outlivesDeadline(d.wait, o.Done), r.outlivesDeadline(queued, time.Time{}):
		d.reason = WaitOverDeadline
		if queued > d.wait {
			d.wait, d.from = queued, "limiter"
		}
	}
	return d
}

// outlivesDeadline reports whether a wait that began at a time, or begins now if
// that is zero, would end too late.
func (r *route) outlivesDeadline(wait time.Duration, from time.Time) bool {
	deadline, ok := r.ctx.Deadline()
	if !ok {
		return false
	}
	now := time.Now()
	if !from.IsZero() {
		wait -= now.Sub(from)
	}
	return wait >= deadline.Sub(now)
}

// secure gets what the retry needs: the body, which may take a moment, and last
// the quota's consent. It may turn the decision into a no.
func (r *route) secure(p *permit, o *outcome, v verdict, d decision, past *history) decision {
	obstacle := p.body.Hold()
	if obstacle == nil {
		obstacle = p.body.Reopen()
	}
	switch {
	case obstacle != nil && cancellation(r.req) != nil:
		return noRetry(Cancelled)
	case obstacle != nil:
		return decision{reason: BodyNotReplayable, obstacle: obstacle}
	}
	if r.policy.Quota == nil {
		return d
	}
	failure := r.failure(o, v, past)
	if r.policy.Quota.Take(r.ctx, failure) {
		p.taken, p.cost = true, failure.Cost
		return d
	}
	if longPoll := r.policy.LongPoll; longPoll != nil && longPoll(r.req) {
		return decision{reason: QuotaExhausted, wait: d.wait, from: d.from, linger: d.wait}
	}
	return noRetry(QuotaExhausted)
}

// remember notes what later attempts need of this one.
func (r *route) remember(h *history, o *outcome, v verdict, d decision) {
	if h.failed.IsZero() {
		h.failed = o.Done
	}
	h.hints += o.obeyed(r.policy, h)
	h.backoff, h.asked, h.class = d.backoff, d.asked, v.class
	h.last = ending{err: o.Err}
	if o.Response != nil {
		h.last.status, h.last.code = o.Response.StatusCode, r.policy.listed(o.Code)
	}
}
