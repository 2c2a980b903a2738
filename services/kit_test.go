package services_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// An answer is what a service said to the first attempt.
type answer struct {
	method string // GET if empty; "POST with a key" has an Idempotency-Key
	status int
	header string // lines of "Name: value"
	body   string
}

func (a answer) step() testkit.Step {
	var lines []string
	if a.body != "" && !strings.Contains(a.header, "Content-Type: ") {
		lines = append(lines, "Content-Type: application/json")
	}
	for line := range strings.Lines(a.header) {
		if line = strings.TrimSpace(line); strings.Contains(line, ": ") {
			lines = append(lines, line)
		}
	}
	return testkit.Answer(a.status, a.body, lines...)
}

// An outcome is what a request came to.
type outcome struct {
	*testkit.Base
	events []retrip.Event
}

// send sends a request with s to a service that gives the answers in turn and
// then 200. The jitter is pinned to its upper end: a retry waits 100 ms on our
// own account, or 1 s after throttling.
func send(t *testing.T, s *retrip.Strategy, answers ...answer) (o outcome) {
	t.Helper()
	var steps []testkit.Step
	for _, a := range append(answers, answer{status: 200}) {
		steps = append(steps, a.step())
	}
	o.Base = testkit.Script(steps...)
	s.Rand = func() float64 { return 1 }
	transport := &retrip.Transport{
		Strategy: s,
		Observe:  func(e retrip.Event) { o.events = append(o.events, e) },
		Base:     o.Base,
	}
	method, key, _ := strings.Cut(answers[0].method, " with a ")
	text, body := "", io.Reader(nil)
	if method == http.MethodPost {
		text = "the body"
		body = strings.NewReader(text)
	}
	req := testkit.RequestTo(t, method, "https://service.example/path", body)
	if key != "" {
		req.Header.Set("Idempotency-Key", "1")
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for i, sent := range o.Sent() {
		require.Equal(t, text, sent.Content, "attempt %d", i+1)
	}
	return o
}
