package retrip_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// Validate finds at the start what RoundTrip would report at the first request.
func ExampleTransport_Validate() {
	s := retrip.Standard()
	s.MaxAttempts = 0
	s.Backoff = retrip.FullJitter{Base: time.Minute, Cap: time.Second}
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output:
	// retrip: Transport.Strategy.MaxAttempts is 0: use 1 for no retries, or more
	// Strategy.Backoff starts at 1m0s, above its cap of 1s: lower the base or raise the cap
}

// A Transport wraps any other, and each host has a strategy of its own.
func ExampleTransport() {
	server := flaky(2)
	defer server.Close()
	transport := &retrip.Transport{
		Base:           http.DefaultTransport,
		PerKey:         func(string) *retrip.Strategy { return quick() },
		AttemptTimeout: 5 * time.Second,
		KeepStats:      true,
	}
	client := &http.Client{Transport: transport, Timeout: time.Minute} // of all attempts and waits
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", transport.Stats().Attempts, "attempts")
	// Output: 200 after 3 attempts
}

// Tenants of one API that are limited one by one have a quota of their own.
// The key must not hold a secret: events show it.
func ExampleTransport_key() {
	transport := &retrip.Transport{
		Key: func(req *http.Request) string {
			return retrip.HostKey(req) + " " + req.Header.Get("X-Tenant")
		},
		MaxKeys: 10_000,
	}
	fmt.Println(transport.Validate())
	// Output: <nil>
}

// A stream can't be reopened, so what was sent of it is kept: here up to 10 bytes.
// Request.GetBody and an *os.File need no memory.
func ExampleTransport_replayBuffer() {
	server := flaky(2)
	defer server.Close()
	transport := &retrip.Transport{
		Strategy:     quick(), // of one server
		ReplayBuffer: 10,
		Observe: func(e retrip.Event) {
			fmt.Println("attempt", e.Attempt, e.Status, e.Reason)
		},
	}
	client := &http.Client{Transport: transport}
	for _, text := range []string{"too long a body", "a body"} {
		stream := io.MultiReader(strings.NewReader(text)) // net/http can't reopen it
		req, _ := http.NewRequest("PUT", server.URL, stream)
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	// Output:
	// attempt 1 503 body not replayable
	// attempt 1 503 none
	// attempt 2 200 none
}

// A setting of the transport below, whoever made it.
func ExampleTransport_Unwrap() {
	transport := &retrip.Transport{} // makes its own base
	defer transport.CloseIdleConnections()
	if base, ok := transport.Unwrap().(*http.Transport); ok {
		base.MaxConnsPerHost = 20
		fmt.Println(base.MaxConnsPerHost)
	}
	// Output: 20
}

// The key of a host does not depend on how its URL is spelled.
func ExampleHostKey() {
	for _, url := range []string{"https://API.example.com:443/v1", "https://api.example.com./v2", "http://api.example.com:8080"} {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(retrip.HostKey(req))
	}
	// Output:
	// api.example.com
	// api.example.com
	// api.example.com:8080
}

// A POST to a service that honours keys gets one, and is then retried with it.
func ExampleIdempotencyKeyTransport() {
	seen := map[string]int{}
	payments := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		key := req.Header.Get("Idempotency-Key")
		if seen[key]++; seen[key] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer payments.Close()
	client := &http.Client{Transport: &retrip.IdempotencyKeyTransport{
		Hosts: []string{strings.TrimPrefix(payments.URL, "http://")}, // or "api.stripe.com"
		Base:  &retrip.Transport{PerKey: func(string) *retrip.Strategy { return quick() }},
	}}
	resp, err := client.Post(payments.URL, "text/plain", strings.NewReader("10 euros"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "with", len(seen), "key")
	// Output: 200 with 1 key
}

// Prepare learns which attempt it prepares, what became of the one before, and
// how far the server's clock is ahead of ours.
func ExamplePrepareInfo() {
	server := flaky(1)
	defer server.Close()
	transport := &retrip.Transport{
		Strategy: quick(), // of one server
		Prepare: func(req *http.Request, p retrip.PrepareInfo) error {
			fmt.Println("attempt", p.Number, "after:", p.Last, "skew:", p.Skew)
			return nil
		},
	}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// attempt 1 after: unknown skew: 0s
	// attempt 2 after: transient skew: 0s
}

// The reasons why retrying stopped are told apart by errors.Is.
func ExampleError_Is() {
	server := flaky(0)
	server.Close()
	s := quick()
	s.Quota = retrip.NewBucket(5) // one retry
	_, err := (&http.Client{Transport: &retrip.Transport{Strategy: s}}).Get(server.URL)
	switch {
	case errors.Is(err, retrip.ErrQuotaExhausted):
		fmt.Println("most requests fail: try again later")
	case errors.Is(err, retrip.ErrWaitOverCap), errors.Is(err, retrip.ErrWaitOverDeadline):
		fmt.Println("the server asks for a longer wait")
	case err != nil:
		fmt.Println(err)
	}
	// Output: most requests fail: try again later
}

// An attempt that hangs is given up and retried, while the caller's own deadline
// is far away.
func ExampleAttemptTimeoutError() {
	transport := &retrip.Transport{
		Strategy:       quick(), // of one server
		AttemptTimeout: 5 * time.Millisecond,
		Base: step(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done() // a server that never answers
			return nil, req.Context().Err()
		}),
	}
	_, err := (&http.Client{Transport: transport}).Get("http://slow.example.com/")
	var timeout *retrip.AttemptTimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout)
		fmt.Println("the caller's deadline:", errors.Is(err, context.DeadlineExceeded))
	}
	// Output:
	// no response headers within the attempt timeout of 5ms
	// the caller's deadline: false
}
