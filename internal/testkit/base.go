// Package testkit is what the tests of several packages are built from: bases
// that follow a script, bodies that count, requests, and servers. It knows
// nothing of retrip, so that the tests inside its package can import it, too;
// strategies are built in each package's own testkit_test.go or kit_test.go.
package testkit

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Step is what a base does with one attempt. Alone, it is a base that does so
// with every attempt.
type Step func(*http.Request) (*http.Response, error)

// RoundTrip calls the step.
func (s Step) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// A Base plays its steps, one for each attempt, and keeps what it was sent. It
// reads and closes request bodies, as the RoundTripper contract wants it; the
// last step serves all further attempts.
type Base struct {
	mu     sync.Mutex
	steps  []Step
	sent   []Sent
	bodies []*Body
}

// Sent is one attempt that reached a Base.
type Sent struct {
	*http.Request
	Content string // of its body
	At      time.Time
}

// Script returns a Base with these steps.
func Script(steps ...Step) *Base { return &Base{steps: steps} }

// Begin makes the Base forget what it was sent, and sets its steps if there are any.
func (b *Base) Begin(steps ...Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = nil
	if len(steps) > 0 {
		b.steps = steps
	}
}

// RoundTrip plays the next step.
func (b *Base) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := Sent{Request: req, At: time.Now()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if closeErr := req.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		sent.Content = string(body)
	}
	b.mu.Lock()
	play := b.steps[min(len(b.sent), len(b.steps)-1)]
	b.sent = append(b.sent, sent)
	b.mu.Unlock()

	resp, err := play(req)
	if resp != nil && resp.Body != nil {
		counted := &Body{ReadCloser: resp.Body}
		resp.Body = counted
		b.mu.Lock()
		b.bodies = append(b.bodies, counted)
		b.mu.Unlock()
	}
	return resp, err
}

// Sent returns the attempts so far.
func (b *Base) Sent() []Sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}

// Waits returns the times between attempts.
func (b *Base) Waits() []time.Duration {
	var waits []time.Duration
	sent := b.Sent()
	for i := range sent[1:] {
		waits = append(waits, sent[i+1].At.Sub(sent[i].At))
	}
	return waits
}

// Bodies returns those of the responses so far.
func (b *Base) Bodies() []*Body {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bodies
}

// RequireClosed checks that every response but the last n was closed once.
func (b *Base) RequireClosed(t testing.TB, n int) {
	t.Helper()
	bodies := b.Bodies()
	for i, body := range bodies[:len(bodies)-n] {
		require.Equal(t, 1, body.Closes(), "closes of response body %d", i)
	}
}

// Status answers with a status, headers ("Name: value") and a plain body.
func Status(code int, headers ...string) Step {
	return Answer(code, "body of "+http.StatusText(code), headers...)
}

// Answer answers with a body of known length, which gives nothing once it is closed.
func Answer(code int, content string, headers ...string) Step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := Stream(code, &Body{ReadCloser: io.NopCloser(strings.NewReader(content))}, headers...)(req)
		resp.ContentLength = int64(len(content))
		return resp, err
	}
}

// Stream answers with a body of the test's making, the same each time.
func Stream(code int, body io.Reader, headers ...string) Step {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		closer, ok := body.(io.ReadCloser)
		if !ok {
			closer = io.NopCloser(body)
		}
		return &http.Response{StatusCode: code, Header: h, Request: req, Body: closer, ContentLength: -1}, nil
	}
}

// Empty answers with a status and nothing else.
func Empty(code int) Step {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: http.NoBody}, nil
	}
}

// Same answers with one response each time, and allocates nothing.
func Same(resp *http.Response) Step {
	return func(*http.Request) (*http.Response, error) { return resp, nil }
}

// JSONError answers with an error code in a JSON body.
func JSONError(code int, name string) Step {
	return Answer(code, `{"__type":"`+name+`","message":"no"}`, "Content-Type: application/x-amz-json-1.0")
}

// Fails ends the attempt with an error.
func Fails(err error) Step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// Hangs ends the attempt with its context.
func Hangs() Step {
	return func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
}

// A Counter is a base that counts its calls, what is read of its responses, and
// their closes.
type Counter struct {
	http.RoundTripper
	calls  atomic.Int64
	mu     sync.Mutex
	bodies []*Body
}

// Count returns a Counter over a base.
func Count(base http.RoundTripper) *Counter { return &Counter{RoundTripper: base} }

// RoundTrip passes the request on.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	resp, err := c.RoundTripper.RoundTrip(req)
	if resp != nil && resp.Body != http.NoBody {
		body := &Body{ReadCloser: resp.Body}
		resp.Body = body
		c.mu.Lock()
		c.bodies = append(c.bodies, body)
		c.mu.Unlock()
	}
	return resp, err
}

// Calls returns how often RoundTrip was called.
func (c *Counter) Calls() int { return int(c.calls.Load()) }

// RequireClosed checks that each response is closed once, soon if not yet, and
// that at most so many bytes were read of it.
func (c *Counter) RequireClosed(t testing.TB, most int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		Eventually(t, func() bool { return body.Closes() == 1 }, "the close of a response's body")
		require.LessOrEqual(t, body.BytesRead(), most)
	}
}
