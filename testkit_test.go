package retrip

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Short names for the words of testkit that are in most tests.
type step = testkit.Step

var (
	script       = testkit.Script
	status       = testkit.Status
	answer       = testkit.Answer
	jsonError    = testkit.JSONError
	fails        = testkit.Fails
	hangs        = testkit.Hangs
	opaque       = testkit.Opaque
	newRequest   = testkit.NewRequest
	get          = testkit.Get
	milliseconds = testkit.Milliseconds
)

// hostRequest is a GET to a host.
func hostRequest(t *testing.T, host string) *http.Request {
	req := newRequest(t, "GET", nil)
	req.URL.Host = host
	return req
}

// noWait is the standard mode without backoff and quota, with what the edits
// change.
func noWait(edits ...func(*Strategy)) *Strategy {
	s := Standard()
	s.Backoff, s.Quota = Constant{}, nil
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// attempts limits them.
func attempts(n int) func(*Strategy) {
	return func(s *Strategy) { s.MaxAttempts = n }
}

// tokens gives a strategy a bucket.
func tokens(n int) func(*Strategy) {
	return func(s *Strategy) { s.Quota = NewBucket(n) }
}

// waits sets the backoff.
func waits(d time.Duration) func(*Strategy) {
	return func(s *Strategy) { s.Backoff = Constant{Wait: d} }
}

// longest pins the jitter to its upper end, so that waits can be told exactly.
func longest(s *Strategy) *Strategy {
	s.Rand = func() float64 { return 1 }
	return s
}

// cost14 is the standard mode with the costs and the backoff that AWS SDKs have
// since 2026.
func cost14() *Strategy {
	s := Standard()
	s.Cost, s.Backoff = 14, FullJitter{50 * time.Millisecond, maxBackoff}
	return s
}

// tlsState stands for an answer that came over TLS.
var tlsState = &tls.ConnectionState{}

var errReset = &wrapped{"read tcp", socketerr.ConnReset}

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text + ": " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// countsAllocations skips a test under the race detector, which itself
// allocates; without it, "go test ./..." runs it.
func countsAllocations(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
}

// lastOf is the last event of a trace of one request.
func lastOf(trace *Trace) Event {
	events := trace.Requests()[0]
	return events[len(events)-1]
}

// transports are those that touch a request or its answer in different ways.
func transports(base http.RoundTripper) map[string]*Transport {
	return map[string]*Transport{
		"zero":    {Base: base},
		"timed":   {Base: base, AttemptTimeout: time.Minute},
		"prepare": {Base: base, Prepare: func(*http.Request, PrepareInfo) error { return nil }},
	}
}

// tokens is what a strategy's quota has left, or -1 if it does not say.
func (s *Strategy) tokens() int { return (&policy{Quota: s.Quota}).tokens() }
