package retrip_test

import (
	"context"
	"expvar"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

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

// An observer that counts give-ups by host and reason, for metrics.
func ExampleEvent() {
	server := flaky(3)
	defer server.Close()
	givenUp := map[retrip.Reason]int{}
	transport := &retrip.Transport{
		Strategy: quick(), // of one server
		Observe: func(e retrip.Event) { // called from many goroutines: in a program, with a lock
			if e.Final && e.Reason != 0 {
				givenUp[e.Reason]++
			}
		},
	}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, givenUp)
	// Output: 503 map[attempts exhausted:1]
}

// The kind of an error has no secrets in it, and few values: it fits a metric.
func ExampleEvent_ErrorKind() {
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "secret.example", IsNotFound: true}}
	fmt.Println(retrip.Event{Err: unknown}.ErrorKind())
	fmt.Println(retrip.Event{Err: &retrip.AttemptTimeoutError{After: time.Second}}.ErrorKind())
	// Output:
	// dns
	// timeout
}

// A program may react to the reason why there was no retry.
func ExampleReason() {
	for _, reason := range []retrip.Reason{retrip.AttemptsExhausted, retrip.QuotaExhausted, retrip.NotIdempotent, retrip.Cancelled} {
		switch reason {
		case retrip.QuotaExhausted, retrip.WaitOverCap:
			fmt.Println(reason, "→ send fewer requests")
		case retrip.Cancelled:
			fmt.Println(reason, "→ nothing to do")
		default:
			fmt.Println(reason, "→ report the error")
		}
	}
	// Output:
	// attempts exhausted → report the error
	// quota exhausted → send fewer requests
	// not idempotent → report the error
	// cancelled → nothing to do
}

// A client that follows redirects makes several requests, each with attempts of
// its own.
func ExampleTrace() {
	server := flaky(1)
	defer server.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(server.URL, http.StatusFound))
	defer redirecting.Close()
	client := &http.Client{Transport: &retrip.Transport{
		PerKey: func(string) *retrip.Strategy { return quick() },
	}}
	ctx, trace := retrip.WithTrace(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", redirecting.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	for i, events := range trace.Requests() {
		fmt.Println("request", i+1, "took", len(events), "attempts")
	}
	// Output:
	// request 1 took 1 attempts
	// request 2 took 2 attempts
}

// observedTransport is one that has sent requests to two hosts, of which one fails.
func observedTransport() *retrip.Transport {
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy { return quick() },
		Base: step(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "sick.example.com" {
				return status(503)(req)
			}
			return status(200)(req)
		}),
		KeepStats: true,
	}
	client := &http.Client{Transport: transport}
	for _, host := range []string{"sick", "well", "well"} {
		if resp, err := client.Get("http://" + host + ".example.com/"); err == nil {
			resp.Body.Close()
		}
	}
	return transport
}

// Sums since the start, for a log line or a health page.
func ExampleStats() {
	transport := observedTransport() // with KeepStats
	var s retrip.Stats = transport.Stats()
	fmt.Println(s.Requests, "requests,", s.Attempts, "attempts,", s.Retries, "retries; given up:", s.GivenUp)
	// Output: 3 requests, 5 attempts, 2 retries; given up: map[attempts exhausted:1]
}

// The hosts whose quota is not full have trouble.
func ExampleTransport_Keys() {
	transport := observedTransport()
	for k := range transport.Keys() {
		if k.Tokens < k.Capacity {
			fmt.Println(k.Key, k.Tokens, "of", k.Capacity, "tokens")
		}
	}
	// Output: sick.example.com 490 of 500 tokens
}

// A KeyStats has the counts of one host and what is kept for it.
func ExampleKeyStats() {
	for k := range observedTransport().Keys() {
		fmt.Println(k.Key, k.Requests, k.Retries, k.Limiter.Enabled, k.Skew)
	}
	// Unordered output:
	// sick.example.com 1 2 false 0s
	// well.example.com 2 0 false 0s
}

// Everything as JSON at /debug/vars.
func ExampleTransport_Vars() {
	transport := observedTransport()
	vars := expvar.Func(transport.Vars) // expvar.Publish("retrip", vars)
	fmt.Println(strings.Contains(vars.String(), `"GivenUp":{"attempts exhausted":1}`))
	// Output: true
}
