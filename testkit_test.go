package retrip

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/stretchr/testify/require"
)

// A step is what a scripted base does with one attempt.
type step func(*http.Request) (*http.Response, error)

// A scriptedBase plays its steps, one for each attempt, and keeps what it was
// sent. It reads and closes request bodies, as the RoundTripper contract
// wants it; the last step serves all further attempts.
type scriptedBase struct {
	steps []step

	mu     sync.Mutex
	got    []sentRequest
	bodies []*trackedBody
}

type sentRequest struct {
	*http.Request
	body string
	at   time.Time
}

func script(steps ...step) *scriptedBase { return &scriptedBase{steps: steps} }

func (b *scriptedBase) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := sentRequest{Request: req, at: time.Now()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if closeErr := req.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		sent.body = string(body)
	}
	b.mu.Lock()
	n := len(b.got)
	b.got = append(b.got, sent)
	play := b.steps[min(n, len(b.steps)-1)]
	b.mu.Unlock()

	resp, err := play(req)
	if resp != nil && resp.Body != nil {
		tracked := &trackedBody{ReadCloser: resp.Body}
		resp.Body = tracked
		b.mu.Lock()
		b.bodies = append(b.bodies, tracked)
		b.mu.Unlock()
	}
	return resp, err
}

// sent returns the attempts so far.
func (b *scriptedBase) sent() []sentRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

// waits returns the times between attempts.
func (b *scriptedBase) waits() []time.Duration {
	var waits []time.Duration
	for i, s := range b.sent()[1:] {
		waits = append(waits, s.at.Sub(b.sent()[i].at))
	}
	return waits
}

// requireClosed checks that every response but the last n was closed once.
func (b *scriptedBase) requireClosed(t *testing.T, n int) {
	t.Helper()
	for i, body := range b.bodies[:len(b.bodies)-n] {
		require.Equal(t, 1, body.closes(), "closes of response body %d", i)
	}
}

// A trackedBody counts its closes and fails reads after the first.
type trackedBody struct {
	io.ReadCloser
	mu sync.Mutex
	n  int
}

func (b *trackedBody) Close() error {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	return b.ReadCloser.Close()
}

func (b *trackedBody) closes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

func (b *trackedBody) Read(p []byte) (int, error) {
	if b.closes() > 0 {
		return 0, errors.New("read after close")
	}
	return b.ReadCloser.Read(p)
}

// opaque is a body that net/http can't reopen.
func opaque(s string) *trackedBody {
	return &trackedBody{ReadCloser: io.NopCloser(onlyReader{strings.NewReader(s)})}
}

type onlyReader struct{ io.Reader }

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

// hangs ends the attempt with its context.
func hangs() step {
	return func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
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

// cost14 is the standard mode with the costs and the backoff that AWS SDKs have
// since 2026.
func cost14() *Strategy {
	s := Standard()
	s.Cost, s.Backoff = 14, FullJitter{50 * time.Millisecond, maxBackoff}
	return s
}

// longest pins the jitter to its upper end, so that waits can be told exactly.
func longest(s *Strategy) *Strategy {
	s.Rand = func() float64 { return 1 }
	return s
}

func newRequest(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://example.com/path?key=value", body)
	require.NoError(t, err)
	return req
}

// get sends a GET with ctx and returns its response, closed, and its error.
func get(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.com/path", nil)
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if resp != nil {
		defer resp.Body.Close()
		body, readErr := io.ReadAll(resp.Body)
		if readErr != nil {
			return nil, readErr
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, err
}

func milliseconds(n ...int) []time.Duration {
	var d []time.Duration
	for _, ms := range n {
		d = append(d, time.Duration(ms)*time.Millisecond)
	}
	return d
}

// countsAllocations skips a test under the race detector, which itself
// allocates; without it, "go test ./..." runs it.
func countsAllocations(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
}

// tokens is what a strategy's quota has left, or -1 if it does not say.
func (s *Strategy) tokens() int { return (&policy{Quota: s.Quota}).tokens() }
