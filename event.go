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
// in exactly one event of a request, its last. A request or Transport that is not
// valid gives none.
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
	// Class is what the attempt's outcome means; Unknown in an event that is not of
	// an attempt, and if the caller cancelled the attempt.
	Class Class
	// Status and Header are the response's, or 0 and nil if there was none. Don't
	// modify Header. It may hold what should not be logged.
	Status int
	Header http.Header
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
	// Wait is how long the retry will wait, and WaitFrom the source of the delay:
	// "backoff", "limiter", or the header it was read from. They are also set where
	// the wait is why there is no retry, and for a long poll that waits although the
	// quota refused its retry. Wait is 0 or more, and WaitFrom empty if there is none.
	Wait     time.Duration
	WaitFrom string
	// LimiterWait is how long the attempt waited for the limiter; 0 if it did not.
	LimiterWait time.Duration
	// TokensBefore is how many tokens the quota had when the outcome was known, and
	// Tokens how many it has now that it has paid for a retry or got some back; -1
	// if it is no MeteredQuota.
	TokensBefore, Tokens int
	// Doubt is how many failures the quota counts against the server now, and Shut
	// tells that it refuses retries; -1 and false if it is no DoubtingQuota.
	Doubt float64
	Shut  bool
	// Sent and Done are when the attempt was sent and when its response headers
	// or its error came. Both are zero in an event that is not of an attempt.
	Sent, Done time.Time
	// Elapsed is the time since the first attempt was about to be admitted: since
	// RoundTrip was called, less what Key and PerKey took.
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

// observe tells of an attempt that was sent and of what follows from it.
func (r *route) observe(o *outcome, v verdict, d decision) {
	if r.t.KeepStats || r.observed() {
		r.tell(o, v, d)
	}
}

func (r *route) tell(o *outcome, v verdict, d decision) {
	final := v.class == Success || d.reason != 0
	if r.t.KeepStats {
		r.t.count(r.entry, tally{sent: true, final: final, retried: o.Number > 1, throttled: v.class == Throttled, reason: d.reason})
	}
	if r.observed() {
		r.emit(o, d, Event{
			Class: v.class, Code: r.policy.listed(o.Code), Err: cmp.Or(o.Err, d.obstacle), Final: final,
			LimiterWait: o.limiterWait, Sent: o.Sent, Done: o.Done,
		}, o.Response)
	}
}

// observeStop tells of a request that ends before its next attempt is sent, with
// the response that the caller gets, or with an error.
func (r *route) observeStop(o *outcome, d decision, resp *http.Response, err error) {
	if r.t.KeepStats {
		r.t.count(r.entry, tally{final: true, reason: d.reason})
	}
	if r.observed() {
		r.emit(o, d, Event{Err: err, Final: true}, resp)
	}
}

// emit completes the event and hands it to the observer and the trace.
func (r *route) emit(o *outcome, d decision, e Event, resp *http.Response) {
	e.Request, e.Key, e.Attempt, e.OuterAttempt = r.req, r.entry.key, o.Number, outerAttempt(r.req)
	e.Reason, e.Wait, e.WaitFrom = d.reason, d.wait, d.from
	e.TokensBefore, e.Tokens = o.tokens, r.policy.tokens()
	e.Doubt, e.Shut = r.policy.doubt()
	e.Elapsed = time.Since(r.begun)
	if resp != nil {
		e.Status, e.Header = resp.StatusCode, resp.Header
	}
	if r.record != nil {
		r.trace.add(r.record, e)
	}
	if r.t.Observe != nil {
		r.t.Observe(e)
	}
}

// observed reports whether there is an observer or a trace.
func (r *route) observed() bool { return r.t.Observe != nil || r.record != nil }
