package retrip

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Event tells of one attempt and of what follows from it. Each attempt that
// was sent gives one, and a request that ends otherwise (cancelled while it
// waits, refused by the limiter, Prepare failed) gives one more. Final is true
// in exactly one event of a request, its last. A request or Transport that
// makes no sense gives none.
type Event struct {
	// Request is the caller's request. Don't modify or keep it.
	Request *http.Request
	// Key is the key whose state served the request, usually the host. It is
	// empty where nothing is kept per key, and for the keys beyond MaxKeys.
	Key string
	// Attempt is how many attempts have been sent.
	Attempt int
	// OuterAttempt is the number of the attempt of a retrier further out (an
	// SDK, a mesh) that this request is, as its headers say, or 0 if they say
	// nothing. From the second on, nothing is retried here, so that the layers
	// add and don't multiply: better leave retries to one of them.
	OuterAttempt int
	// Class is what the attempt's outcome means; Unknown if none was sent.
	Class Class
	// Status is the response's status, or 0 if there was no response.
	Status int
	// Code is the response's error code if a classifier lists it. Other codes
	// are the server's words, and not repeated.
	Code string
	// Err is the attempt's or the request's error, or nil. Its text may hold
	// what should not be logged; ErrorKind may be.
	Err error
	// Reason is why there will be no further attempt: 0 after a success and
	// where a retry follows.
	Reason Reason
	// Final tells that the request ends here.
	Final bool
	// Wait is how long the retry will wait, and WaitFrom whose wish that is:
	// "backoff", "limiter", or the header it was read from. If a wait is why there is no
	// retry, they tell of that one.
	Wait     time.Duration
	WaitFrom string
	// LimiterWait is how long the attempt waited for the limiter.
	LimiterWait time.Duration
	// TokensBefore is what the quota had when the outcome was known, and Tokens
	// what it has now that it has paid for a retry or got something back; -1 if
	// it does not say.
	TokensBefore, Tokens int
	// Sent and Done are when the attempt was sent and when its response headers
	// or its error came. Sent is zero in an event that is not of an attempt.
	Sent, Done time.Time
	// Elapsed is the time since RoundTrip was called.
	Elapsed time.Duration
}

// ErrorKind names Err without its text, which may hold anything: for example
// "timeout", "dns", "dial: connection refused" or "other", and nothing if Err
// is nil.
func (e Event) ErrorKind() string { return errorKind(e.Err) }

// Trace collects the events of the requests made with one context. All methods
// are safe for concurrent use.
type Trace struct {
	mu       sync.Mutex
	requests []*[]Event
}

// WithTrace returns a context whose requests are recorded in the Trace. One
// http.Client call may make several requests: it follows redirects.
func WithTrace(ctx context.Context) (context.Context, *Trace) {
	t := new(Trace)
	return override(ctx, func(o *overrides) { o.trace = t }), t
}

// Requests returns the events so far, grouped by request in the order in which
// the requests began.
func (t *Trace) Requests() [][]Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests := make([][]Event, len(t.requests))
	for i, events := range t.requests {
		requests[i] = slices.Clone(*events)
	}
	return requests
}

// begin opens the record of one request.
func (t *Trace) begin() *[]Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := new([]Event)
	t.requests = append(t.requests, events)
	return events
}

func (t *Trace) add(record *[]Event, e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*record = append(*record, e)
}

// observe tells who wants to know. sent says that an attempt was, and final that
// none will be.
func (c *call) observe(sent, final bool) {
	a := &c.attempt
	if c.t.counting.Load() {
		c.t.count(c.entry, tally{sent, final, a.Number > 1, c.verdict.class == Throttled, c.reason})
	}
	if !c.observed() {
		return
	}
	e := Event{
		Request: a.Request, Attempt: a.Number, OuterAttempt: outerAttempt(a.Request), Class: c.verdict.class, Code: c.code(), Err: cmp.Or(a.Err, c.obstacle),
		Reason: c.reason, Final: final, Wait: c.delay, WaitFrom: c.from, LimiterWait: c.limiterWait,
		Key: c.entry.key, TokensBefore: c.tokens, Tokens: c.policy.tokens(), Sent: a.Sent, Done: a.Done, Elapsed: time.Since(c.begun),
	}
	if a.Response != nil {
		e.Status = a.Response.StatusCode
	}
	if c.record != nil {
		c.trace.add(c.record, e)
	}
	if c.t.Observe != nil {
		c.t.Observe(e)
	}
}

// observed reports whether somebody wants to know.
func (c *call) observed() bool { return c.t.Observe != nil || c.record != nil }

// code is the attempt's error code if a classifier lists it.
func (c *call) code() string { return c.policy.listed(c.attempt.Code) }
