package retrip

import (
	"net/http"
	"time"
)

// send makes the attempt and notes its outcome.
func (c *call) send() (Reason, error) {
	out, reason, err := c.outgoing()
	if reason != 0 {
		return reason, err
	}
	a := &c.attempt
	*a = Attempt{Number: a.Number + 1, Request: a.Request, Sent: a.Sent}
	c.paid, c.spent = false, true

	a.Response, a.Err = keepContract(c.t.base.RoundTrip(out))
	c.body.Sent() // unless the base panics
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
	if first && !c.body.Kept() && t.Prepare == nil && t.AttemptTimeout == 0 {
		return req, 0, nil
	}
	ctx := c.ctx
	var again *resent
	if !first {
		again = new(resent)
		ctx = again.context.of(ctx)
	}
	if t.AttemptTimeout > 0 {
		c.limit = newLimit(ctx, t.AttemptTimeout, hasBody(req))
		ctx = c.limit.ctx
	}
	var out *http.Request
	if first {
		out = req.WithContext(ctx)
	} else {
		again.Request = *req.WithContext(ctx)
		out = &again.Request
	}
	if err := c.body.Open(ctx, out); err != nil {
		return nil, BodyNotReplayable, err
	}
	if t.Prepare != nil {
		var err error
		if out, err = c.prepare(out); err != nil {
			return nil, PrepareFailed, err
		}
		c.attempt.Sent = time.Now() // Prepare may have taken a while
		if c.maxAttempts == 1 {
			c.body.Last() // it was kept for Prepare alone
		}
	}
	if c.limit != nil {
		c.limit.start()
	}
	if again != nil {
		again.context.sign.show(out)
	}
	return out, 0, nil
}

// prepare lets Prepare have its way with a copy of its own.
func (c *call) prepare(req *http.Request) (*http.Request, error) {
	out := req.Clone(req.Context())
	out.Trailer = req.Trailer // which the caller fills while the body is read
	c.signed = c.entry.skew.offset()
	c.body.Lend(out)
	err := c.t.Prepare(out, Prep{Number: c.attempt.Number + 1, Skew: c.signed, Last: c.verdict.class})
	c.body.Choose(out, err)
	return out, err
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
