package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/retrip-go/retrip/internal/replay"
)

// discardTime is how long a response may be read for its connection's sake
// where the backoff is shorter. Our choice: the rest of a short error page has
// come by then.
const discardTime = 10 * time.Millisecond

// A kept response is the one that a retry follows. It is read to its end, so that
// its connection can serve other requests, and the next attempt: while the retry waits
// or, if it need not wait and reading can't block, when the response is let go. That is
// when the next attempt is sent: if it can't be, the caller gets the response.
type kept struct {
	resp    *http.Response
	reading *peekedBody // nil if there is nothing to read, or nothing to wait for
	arrived bool        // the whole body, of which nothing has been read
}

// keep begins to read the response that a retry follows. To read it when it is let go
// saves keeping its bytes. If the retry waits by then, for its backoff or for the
// limiter, that would keep the connection from others.
func (r *route) keep(resp *http.Response, d decision) kept {
	k := kept{resp: resp}
	if k.resp == nil || k.resp.Body == nil || k.resp.Body == http.NoBody || k.resp.ContentLength == 0 {
		return k
	}
	if readToEnd(k.resp) {
		return k
	}
	if k.arrived = d.wait < discardTime && r.limiter == nil && arrivedWhole(r.req, k.resp); !k.arrived {
		k.reading = peek(r.req, k.resp) // what was peeked before comes first and counts
		k.resp = k.reading.own
	}
	return k
}

// readToEnd reports whether a response has been read to its end.
func readToEnd(resp *http.Response) bool {
	p, ok := resp.Body.(*peekedBody)
	return ok && p.ended()
}

// letGo closes the response. Closing may wait for the network, and over HTTP/2
// for the request's body. So it is done on the side, unless the response has ended
// or come whole, and the request has no body.
func (k *kept) letGo(req *http.Request) {
	resp, arrived := k.resp, k.arrived
	*k = kept{}
	switch {
	case resp == nil || resp.Body == nil || resp.Body == http.NoBody:
	case arrived:
		drain(resp.Body)
	case readToEnd(resp) && !hasBody(req):
		_ = resp.Body.Close()
	default:
		go replay.Close(resp.Body)
	}
}

// drain reads a body to its end, and closes it.
func drain(body io.ReadCloser) {
	defer replay.Close(body)
	defer func() { _ = recover() }() // as little a reason to fail as an error
	_, _ = io.Copy(io.Discard, body)
}

// wait sleeps until the retry is due, which counts from when the attempt ended:
// what a look into a slow body took is part of it. A response that is still being
// read then gets the rest of its time.
func (r *route) wait(d decision, ended time.Time, reading *peekedBody) error {
	left := d.wait
	if left > 0 {
		left = max(0, left-time.Since(ended))
	}
	err := pause(r.req, left, nil)
	if reading != nil {
		if err == nil && d.wait < discardTime {
			err = pause(r.req, discardTime-d.wait, reading.done)
		}
		reading.stop.Store(true)
	}
	return err
}

var errRequestCancel = errors.New("retrip: Request.Cancel was closed")

// pause is the one place of this package that sleeps: for d, or without end if d is negative.
// It returns early if wake gets a value or is closed, and with an error if the
// caller cancels the request.
func pause(req *http.Request, d time.Duration, wake <-chan struct{}) error {
	if d == 0 {
		return cancellation(req)
	}
	select { // a timer costs more than to look
	case <-wake:
		return cancellation(req)
	default:
	}
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-wake:
	case <-req.Context().Done():
	case <-cancelled(req):
	}
	return cancellation(req)
}

// cancellation is why the caller no longer wants the request, or nil.
func cancellation(req *http.Request) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	if cancel := cancelled(req); cancel != nil {
		select {
		case <-cancel:
			return errRequestCancel
		default:
		}
	}
	return nil
}

// cancelled is the deprecated channel that http.Client.Timeout still uses over
// transports other than net/http's.
func cancelled(req *http.Request) <-chan struct{} {
	//lint:ignore SA1019 deprecated for callers, not for transports
	return req.Cancel
}

// conclude returns what the last attempt came to. A long poll that is refused a
// retry by the quota waits before it returns the response.
func (r *route) conclude(p *permit, o *outcome, v verdict, d decision, past *history) (*http.Response, error) {
	p.body.Finish()
	_ = pause(r.req, d.linger, nil) // cut short, too, it returns the response
	if o.Err == nil {
		return o.Response, nil
	}
	during := v.class == Unknown // the caller cancelled during the attempt, not after it
	switch {
	case r.hadNoPart(o, d) && r.tellsEnd(o.Err):
		return nil, o.Err
	case during && o.Number > 1:
		return nil, r.failed(o, d.reason, o.Err, past.last)
	case d.reason == Cancelled:
		return nil, r.failed(o, d.reason, o.Err, ending{err: o.Err})
	case d.obstacle != nil:
		return nil, r.failed(o, d.reason, fmt.Errorf("%w; %w", o.Err, d.obstacle), ending{})
	}
	return nil, r.failed(o, d.reason, o.Err, ending{})
}

// hadNoPart reports whether the first attempt's error is the base's alone: the
// caller cancelled, the request's own body failed, or no retry came into question.
func (r *route) hadNoPart(o *outcome, d decision) bool {
	return o.Number == 1 && (d.reason == Cancelled || d.reason == NotRetryable || o.sent == replay.Failed || r.attempts == 1)
}

// stop ends a request whose next attempt is not sent. It gives back what was held
// for that attempt before the event tells of it. If there is a response, the
// caller gets it, unless it cancelled or Prepare failed.
func (r *route) stop(p *permit, o *outcome, why *refusal, past *history) (*http.Response, error) {
	reason, err := why.reason, why.err
	if cause := cancellation(r.req); cause != nil {
		reason, err = Cancelled, cause // what failed may have failed for that
	}
	if r.observed() {
		o.tokens = r.policy.tokens()
	}
	r.giveBack(p)
	d := decision{reason: reason}
	if reason == WaitOverCap || reason == WaitOverDeadline {
		d.wait, d.from = why.wait, "limiter"
	}
	resp := p.answer.resp
	if reason == Cancelled || reason == PrepareFailed {
		p.answer.letGo(r.req)
		resp = nil
	}
	r.observeStop(o, d, resp, err)
	if resp != nil {
		return resp, nil
	}
	return nil, r.failed(o, reason, err, past.last)
}

// cleanUp gives back whatever is still held and closes whatever response the caller
// does not get, however the request ended: code of the user's may have panicked,
// and an http.Server, for one, goes on after that.
func (r *route) cleanUp(p *permit, o *outcome, returned *http.Response) {
	if o.Response != returned {
		abandon(o.Response)
	}
	if p.answer.resp != nil && p.answer.resp != returned {
		abandon(p.answer.resp)
	}
	if r.pinned {
		r.entry.pins.Add(-1)
	}
	r.giveBack(p) // last, since a quota of the user's may panic
}

// abandon closes a response on the side: closing may wait for the network.
func abandon(resp *http.Response) {
	if resp != nil && resp.Body != nil && resp.Body != http.NoBody {
		go replay.Close(resp.Body)
	}
}

// giveBack returns what the permit still holds, and finishes the request's body:
// no attempt follows.
func (r *route) giveBack(p *permit) {
	p.body.Finish()
	if p.limit != nil {
		p.limit.stop()
		p.limit = nil
	}
	if p.admitted {
		p.admitted = false
		r.limiter.giveBack()
	}
	if p.taken {
		p.taken = false // before a quota of the user's may panic
		r.policy.Quota.Return(p.cost)
	}
}

// failed is the error of a request that ends without a response. last is what
// failed before, where err does not tell.
func (r *route) failed(o *outcome, reason Reason, err error, last ending) *Error {
	e := &Error{Attempts: o.Number, Reason: reason, Err: err, Last: last.err, Status: last.status, Code: last.code}
	switch cause := cancellation(r.req); {
	case reason == Cancelled && cause != nil:
		e.Err, e.ctxErr = cause, r.ctx.Err()
	case !r.tellsEnd(err):
		e.Err, e.ctxErr = fmt.Errorf("%w; %w", err, context.Cause(r.ctx)), r.ctx.Err()
	}
	if reason == WaitOverDeadline {
		e.ctxErr = context.DeadlineExceeded // that is what it would have come to
	}
	return e
}

// tellsEnd reports whether err says how the caller's context ended, if it has.
// Of a deadline, err itself must say that it is a timeout: http.Client asks no
// error that it wraps.
func (r *route) tellsEnd(err error) bool {
	end := r.ctx.Err()
	if end == nil {
		return true
	}
	timeout, ok := err.(interface{ Timeout() bool })
	return errors.Is(err, end) && errors.Is(err, context.Cause(r.ctx)) &&
		(!errors.Is(end, context.DeadlineExceeded) || ok && timeout.Timeout())
}
