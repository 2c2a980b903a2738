package retrip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Transport is an http.RoundTripper that sends a request again when that is
// safe and worth it, over any other RoundTripper. It keeps the RoundTripper
// contract: the caller's request is not modified and its body always closed, a
// response is never turned into an error, redirects and cookies stay the
// client's business.
//
// The zero Transport works: standard mode, one strategy with its own quota for
// each host. All fields are optional; don't change them, or copy the
// Transport, after its first use. A Transport is safe for concurrent use; make
// one and keep it, since its quotas and connections live in it.
type Transport struct {
	// Base sends the attempts. nil is a pooled go-cleanhttp transport of this
	// Transport's own: nobody else's connections hang on it.
	Base http.RoundTripper

	// Strategy, if set, decides for all requests. Otherwise each key has one of
	// its own, made by PerKey when a request first needs it; nil means Standard.
	//
	// PerKey is called outside locks, and again if two requests need a new key
	// at once or a key was forgotten. It is called once with the empty key, for
	// the strategy that further keys share when there are more than MaxKeys.
	Strategy *Strategy
	PerKey   func(key string) *Strategy

	// Key names the state a request belongs to. nil is HostKey. All requests
	// with the empty key share the strategy of the keys beyond MaxKeys.
	Key func(*http.Request) string

	// MaxKeys bounds the keys with a state of their own; 0 means 1024. Beyond
	// it a key is forgotten only if its quota is full and its limiter idle, and
	// if none is, further keys share one strategy: nobody gets a fresh quota by
	// inventing hosts.
	MaxKeys int

	// AttemptTimeout bounds each attempt up to its response headers; 0 means no
	// bound. An attempt that exceeds it fails with an *AttemptTimeoutError,
	// which is worth a retry, unlike the caller's own deadline.
	AttemptTimeout time.Duration

	// ReplayBuffer is how many bytes are kept of a request body that can't be
	// reopened (Request.GetBody) and is not a regular file; 0 means 1 MiB. A
	// longer body is streamed like any other, but sent only once.
	ReplayBuffer int64

	// Prepare is called for every attempt, the first included, with a clone of
	// the request that it may change, to sign it for example. An error ends the
	// call. Being the base's caller, it sees each hop of a redirect: look at the
	// host before adding a secret.
	Prepare func(*http.Request, Prep) error

	// Observe is told of each attempt; see Event. It is called in the
	// request's goroutine, which it delays, and if it panics, so does RoundTrip.
	Observe func(Event)

	once    sync.Once
	base    http.RoundTripper
	invalid error
	clocked bool // every attempt is timed
	keys    keyTable
}

// Prep tells Prepare about the attempt it prepares.
type Prep struct {
	// Number is 1 for the first attempt.
	Number int
	// Skew is how far the server's clock is ahead of ours: sign with
	// time.Now().Add(Skew). It is 0 until measured, which takes a response over
	// TLS with a Date, and then kept for the key.
	Skew time.Duration
	// Last is the class of the attempt before, Unknown for the first.
	Last Class
}

// RoundTrip sends req, and sends it again as its strategy decides. It returns
// the last attempt's response if there is one, whatever its status. Otherwise
// the error is an *Error, or the base's own if the first attempt failed in a
// way that is not worth a retry or because the caller cancelled it. A request
// or Transport that makes no sense is an error before anything is sent.
//
// The numbered steps are those of the documentation, the events and the logs.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.setUp()
	c := call{t: t, attempt: Attempt{Request: req}}

	// 1. Resolve: who decides for this request, and can its body be sent again?
	if err := c.resolve(); err != nil {
		closeBody(req)
		return nil, err
	}
	if c.alone {
		return t.base.RoundTrip(req)
	}
	for {
		// 2. Admit: wait for a permit, where a limiter gives them out.
		if reason, err := c.admit(); reason != 0 {
			return nil, c.stop(reason, err)
		}
		// 3. Send: hand the base a request with a body of its own.
		if reason, err := c.send(); reason != 0 {
			return nil, c.stop(reason, err)
		}
		// 4. Judge: what does the outcome mean, and will a retry follow?
		retry := c.judge()
		// 5. Observe.
		c.observe(!retry)
		if !retry {
			return c.conclude()
		}
		// 6. Discard the response, while we
		// 7. wait.
		if err := c.wait(c.discard()); err != nil {
			return nil, c.stop(Cancelled, err)
		}
	}
}

// A call is one request on its way through RoundTrip. It lives on RoundTrip's
// stack: a request that succeeds at once must not allocate.
type call struct {
	t        *Transport
	strategy *Strategy
	limiter  *Limiter
	entry    *entry // nil if nothing is kept per key
	trace    *Trace
	trip     *[]Event
	replay   *replay       // nil if the body is none or can be reopened
	body     io.ReadCloser // opened for the coming attempt, not yet handed to the base

	alone       bool // a retry of a transport further out: sent as it is
	clocked     bool
	repeatable  bool
	maxAttempts int

	// The attempt under way or just judged.
	attempt   Attempt // its Number is how many were sent
	paid      bool    // the limiter was paid for it, and it is not sent yet
	cost      int     // what the quota paid for it
	signed    time.Duration
	admitWait time.Duration
	verdict   verdict
	reason    Reason

	// The wait for the next one.
	pause  time.Duration
	from   string
	own    time.Duration // the backoff's share
	hinted time.Duration // what servers asked for so far

	begun, failed time.Time // RoundTrip called; first attempt failed
	last          failure   // what became of the attempt before
	obstacle      error     // why the body can't be sent again
	limit         *attemptLimit
	ctx           context.Context
}

// A failure is what is kept of an attempt whose response is gone.
type failure struct {
	err    error
	status int
	code   string
}

// resolve finds out, once for the whole request, what its attempts have in
// common.
func (c *call) resolve() error {
	req := c.attempt.Request
	switch {
	case c.t.invalid != nil:
		return c.t.invalid
	case req == nil:
		return errors.New("retrip: the request is nil: build one with http.NewRequestWithContext")
	case req.URL == nil:
		return errors.New("retrip: Request.URL is nil: build the request with http.NewRequestWithContext")
	case req.Header == nil:
		return errors.New("retrip: Request.Header is nil: build the request with http.NewRequestWithContext")
	}
	c.ctx = req.Context()
	o := overridesOf(c.ctx)
	if o != nil {
		if c.alone = o.isRetry(req); c.alone {
			return nil
		}
		if o.err != nil {
			return o.err
		}
		c.strategy, c.maxAttempts, c.repeatable, c.trace = o.strategy, o.maxAttempts, o.idempotent, o.trace
	}
	if err := c.resolveStrategy(); err != nil {
		return err
	}
	c.repeatable = c.repeatable || c.strategy.RepeatAll || repeatable(req)
	c.maxAttempts = cmp.Or(c.maxAttempts, c.strategy.MaxAttempts)
	if c.maxAttempts > 1 && hasBody(req) && req.GetBody == nil {
		c.replay = newReplay(req, cmp.Or(c.t.ReplayBuffer, defaultReplayBuffer))
	} else {
		c.body = req.Body
	}
	if c.trace != nil {
		c.trip = c.trace.begin()
	}
	if l := c.strategy.Limiter; l != nil && !l.perRequest {
		c.limiter = l
	}
	c.clocked = c.t.clocked || c.trace != nil || c.strategy.Limiter != nil
	return nil
}

// resolveStrategy finds the strategy: that of the context, that of the
// Transport, or that of the request's key.
func (c *call) resolveStrategy() error {
	t, req := c.t, c.attempt.Request
	c.strategy = cmp.Or(c.strategy, t.Strategy)
	if c.strategy != nil && t.Prepare == nil {
		return nil // nothing is kept per key
	}
	var key string
	if t.Key != nil {
		key = t.Key(req)
	} else {
		key = HostKey(req)
	}
	c.entry = t.keys.find(key, t.newEntry)
	c.strategy = cmp.Or(c.strategy, c.entry.strategy)
	return c.entry.err
}

// admit gets a permit from the limiter, waiting for it if need be.
func (c *call) admit() (Reason, error) {
	if !c.clocked {
		return 0, nil
	}
	now := time.Now()
	c.attempt.Sent, c.admitWait = now, 0
	if c.begun.IsZero() {
		c.begun = now
	}
	var place *place
	c.paid, place = c.limiter.admit(now)
	if place == nil {
		return 0, nil
	}
	return c.queue(place, now)
}

// queue waits in the limiter's queue. Unless the wait itself is bounded, only
// the first in the queue holds a timer.
func (c *call) queue(p *place, joined time.Time) (Reason, error) {
	limiter, longest := c.limiter, c.strategy.MaxAdmitWait
	now, expected := joined, p.expected
	for {
		granted, wait := limiter.turn(p, now)
		if granted {
			c.paid, c.attempt.Sent, c.admitWait = true, now, now.Sub(joined)
			return 0, nil
		}
		if wait >= 0 {
			expected = wait
		}
		reason := Reason(0)
		if left := longest - now.Sub(joined); longest > 0 {
			if expected > left || left <= 0 {
				reason = WaitOverCap
			}
			if wait < 0 {
				wait = left
			}
		}
		if c.outlivesDeadline(expected) {
			reason = WaitOverDeadline
		}
		if reason != 0 {
			limiter.leave(p)
			c.pause, c.from = expected, "limiter"
			return reason, fmt.Errorf("retrip: the send-rate limiter asks for a wait of %v", expected)
		}
		if err := pause(c.attempt.Request, wait, p.wake); err != nil {
			limiter.leave(p)
			return Cancelled, err
		}
		now, expected = time.Now(), 0
	}
}

// send makes the attempt and notes its outcome.
func (c *call) send() (Reason, error) {
	out, reason, err := c.outgoing()
	if reason != 0 {
		return reason, err
	}
	a := &c.attempt
	*a = Attempt{Number: a.Number + 1, Request: a.Request, Sent: a.Sent}
	c.body, c.paid = nil, false

	a.Response, a.Err = keepContract(c.t.base.RoundTrip(out))
	if c.limit != nil {
		a.Response, a.Err = c.limit.settle(a.Response, a.Err)
	}
	if a.Response != nil && out != a.Request {
		a.Response.Request = a.Request
	}
	if c.clocked {
		a.Done = time.Now()
	}
	return 0, nil
}

// outgoing is the request to send: the caller's own the first time, if nothing
// about it has to differ, and otherwise a copy.
func (c *call) outgoing() (*http.Request, Reason, error) {
	t, req := c.t, c.attempt.Request
	first := c.attempt.Number == 0
	if first && c.replay == nil && t.Prepare == nil && t.AttemptTimeout == 0 {
		return req, 0, nil
	}
	ctx := c.ctx
	if !first {
		ctx = marked(ctx, req)
	}
	if t.AttemptTimeout > 0 {
		c.limit = startLimit(ctx, t.AttemptTimeout)
		ctx = c.limit.ctx
	}
	out := req.WithContext(ctx)
	if t.Prepare != nil {
		out = req.Clone(ctx)
	}
	if c.replay != nil {
		body, err := c.replay.open(ctx)
		if err != nil {
			return nil, BodyNotReplayable, err
		}
		c.body = body
		out.GetBody = c.replay.opener(ctx) // for replays of the base's own, as over HTTP/2
	}
	if hasBody(req) {
		out.Body = c.body
	}
	if t.Prepare != nil {
		c.signed = c.entry.skew.offset()
		prep := Prep{Number: c.attempt.Number + 1, Skew: c.signed, Last: c.verdict.class}
		if err := t.Prepare(out, prep); err != nil {
			return nil, PrepareFailed, err
		}
	}
	return out, 0, nil
}

// keepContract makes one of two outcomes of whatever the base returned.
func keepContract(resp *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil && resp != nil:
		if resp.Body != nil {
			_ = resp.Body.Close() // the error decides, and nobody will read it
		}
		return nil, err
	case err == nil && resp == nil:
		return nil, &baseError{"the base RoundTripper returned neither a response nor an error"}
	}
	return resp, err
}

// observe tells who wants to know.
func (c *call) observe(final bool) {
	if c.t.Observe == nil && c.trip == nil {
		return
	}
	a := &c.attempt
	e := Event{
		Request: a.Request, Attempt: a.Number, Class: c.verdict.class, Code: c.code(), Err: cmp.Or(a.Err, c.obstacle),
		Reason: c.reason, Final: final, Wait: c.pause, WaitFrom: c.from, AdmitWait: c.admitWait,
		Tokens: c.strategy.tokens(), Sent: a.Sent, Done: a.Done, Elapsed: time.Since(c.begun),
	}
	if c.entry != nil {
		e.Key = c.entry.key
	}
	if a.Response != nil {
		e.Status = a.Response.StatusCode
	}
	if c.trip != nil {
		c.trace.add(c.trip, e)
	}
	if c.t.Observe != nil {
		c.t.Observe(e)
	}
}

// code is the attempt's error code if a classifier lists it.
func (c *call) code() string {
	if c.verdict.byCode {
		return c.attempt.Code
	}
	return ""
}

// conclude ends a call whose last attempt was sent. A long poll that is refused
// a retry by the quota waits all the same, with the answer in its hand.
func (c *call) conclude() (*http.Response, error) {
	c.closeBody()
	a := &c.attempt
	if c.reason == QuotaSpent {
		_ = pause(a.Request, c.pause, nil) // cut short, too, it gives the answer back
	}
	if a.Err == nil {
		return a.Response, nil
	}
	if a.Number == 1 && (c.reason == NotRetryable || c.reason == Cancelled) {
		return nil, a.Err // retrip had no part in it
	}
	if c.reason == Cancelled {
		return nil, c.failure(a.Err, c.last)
	}
	if c.obstacle != nil {
		return nil, c.failure(errors.Join(a.Err, c.obstacle), failure{})
	}
	return nil, c.failure(a.Err, failure{})
}

// stop ends a call whose next attempt will not be sent, and gives back all
// that was at hand for it.
func (c *call) stop(reason Reason, err error) error {
	if c.paid {
		c.limiter.giveBack()
	}
	c.strategy.give(c.cost)
	if reason != WaitOverCap && reason != WaitOverDeadline {
		c.pause, c.from = 0, ""
	}
	if c.limit != nil {
		c.limit.cancel(nil)
	}
	c.closeBody()
	c.reason, c.verdict, c.admitWait = reason, verdict{}, 0
	c.attempt = Attempt{Number: c.attempt.Number, Request: c.attempt.Request, Err: err}
	c.observe(true)
	return c.failure(err, c.last)
}

// failure is the error of a call that ends without a response. last is what
// failed before, where err does not tell.
func (c *call) failure(err error, last failure) *Error {
	e := &Error{
		Attempts: c.attempt.Number, Reason: c.reason, Err: err,
		Last: last.err, Status: last.status, Code: last.code,
	}
	if c.reason == Cancelled {
		e.Err, e.ctxErr = cancellation(c.attempt.Request), c.ctx.Err()
	}
	return e
}

// closeBody closes a body that the base was not handed, and tells the replay
// that no attempt will follow.
func (c *call) closeBody() {
	if c.body != nil {
		_ = c.body.Close() // there is a better reason to fail than this
		c.body = nil
	}
	if c.replay != nil {
		c.replay.finish()
	}
}
