package retrip

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
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
	c.body, c.paid, c.spent = out.Body, false, true
	c.letGo()

	a.Response, a.Err = keepContract(c.t.base.RoundTrip(out))
	c.body = nil // the base closes it, unless it panics
	if a.Err != nil {
		c.bodyFailed, c.bodyUnknown = bodyFailed(out)
	}
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
		again.Proto = retryProto
		out = &again.Request
	}
	if c.replay != nil {
		out.GetBody = c.replay.opener(ctx)
		body, err := out.GetBody()
		if err != nil {
			return nil, BodyNotReplayable, err
		}
		c.body = body
	}
	if hasBody(req) {
		out.Body = c.body
	}
	if t.Prepare != nil {
		var err error
		if out, err = c.prepare(out); err != nil {
			return nil, PrepareFailed, err
		}
		c.attempt.Sent = time.Now() // Prepare may have taken a while
		if c.replay != nil && c.maxAttempts == 1 {
			c.replay.finish() // it was kept for Prepare alone
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
	inner := c.body
	if c.body != nil && c.replay == nil {
		c.body = &closeOnce{ReadCloser: inner} // Prepare may close it, or put it into another that does
		out.Body = c.body
	}
	err := c.t.Prepare(out, PrepareInfo{Number: c.attempt.Number + 1, Skew: c.signed, Last: c.verdict.class})
	var original io.Closer
	if c.body != nil {
		original = c.body
	}
	if c.replay != nil {
		own := c.replay.choose(c.body.(*attemptBody), out.Body)
		c.body, inner, original = own, own, lender{own}
	}
	switch ours := c.body; {
	case err != nil:
		if out.Body != nil && out.Body != ours {
			_ = out.Body.Close()
		}
		return nil, err
	case out.Body == ours:
		out.Body = inner // as net/http knows it
	case !hasBody(out): // which net/http must be able to see
		if ours != nil {
			_ = ours.Close()
		}
	default:
		replace(out, original)
	}
	return out, nil
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

// A closeOnce is closed once, however often Close is called.
type closeOnce struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *closeOnce) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// replace watches the body that Prepare has put into the request, and those of
// its GetBody, and closes the body that Prepare found along with it.
func replace(out *http.Request, original io.Closer) {
	body := watch(out.Body)
	out.Body = replacedBody{body, original}
	if open := out.GetBody; open != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			another, err := open()
			if another == nil || err != nil {
				return another, err
			}
			return &watchedBody{another, body.broken}, nil
		}
	}
}

// A replacedBody is a body of Prepare's making. If there was one before, that is
// closed along with it.
type replacedBody struct {
	*watchedBody
	original io.Closer
}

func (b replacedBody) Close() error {
	err := b.watchedBody.Close()
	if b.original == nil {
		return err
	}
	return errors.Join(err, b.original.Close())
}
