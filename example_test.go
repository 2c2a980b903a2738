package retrip_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// flaky is a server that answers 503 before it answers 200.
func flaky(failures int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failures > 0 {
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}))
}

// quick is the standard mode without its waits, so that examples end soon.
func quick() *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.Constant{Wait: time.Millisecond}
	return s
}

// The zero Transport works: standard mode, one quota for each host.
func Example() {
	server := flaky(1)
	defer server.Close()

	client := &http.Client{Transport: &retrip.Transport{}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output: 200 hello
}

// One change, one line.
func ExampleStrategy() {
	s := retrip.Standard()
	s.MaxAttempts = 5
	client := &http.Client{Transport: &retrip.Transport{Strategy: s}}
	_ = client
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

// A strategy for each host, made when a request first goes there.
func ExampleTransport_perKey() {
	transport := &retrip.Transport{
		PerKey: func(host string) *retrip.Strategy {
			if strings.HasSuffix(host, ".amazonaws.com") {
				return retrip.Adaptive()
			}
			s := retrip.Standard()
			s.MaxAttempts = 5
			return s
		},
	}
	fmt.Println(transport.Validate())
	// Output: <nil>
}

// Strategies of several hosts that share one retry budget.
func ExampleBucket() {
	budget := retrip.NewBucket(100)
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy {
			s := retrip.Standard()
			s.Quota = budget
			return s
		},
	}
	_ = transport
	fmt.Println(budget)
	// Output: 100 of 100 tokens
}

// A rule of one's own goes in front; the first opinion wins.
func ExampleOn() {
	s := quick()
	s.Classifiers = slices.Insert(s.Classifiers, 0,
		retrip.On(retrip.Transient, retrip.StatusIs(http.StatusNotFound)), // this API is eventually consistent
		retrip.On(retrip.Throttled, retrip.CodeIs("Throttling.User")),
	)
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: s}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}

// A function can look at the whole attempt.
func ExampleClassifierFunc() {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(retrip.ClassifierFunc(
		func(a retrip.Attempt) retrip.Class {
			if a.Response != nil && a.Response.Header.Get("X-Should-Retry") == "false" {
				return retrip.Permanent
			}
			return retrip.Unknown // no opinion
		})))
	fmt.Println(s.Classifiers[0].Classify(retrip.Attempt{
		Response: &http.Response{Header: http.Header{"X-Should-Retry": {"false"}}},
	}))
	// Output: permanent
}

// A backoff of one's own is a function of its argument.
func ExampleBackoffFunc() {
	s := retrip.Standard()
	s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) {
		return time.Duration(r.Index+1) * time.Second, r.Elapsed < time.Minute
	})
	d, ok := s.Backoff.Delay(retrip.Retry{Index: 2})
	fmt.Println(d, ok)
	// Output: 3s true
}

// POST is not repeated, since it may have had its effect; its owner may say
// that this does no harm.
func ExampleWithIdempotent() {
	server := flaky(1)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick()}}

	ctx := retrip.WithIdempotent(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("upsert"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// What happened to one call, attempt by attempt.
func ExampleWithTrace() {
	server := flaky(2)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick()}}

	ctx, trace := retrip.WithTrace(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for _, trip := range trace.Requests() {
		for _, e := range trip {
			fmt.Println(e.Attempt, e.Status, e.Class, e.Wait, e.Final)
		}
	}
	// Output:
	// 1 503 transient 1ms false
	// 2 503 transient 1ms false
	// 3 200 success 0s true
}

// Retries and requests given up go to a log, without URLs, headers or bodies.
func ExampleLogTo() {
	server := flaky(1)
	defer server.Close()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "host", "elapsed":
				return slog.Attr{} // differ from run to run
			}
			return a
		},
	}))
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick(), Observe: retrip.LogTo(logger)}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output:
	// level=INFO msg="retrying HTTP request" method=GET attempt=1 class=transient status=503 wait=1ms wait_from=backoff
	// level=INFO msg="HTTP request succeeded after retries" method=GET attempt=2 class=success status=200
}

// When no response could be had, the error says why there was no further try.
func ExampleError() {
	server := flaky(0)
	server.Close() // nobody listens any more
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick()}}
	_, err := client.Get(server.URL)

	var e *retrip.Error
	if errors.As(err, &e) {
		fmt.Println(e.Attempts, "attempts:", e.Reason, errors.Is(err, retrip.ErrAttemptsExhausted))
	}
	// Output: 3 attempts: attempts exhausted true
}

// Prepare signs each attempt anew. It sees the host of every hop of a
// redirect, so it can keep the secret to the host it belongs to.
func ExampleTransport_prepare() {
	server := flaky(1)
	defer server.Close()
	trusted := strings.TrimPrefix(server.URL, "http://")
	transport := &retrip.Transport{
		Strategy: quick(),
		Prepare: func(req *http.Request, p retrip.PrepareInfo) error {
			if req.URL.Host == trusted {
				at := time.Now().Add(p.Skew)
				req.Header.Set("Authorization", "Signature at "+at.Format(time.RFC3339))
				fmt.Println("signed attempt", p.Number)
			}
			return nil
		},
	}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	// Output:
	// signed attempt 1
	// signed attempt 2
}

// A mode from a flag, an environment variable or a configuration file.
func ExampleMode() {
	var m retrip.Mode
	if err := m.UnmarshalText([]byte("adaptive")); err != nil {
		fmt.Println(err)
	}
	s := m.Strategy()
	fmt.Println(m, s.MaxAttempts)
	fmt.Println(m.UnmarshalText([]byte("turbo")))
	// Output:
	// adaptive 3
	// retrip: unknown mode "turbo": use one of standard, legacy, adaptive, gated
}

// HintHeader reads waits from a service's own header.
func ExampleHintHeader() {
	s := retrip.Standard()
	s.Hints = slices.Insert(s.Hints, 0, retrip.HintReader(
		retrip.HintHeader{Name: "X-Backoff-Millis", Format: retrip.Milliseconds}))
	fmt.Println(s.Hints[0])
	// Output: X-Backoff-Millis (milliseconds)
}

// Any strategy takes a gate. This server stops answering: two requests are
// retried, and then each is sent once until the server is back.
func ExampleGate() {
	gate := new(retrip.Gate)
	s := quick()
	s.Quota = gate
	up, sent := false, 0
	client := &http.Client{Transport: &retrip.Transport{Strategy: s, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		sent++
		if up {
			return answerWith(req, http.StatusOK, ""), nil
		}
		return nil, os.ErrDeadlineExceeded // as a read that times out
	})}}
	get := func() {
		before := sent
		if resp, err := client.Get("http://example.com/"); err == nil {
			resp.Body.Close()
		}
		fmt.Print(sent-before, " ")
	}
	for range 6 {
		get()
	}
	fmt.Println("attempts;", gate)
	up = true
	for range 4 {
		get()
	}
	fmt.Println("attempts;", gate)
	// Output:
	// 3 3 1 1 1 1 attempts; gate with doubt 8
	// 1 1 1 1 attempts; gate with doubt 0
}

// The limiter's state, as a monitoring page might show it.
func ExampleLimiter() {
	s := retrip.Adaptive()
	state := s.Limiter.State()
	fmt.Println(state.Enabled, state.Waiting)
	// Output: false 0
}
