package aws_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A step is what a scripted base does with one attempt.
type step func(*http.Request) (*http.Response, error)

// A scriptedBase plays its steps, one for each attempt, and keeps when they
// began. The last step serves all further attempts.
type scriptedBase struct {
	steps []step

	mu  sync.Mutex
	got []time.Time
}

func script(steps ...step) *scriptedBase { return &scriptedBase{steps: steps} }

func (b *scriptedBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	play := b.steps[min(len(b.got), len(b.steps)-1)]
	b.got = append(b.got, time.Now())
	b.mu.Unlock()
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
	}
	return play(req)
}

// sent returns when the attempts so far began.
func (b *scriptedBase) sent() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

// waits returns the times between attempts.
func (b *scriptedBase) waits() (waits []time.Duration) {
	sent := b.sent()
	for i := range sent[1:] {
		waits = append(waits, sent[i+1].Sub(sent[i]))
	}
	return waits
}

// status answers with a status, headers ("Name: value") and a plain body.
func status(code int, headers ...string) step {
	return answer(code, "body of "+http.StatusText(code), headers...)
}

func answer(code int, body string, headers ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		return &http.Response{
			StatusCode: code, Header: h, Request: req,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

func jsonError(code int, name string) step {
	return answer(code, `{"__type":"`+name+`","message":"no"}`, "Content-Type: application/x-amz-json-1.0")
}

// fails ends the attempt with an error.
func fails(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// longest pins the jitter to its upper end, so that waits can be told exactly.
func longest(s *retrip.Strategy) *retrip.Strategy {
	s.Rand = func() float64 { return 1 }
	return s
}

func newRequest(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://example.com/path", body)
	require.NoError(t, err)
	return req
}

// get sends a GET with ctx and reads its response to the end.
func get(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.com/path", nil)
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if resp != nil {
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
	}
	return resp, err
}

// classOf is the class of what one attempt gives.
func classOf(t *testing.T, s *retrip.Strategy, play step) retrip.Class {
	t.Helper()
	ctx, trace := retrip.WithTrace(retrip.WithMaxAttempts(t.Context(), 1))
	_, _ = get(ctx, &retrip.Transport{Base: script(play), Strategy: s})
	return trace.Requests()[0][0].Class
}

func milliseconds(n ...int) []time.Duration {
	var d []time.Duration
	for _, ms := range n {
		d = append(d, time.Duration(ms)*time.Millisecond)
	}
	return d
}
