package migrate

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
)

// ErrorOnGiveUp returns a RoundTripper that sends requests through t and returns
// a *GiveUpError in place of a response that t would have retried. It is for
// code written for go-retryablehttp, which takes every response without an error
// for a good one:
//
//	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return policy.Strategy() }}
//	client := &http.Client{Transport: migrate.ErrorOnGiveUp(transport)}
//
// What the strategy takes for a success or for permanent, such as a 404, stays a
// response. All else becomes an error: attempts or quota exhausted, a wait that
// is too long, a request that may not be repeated, and a response that a CheckRetry
// rejected with an error of its own, which errors.Is finds.
//
// Call it before the first use of t: it sets t.Observe to a function that notes
// how requests end and then calls the t.Observe of before. Requests sent through
// t itself still get responses. A nil t is a zero Transport.
func ErrorOnGiveUp(t *retrip.Transport) http.RoundTripper {
	if t == nil {
		t = new(retrip.Transport)
	}
	g := &giveUp{transport: t, observe: t.Observe}
	t.Observe = g.note
	return g
}

const (
	errorBody = 64 << 10               // what the transport itself reads of an error
	errorWait = 250 * time.Millisecond // and how long it waits for that
)

// GiveUpError is the error of ErrorOnGiveUp. It holds what there was of the last
// response; its body is closed. errors.As also finds a *retrip.Error in it, and
// errors.Is the reason, such as retrip.ErrAttemptsExhausted.
type GiveUpError struct {
	// Attempts is how many attempts were sent, and Reason why there was no further
	// one.
	Attempts int
	Reason   retrip.Reason
	// Status and Header are those of the last response. Header may hold what
	// should not be logged.
	Status int
	Header http.Header
	// Code is the response's error code if a classifier of the strategy lists it.
	Code string
	// Body is the beginning of the response's body: at most 64 KiB, and what came
	// of it within 250 ms.
	Body []byte

	ended error // of the context or of a CheckRetry, if that is why there was no further attempt
}

// Error names the attempts, the reason and the status. It repeats neither the
// header nor the body.
func (e *GiveUpError) Error() string { return e.Unwrap().Error() }

// Unwrap returns a *retrip.Error with the same reason.
func (e *GiveUpError) Unwrap() error {
	return &retrip.Error{Attempts: e.Attempts, Reason: e.Reason, Err: e.ended, Status: e.Status, Code: e.Code}
}

type giveUp struct {
	transport *retrip.Transport
	observe   func(retrip.Event)
}

// A call is one request on its way. The Transport calls Observe in the request's
// goroutine, so it needs no lock.
type call struct {
	caller, sent *http.Request
	end          retrip.Event
	rejected     error // what a CheckRetry returned with false for the last response
}

type callKey struct{}

func (g *giveUp) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil {
		return g.transport.RoundTrip(req) // its error says what to do
	}
	c := &call{caller: req}
	c.sent = req.WithContext(context.WithValue(req.Context(), callKey{}, c))
	resp, err := g.transport.RoundTrip(c.sent)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	if c.rejected == nil && (c.end.Reason == 0 || c.end.Reason == retrip.NotRetryable) {
		return resp, nil
	}
	return nil, c.giveUpError(resp)
}

// reject notes the error that a CheckRetry returned with false for a response, or that
// it returned none.
func reject(a retrip.Attempt, err error) {
	if c, ok := a.Request.Context().Value(callKey{}).(*call); ok && c.sent == a.Request && a.Response != nil {
		c.rejected = err
	}
}

// note keeps the event that ends a request.
func (g *giveUp) note(e retrip.Event) {
	// A Transport further in finds the call of the one further out in its context.
	if c, ok := e.Request.Context().Value(callKey{}).(*call); ok && c.sent == e.Request {
		e.Request = c.caller
		if e.Final {
			c.end = e
		}
	}
	if g.observe != nil {
		g.observe(e)
	}
}

func (c *call) giveUpError(resp *http.Response) error {
	e := &GiveUpError{
		Attempts: c.end.Attempt, Reason: c.end.Reason, Code: c.end.Code,
		Status: resp.StatusCode, Header: resp.Header, Body: beginning(resp.Body),
	}
	switch {
	case c.rejected != nil:
		e.ended = c.rejected
	case e.Reason == retrip.WaitOverDeadline:
		e.ended = context.DeadlineExceeded
	case e.Reason == retrip.Cancelled:
		e.ended = context.Cause(c.caller.Context())
	}
	return e
}

// beginning reads what a GiveUpError keeps of a body, and closes it. A Close ends
// a Read that waits.
func beginning(body io.ReadCloser) []byte {
	late := time.AfterFunc(errorWait, func() { _ = body.Close() })
	text, _ := io.ReadAll(io.LimitReader(body, errorBody)) // what there is of it will do
	if late.Stop() {
		_ = body.Close() // the answer is an error already
	}
	return text
}

// CloseIdleConnections does what that of the Transport does.
func (g *giveUp) CloseIdleConnections() { g.transport.CloseIdleConnections() }
