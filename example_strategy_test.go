package retrip_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// One change, one line. Print a strategy to see every setting.
func ExampleStrategy() {
	s := retrip.Standard()
	s.MaxAttempts = 5
	fmt.Println(s)
	// Output:
	// MaxAttempts: 5
	// RetryNonIdempotent: false
	// MaxRetryAfter: 1m0s
	// MaxLimiterWait: 0s
	// Classifier: throttled: code Throttling, ThrottlingException, ThrottledException, RequestThrottledException, TooManyRequestsException, ProvisionedThroughputExceededException, TransactionInProgressException, RequestLimitExceeded, BandwidthLimitExceeded, LimitExceededException, RequestThrottled, SlowDown, PriorRequestNotComplete, EC2ThrottledException
	// Classifier: transient: code RequestTimeout, RequestTimeoutException, InternalError, IDPCommunicationError
	// Classifier: clock-skewed: code InvalidSignatureException, SignatureDoesNotMatch, AuthFailure, RequestTimeTooSkewed, AccessDeniedException
	// Classifier: throttled: status 429
	// Classifier: transient: status 408, 425
	// Classifier: permanent: status 501, 505, 510, 511
	// Classifier: transient: status from 500
	// Classifier: errors but bad certificates, unknown hosts, malformed messages (transient)
	// Hint: X-Amz-Retry-After (whole milliseconds, at most 5s above the backoff)
	// Hint: Retry-After-Ms (milliseconds)
	// Hint: X-Ms-Retry-After-Ms (milliseconds)
	// Hint: Retry-After (seconds or date)
	// Backoff: FullJitter{Base:100ms Cap:20s}
	// ThrottleBackoff: FullJitter{Base:1s Cap:20s}
	// Quota: 500 of 500 tokens
	// Cost: 5
	// ThrottleCost: 5
	// TimeoutCost: 0
	// LongPoll: false
	// Limiter: false
}

// A mode from the command line. Other sources have UnmarshalText.
func ExampleMode() {
	var m retrip.Mode
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.TextVar(&m, "mode", retrip.ModeStandard, "how to retry")
	if err := flags.Parse([]string{"-mode", "adaptive"}); err != nil {
		fmt.Println(err)
		return
	}
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return m.Strategy() }}
	fmt.Println(m, transport.Validate())
	fmt.Println(m.UnmarshalText([]byte("turbo")))
	// Output:
	// adaptive <nil>
	// retrip: unknown mode "turbo": use one of standard, legacy, adaptive, gated
}

// A limiter for each table of a database, which has a limit of its own: the key
// says which table a request is for.
func ExampleLimiter() {
	transport := &retrip.Transport{
		Key: func(req *http.Request) string {
			table, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
			return retrip.HostKey(req) + " " + table
		},
		PerKey: func(string) *retrip.Strategy {
			s := retrip.Standard()
			s.Limiter = retrip.NewLimiter()
			s.MaxLimiterWait = time.Minute
			return s
		},
	}
	fmt.Println(transport.Key(httptest.NewRequest("GET", "http://db.example.com/orders/1", nil)))
	fmt.Println(transport.Key(httptest.NewRequest("GET", "http://db.example.com/users/7", nil)))
	// Output:
	// db.example.com orders
	// db.example.com users
}

// What a limiter does once the server throttles, as a monitoring page shows it.
func ExampleLimiter_State() {
	s := quick()
	s.Limiter = retrip.NewLimiter()
	s.MaxAttempts = 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	resp, err := (&http.Client{Transport: &retrip.Transport{Strategy: s}}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	var state retrip.LimiterState = s.Limiter.State()
	fmt.Println("limits:", state.Enabled, "waiting:", state.Waiting)
	// Output: limits: true waiting: 0
}

// A limiter that lives as long as one request delays its retries, and nothing else.
func ExampleNewRequestLimiter() {
	s := retrip.Standard()
	s.Limiter = retrip.NewRequestLimiter()
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output: <nil>
}

// The parts of a strategy can be changed one by one.
func ExampleStandard() {
	s := retrip.Standard()
	s.MaxAttempts = 5
	s.MaxRetryAfter = 10 * time.Second // for a user who waits
	s.Backoff = retrip.FullJitter{Base: 50 * time.Millisecond, Cap: time.Second}
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output: <nil>
}

// Legacy makes one attempt more than Standard, and its retries after throttling
// take nothing from the quota.
func ExampleLegacy() {
	s := retrip.Legacy()
	fmt.Println(s.MaxAttempts, s.Cost, s.ThrottleCost, s.ThrottleBackoff)
	// Output: 4 5 0 {500ms 20s}
}

// Adaptive slows first attempts down, too, where a host throttles. Other hosts
// have a limiter of their own.
func ExampleAdaptive() {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy {
		s := retrip.Adaptive()
		s.MaxLimiterWait = 5 * time.Second // rather fail than wait longer for a turn
		return s
	}}
	fmt.Println(transport.Validate())
	// Output: <nil>
}

// A request that waits for work on the server's side waits its backoff before it
// gives up, even if the quota refuses the retry: a loop around it does not spin.
func ExampleStrategy_longPoll() {
	s := quick()
	s.LongPoll = func(req *http.Request) bool { return req.URL.Path == "/queue/next" }
	s.Quota = retrip.NewBucket(0) // which refuses every retry
	server := flaky(1)
	defer server.Close()
	transport := &retrip.Transport{Strategy: s, Observe: func(e retrip.Event) {
		fmt.Println(e.Status, e.Reason, "after a wait of", e.Wait)
	}}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL + "/queue/next")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: 503 quota exhausted after a wait of 1ms
}

// One strategy as the pattern for many, each with a quota of its own.
func ExampleStrategy_Clone() {
	pattern := retrip.Standard()
	pattern.MaxAttempts = 5
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy { return pattern.Clone() },
	}
	_ = transport
	fmt.Println(pattern.Clone().MaxAttempts)
	// Output: 5
}

// linear waits longer by the same step each time. Transport.Validate reports a
// step that makes no sense.
type linear struct{ step time.Duration }

func (l linear) Delay(r retrip.Retry) (time.Duration, bool) {
	return time.Duration(r.Index+1) * l.step, true
}

func (l linear) Validate() error {
	if l.step < 0 {
		return fmt.Errorf("has a step of %v: use 0 or more", l.step)
	}
	return nil
}

// A backoff of one's own says what is wrong with its settings.
func ExampleValidator() {
	s := retrip.Standard()
	s.Backoff = linear{-time.Second}
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output: retrip: Transport.Strategy.Backoff has a step of -1s: use 0 or more
}
