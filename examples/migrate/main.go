// Migrate sends requests with other retry packages, then with retrip and the
// very same policies, and prints what became of them. It needs no network.
//
//	go run .
//
// The policies go over as they are, in package migrate (policies.go). The tests
// compare both ways over thousands of outcomes: the same attempts, at the same
// times, but for what docs/migrate.md lists.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

// A scene is a kind of trouble, and how often it is met.
type scene struct {
	title  string
	ways   ways
	server server
	calls  int           // 1 if it is 0
	give   time.Duration // that the caller has; 0 is for ever
	cancel bool          // then, rather than a deadline
}

var scenes = []scene{
	{
		title: "go-retryablehttp, a server that stays down: its answer",
		ways:  retryable, server: server{failures: always},
	},
	{
		title: "go-retryablehttp, a server that comes back",
		ways:  retryable, server: server{failures: 2},
	},
	{
		title: "go-retryablehttp, a server that asks for more time than there is",
		ways:  retryable, server: server{failures: 1, retryAfter: "60"}, give: 200 * time.Millisecond,
	},
	{
		title: "rehttp, a server that comes back",
		ways:  re, server: server{failures: 2},
	},
	{
		title: "rehttp, a caller who has enough: the reason",
		ways:  patient, server: server{failures: always}, give: 50 * time.Millisecond, cancel: true,
	},
	{
		title: "cenkalti/backoff, a server that comes back",
		ways:  backOff, server: server{failures: 2},
	},
	{
		title: "rehttp, a hundred requests to a server that is down: the load",
		ways:  re, server: server{failures: always}, calls: 100,
	},
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	var before, after tally
	for _, s := range scenes {
		fmt.Fprintln(w, s.title)
		for _, side := range []struct {
			name string
			over func(http.RoundTripper) http.RoundTripper
			all  *tally
		}{{"before", s.ways.before, &before}, {"after", s.ways.after, &after}} {
			base := s.server
			transport := side.over(&base)
			var t tally
			var last string
			for range max(s.calls, 1) {
				last = s.call(transport, &t)
			}
			t.attempts = base.attempts
			side.all.add(t)
			fmt.Fprintf(w, "  %-7s %v; the last: %s\n", side.name, t, last)
		}
	}
	_, err := fmt.Fprintf(w, "In all\n  before  %v\n  after   %v\n", before, after)
	return err
}

// A tally is what a number of calls came to.
type tally struct{ calls, attempts, answers int }

func (t *tally) add(more tally) {
	t.calls += more.calls
	t.attempts += more.attempts
	t.answers += more.answers
}

func (t tally) String() string {
	return fmt.Sprintf("calls: %d, attempts: %d, answers: %d", t.calls, t.attempts, t.answers)
}

// call makes one request and says what became of it.
func (s scene) call(transport http.RoundTripper, t *tally) string {
	t.calls++
	ctx, cancel := context.WithCancel(context.Background())
	if s.give > 0 && !s.cancel {
		ctx, cancel = context.WithTimeout(ctx, s.give)
	}
	defer cancel()
	if s.cancel {
		time.AfterFunc(s.give, cancel)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	t.answers++
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %q", resp.Status, text)
}

// A server refuses some requests and then serves.
type server struct {
	failures   int
	retryAfter string
	attempts   int // so far
}

const always = 1 << 30

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{}, Request: req}
	text := "hello"
	if s.attempts++; s.attempts <= s.failures {
		resp.Status, resp.StatusCode = "503 Service Unavailable", http.StatusServiceUnavailable
		text = "back at noon"
		if s.retryAfter != "" {
			resp.Header.Set("Retry-After", s.retryAfter)
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return resp, nil
}
