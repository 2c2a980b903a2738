package retrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip/internal/replay"
)

// A permit is what is held until the next attempt is sent: the request's body,
// what limiter and quota gave, the attempt's timer, and the response to the
// attempt before. Whatever is left in it when the request ends is given back
// (finish.go).
type permit struct {
	body     replay.Body
	admitted bool // by the limiter, which gave a token
	taken    bool // the quota allowed the retry,
	cost     int  // and took this for it
	limit    *attemptLimit
	answer   kept
}

// An outcome is the attempt under way, and what came of it.
type outcome struct {
	Attempt                   // its Number is how many were sent
	cost        int           // what the quota took for it
	tokens      int           // what the quota had when the outcome was known
	signed      time.Duration // the skew that Prepare was given
	limiterWait time.Duration
	sent        replay.State // of the request body that was sent, if there is an error
	broke       bool         // the error is that of the request body
	hint        Hint         // the wait that the server asks for after a failure
	hasHint     bool         // there is one
}

// take returns the response, and makes room for the next outcome.
func (o *outcome) take() *http.Response {
	resp := o.Response
	o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}
	o.sent, o.broke, o.hasHint = replay.Fine, false, false
	return resp
}

// A refusal is why the next attempt is not sent.
type refusal struct {
	reason Reason
	err    error
	wait   time.Duration // that was too long
}

// admit gets a permit from the limiter, waiting for it if need be.
func (r *route) admit(p *permit, o *outcome) *refusal {
	if r.clocked {
		o.Sent, o.limiterWait = time.Now(), 0
		if r.begun.IsZero() {
			r.begun = o.Sent
		}
	}
	if r.limiter == nil || !r.limiter.enabled.Load() {
		return nil
	}
	joined := r.limiter.clock()
	admitted, place := r.limiter.admit(joined, o.Number > 0)
	p.admitted = admitted
	if place == nil {
		return nil
	}
	waited, refused := r.queue(place, joined)
	if refused != nil {
		r.limiter.leave(place)
		return refused
	}
	p.admitted, o.limiterWait = true, waited
	if r.clocked {
		o.Sent = time.Now()
	}
	return nil
}

// queue waits in the limiter's queue and returns how long that took. Unless the
// wait itself is bounded, only the head of the queue holds a timer.
func (r *route) queue(p *place, joined time.Duration) (waited time.Duration, refused *refusal) {
	longest := r.policy.MaxLimiterWait
	now, expected, told := joined, p.expected, p.expected
	for {
		waited = now - joined
		granted, wait := r.limiter.turn(p, now)
		if granted {
			return waited, nil
		}
		if wait >= 0 {
			expected, told = wait, wait
		}
		reason := Reason(0)
		if left := longest - waited; longest > 0 {
			if expected > left || left <= 0 {
				reason = WaitOverCap
			}
			if wait < 0 {
				wait = left
			}
		}
		if r.outlivesDeadline(expected, time.Time{}) {
			reason = WaitOverDeadline
		}
		if reason != 0 {
			return waited, &refusal{reason: reason, err: &limiterError{told, waited}, wait: told}
		}
		if err := pause(r.req, wait, p.wake); err != nil {
			return waited, &refusal{reason: Cancelled, err: err}
		}
		now, expected = r.limiter.clock(), 0 // not known until it is the head
	}
}

// send makes the attempt and notes its outcome. When the base is called, what
// limiter and quota gave is used up. The body and the timer stay in the permit
// until the base has returned, in case it panics.
func (r *route) send(p *permit, o *outcome, last Class) *refusal {
	out, refused := r.outgoing(p, o, last)
	if refused != nil {
		return refused
	}
	o.Number++
	o.cost, p.cost, p.taken, p.admitted = p.cost, 0, false, false // also if the base panics: it may have sent the request
	o.Response, o.Err = normalize(r.t.base.RoundTrip(out))
	if o.Err != nil {
		o.sent = replay.StateOf(out)
	}
	p.body.Sent()
	if limit := p.limit; limit != nil {
		p.limit = nil
		o.Response, o.Err = limit.settle(o.Response, o.Err)
	}
	if o.Err != nil { // a timeout may be why the body ended
		o.broke = !isTimeout(o.Err) && replay.Broke(out, o.Err)
	}
	if o.Response != nil && out != r.req {
		o.Response.Request = r.req
	}
	if r.clocked {
		o.Done = time.Now()
	}
	return nil
}

// outgoing is the request to send: the caller's own the first time, if nothing
// about it has to differ, and otherwise a copy.
func (r *route) outgoing(p *permit, o *outcome, last Class) (*http.Request, *refusal) {
	t, first := r.t, o.Number == 0
	if first && !p.body.Kept() && t.Prepare == nil && t.AttemptTimeout == 0 {
		return r.req, nil
	}
	ctx := r.ctx
	var again *retried
	if !first {
		again = new(retried)
		ctx = again.context.of(ctx)
	}
	if t.AttemptTimeout > 0 {
		p.limit = newLimit(ctx, t.AttemptTimeout, hasBody(r.req))
		ctx = p.limit.ctx
	}
	var out *http.Request
	if first {
		out = r.req.WithContext(ctx)
	} else {
		again.Request = *r.req.WithContext(ctx)
		again.Proto = retriedProto
		out = &again.Request
	}
	if err := p.body.Check(); err != nil && !first { // a file may have changed during the wait
		return nil, &refusal{reason: BodyNotReplayable, err: err}
	}
	if !first {
		p.body.Fence() // the attempt before can't read on
		p.answer.letGo(r.req)
	}
	if err := p.body.Open(ctx, out); err != nil {
		return nil, &refusal{reason: BodyNotReplayable, err: err}
	}
	if t.Prepare != nil {
		var err error
		if out, err = r.prepare(p, o, out, last); err != nil {
			return nil, &refusal{reason: PrepareFailed, err: err}
		}
		o.Sent = time.Now() // Prepare may have taken a while
		if r.attempts == 1 {
			p.body.Last() // it was kept for Prepare alone
		}
	}
	if p.limit != nil {
		p.limit.start()
	}
	if again != nil {
		again.context.mark.show(out)
	}
	return out, nil
}

// prepare calls Prepare on a clone.
func (r *route) prepare(p *permit, o *outcome, req *http.Request, last Class) (*http.Request, error) {
	out := req.Clone(req.Context())
	out.Trailer = req.Trailer // which the caller fills while the body is read
	o.signed = r.entry.skew.offset()
	p.body.Lend(out)
	err := r.t.Prepare(out, PrepareInfo{Number: o.Number + 1, Skew: o.signed, Last: last})
	p.body.Choose(out, err)
	return out, err
}

// normalize makes one of two outcomes of whatever the base returned.
func normalize(resp *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil && resp != nil:
		if resp.Body != nil {
			_ = resp.Body.Close() // the error decides: the body is not read
		}
		return nil, err
	case err == nil && resp == nil:
		return nil, &baseError{"the base RoundTripper returned neither a response nor an error"}
	}
	return resp, err
}

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
		// The body is the connection, whose other methods a wrapper would hide. Its context
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
