package services_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// An answer is what a service said to the first attempt.
type answer struct {
	method string // GET if empty; "POST with a key" has an Idempotency-Key
	status int
	header string // lines of "Name: value"
	body   string
}

func (a answer) response(req *http.Request) *http.Response {
	h := http.Header{}
	for line := range strings.Lines(a.header) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			h.Add(name, value)
		}
	}
	if a.body != "" && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{
		StatusCode: a.status, Header: h, Request: req,
		Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}
}

// An outcome is what a request came to.
type outcome struct {
	sent   []time.Time
	events []retrip.Event
}

// send sends a request with s to a service that gives the answers in turn and
// then 200. The jitter is pinned to its upper end: a retry waits 100 ms on our
// own account, or 1 s after throttling.
func send(t *testing.T, s *retrip.Strategy, answers ...answer) (o outcome) {
	t.Helper()
	s.Rand = func() float64 { return 1 }
	transport := &retrip.Transport{
		Strategy: s,
		Observe:  func(e retrip.Event) { o.events = append(o.events, e) },
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			n := len(o.sent)
			o.sent = append(o.sent, time.Now())
			if req.Body != nil {
				body, err := io.ReadAll(req.Body)
				if err != nil || string(body) != "the body" {
					t.Errorf("attempt %d was sent with the body %q, %v", n+1, body, err)
				}
				_ = req.Body.Close()
			}
			if n < len(answers) {
				return answers[n].response(req), nil
			}
			return answer{status: 200}.response(req), nil
		}),
	}
	method, key, _ := strings.Cut(answers[0].method, " with a ")
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("the body")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://service.example/path", body)
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Idempotency-Key", "1")
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return o
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
