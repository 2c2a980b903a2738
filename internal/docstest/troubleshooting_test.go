// Package docstest checks what the pages in docs claim.
package docstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A server answers attempts in turns, the last answer again and again.
type server []func(*http.Request) (*http.Response, error)

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	if req.Body != nil {
		_, err := io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	return answer(req)
}

func status(code int, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Add(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Request: req, Body: http.NoBody}, nil
	}
}

func failure(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// try sends a request and returns its events.
func try(t *testing.T, transport *retrip.Transport, req *http.Request) []retrip.Event {
	t.Helper()
	ctx, trace := retrip.WithTrace(req.Context())
	resp, err := transport.RoundTrip(req.WithContext(ctx))
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	require.Len(t, trace.Requests(), 1)
	return trace.Requests()[0]
}

func request(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.com", body)
	require.NoError(t, err)
	return req
}

func last(events []retrip.Event) retrip.Event { return events[len(events)-1] }

// strategy returns the transport's strategies, after a change.
func strategy(change func(*retrip.Strategy)) func(string) *retrip.Strategy {
	return func(string) *retrip.Strategy {
		s := retrip.Standard()
		change(s)
		return s
	}
}

func TestWhyWasMyPOSTNotRetried(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		method, key string
		first       func(*http.Request) (*http.Response, error)
		idempotent  bool
		change      func(*retrip.Strategy)
		attempts    int
		reason      retrip.Reason
	}{
		"503":                   {method: "POST", first: status(503), attempts: 1, reason: retrip.NotIdempotent},
		"PATCH":                 {method: "PATCH", first: status(503), attempts: 1, reason: retrip.NotIdempotent},
		"connection lost":       {method: "POST", first: failure(io.ErrUnexpectedEOF), attempts: 1, reason: retrip.NotIdempotent},
		"PUT":                   {method: "PUT", first: status(503), attempts: 2},
		"no connection":         {method: "POST", first: failure(dial), attempts: 2},
		"425":                   {method: "POST", first: status(425), attempts: 2},
		"429":                   {method: "POST", first: status(429), attempts: 2},
		"throttling code":       {method: "POST", first: status(400, "X-Amzn-Errortype", "ThrottlingException"), attempts: 2},
		"throttling code, 503":  {method: "POST", first: status(503, "X-Amzn-Errortype", "ThrottlingException"), attempts: 2},
		"an Idempotency-Key":    {method: "POST", key: "1", first: status(503), attempts: 2},
		"WithIdempotent":        {method: "POST", idempotent: true, first: status(503), attempts: 2},
		"RetryNonIdempotent":    {method: "POST", change: func(s *retrip.Strategy) { s.RetryNonIdempotent = true }, first: status(503), attempts: 2},
		"permanent":             {method: "POST", first: status(422), attempts: 1, reason: retrip.NotRetryable},
		"a rule of unprocessed": {method: "POST", change: unprocessed, first: status(503), attempts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &retrip.Transport{Base: &server{c.first, status(200)}}
				if c.change != nil {
					transport.PerKey = strategy(c.change)
				}
				req := request(t, c.method, strings.NewReader("order"))
				if c.key != "" {
					req.Header.Set("Idempotency-Key", c.key)
				}
				if c.idempotent {
					req = req.WithContext(retrip.WithIdempotent(req.Context()))
				}
				e := last(try(t, transport, req))
				require.Equal(t, c.attempts, e.Attempt)
				require.Equal(t, c.reason, e.Reason)
			})
		})
	}
}

func unprocessed(s *retrip.Strategy) {
	gateway := retrip.Unprocessed(retrip.On(retrip.Transient, retrip.StatusIs(503)))
	s.Classifiers = append([]retrip.Classifier{gateway}, s.Classifiers...)
}

func TestWhyIsTheWaitNotRetryAfters(t *testing.T) {
	for name, c := range map[string]struct {
		headers  []string
		deadline time.Duration
		change   func(*retrip.Strategy)
		from     string
		wait     time.Duration // 0: less than a second
		reason   retrip.Reason
	}{
		"obeyed":               {headers: []string{"Retry-After", "7"}, from: "Retry-After", wait: 7 * time.Second},
		"shorter than backoff": {headers: []string{"Retry-After", "0.001"}, change: slow, from: "backoff", wait: 3 * time.Second},
		"unreadable":           {headers: []string{"Retry-After", "soon"}, from: "backoff"},
		"another header first": {headers: []string{"Retry-After", "7", "Retry-After-Ms", "9000"}, from: "Retry-After-Ms", wait: 9 * time.Second},
		"AWS's is bounded":     {headers: []string{"X-Amz-Retry-After", "60000"}, change: slow, from: "X-Amz-Retry-After", wait: 8 * time.Second},
		"not read":             {headers: []string{"Retry-After", "7"}, change: func(s *retrip.Strategy) { s.Hints = nil }, from: "backoff"},
		"above the cap":        {headers: []string{"Retry-After", "61"}, from: "Retry-After", wait: 61 * time.Second, reason: retrip.WaitOverCap},
		"beyond the deadline":  {headers: []string{"Retry-After", "7"}, deadline: 5 * time.Second, from: "Retry-After", wait: 7 * time.Second, reason: retrip.WaitOverDeadline},
		"a date, by its Date": {headers: []string{
			"Date", "Sun, 02 Jan 2005 00:00:00 GMT", "Retry-After", "Sun, 02 Jan 2005 00:00:30 GMT",
		}, from: "Retry-After", wait: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &retrip.Transport{Base: &server{status(503, c.headers...), status(200)}}
				if c.change != nil {
					transport.PerKey = strategy(c.change)
				}
				req := request(t, "GET", nil)
				if c.deadline > 0 {
					ctx, cancel := context.WithTimeout(req.Context(), c.deadline)
					defer cancel()
					req = req.WithContext(ctx)
				}
				e := try(t, transport, req)[0]
				require.Equal(t, c.from, e.WaitFrom)
				require.Equal(t, c.reason, e.Reason)
				if c.wait > 0 {
					require.Equal(t, c.wait, e.Wait)
				} else {
					require.Less(t, e.Wait, time.Second)
				}
				if c.reason != 0 {
					require.Less(t, e.Elapsed, time.Second, "it returns at once")
				}
			})
		})
	}
}

func slow(s *retrip.Strategy) { s.Backoff = retrip.Constant{Wait: 3 * time.Second} }

// The waits of a request count together.
func TestWaitsAddUpToTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &retrip.Transport{Base: &server{status(503, "Retry-After", "40")}}
		events := try(t, transport, request(t, "GET", nil))
		require.Equal(t, 2, last(events).Attempt)
		require.Equal(t, retrip.WaitOverCap, last(events).Reason)
	})
}

func TestWhyIsMyBodyNotReplayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upload")
	require.NoError(t, os.WriteFile(path, []byte("order"), 0o600))
	file := func() *os.File {
		f, err := os.Open(path)
		require.NoError(t, err)
		return f
	}
	for name, c := range map[string]struct {
		body   io.Reader
		broken func(*http.Request)
		says   string // "" if it is replayed
	}{
		"strings.Reader":          {body: strings.NewReader(strings.Repeat("a", 2<<20))},
		"bytes.Buffer":            {body: bytes.NewBuffer(make([]byte, 2<<20))},
		"a file":                  {body: file()},
		"a short stream":          {body: io.MultiReader(strings.NewReader("order"))},
		"a long stream":           {body: io.MultiReader(strings.NewReader(strings.Repeat("a", 2<<20))), says: "longer than Transport.ReplayBuffer"},
		"GetBody fails":           {body: strings.NewReader("order"), broken: func(r *http.Request) { r.GetBody = noBody }, says: "Request.GetBody failed: gone"},
		"GetBody returns nothing": {body: strings.NewReader("order"), broken: func(r *http.Request) { r.GetBody = nilBody }, says: "Request.GetBody returned a nil body"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, "PUT", c.body)
			if c.broken != nil {
				c.broken(req)
			}
			transport := &retrip.Transport{Base: &server{status(503), status(200)}, PerKey: strategy(func(s *retrip.Strategy) { s.Backoff = retrip.Constant{} })}
			e := last(try(t, transport, req))
			if c.says == "" {
				require.Equal(t, 2, e.Attempt)
				require.Equal(t, 200, e.Status)
				return
			}
			require.Equal(t, retrip.BodyNotReplayable, e.Reason)
			require.ErrorContains(t, e.Err, c.says)
		})
	}
}

func noBody() (io.ReadCloser, error)  { return nil, errors.New("gone") }
func nilBody() (io.ReadCloser, error) { return nil, nil }

func TestChangedFileIsNotSentAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upload")
	require.NoError(t, os.WriteFile(path, []byte("order"), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	transport := &retrip.Transport{Base: &server{func(req *http.Request) (*http.Response, error) {
		require.NoError(t, os.WriteFile(path, []byte("another order"), 0o600))
		return status(503)(req)
	}}}
	e := last(try(t, transport, request(t, "PUT", f)))
	require.Equal(t, retrip.BodyNotReplayable, e.Reason)
	require.ErrorContains(t, e.Err, "has changed")
}

// A shared strategy lets a dead host take the retries of a healthy one; PerKey
// does not.
func TestWhyDidItStopRetrying(t *testing.T) {
	for name, c := range map[string]struct {
		shared bool
		reason retrip.Reason
	}{
		"one strategy for all hosts": {true, retrip.QuotaExhausted},
		"one for each host":          {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				healthy := server{status(503), status(200)}
				transport := &retrip.Transport{KeepStats: true, Base: byHost{"dead.example": &server{status(503)}, "healthy.example": &healthy}}
				if c.shared {
					transport.Strategy = retrip.Standard()
				}
				for range 60 {
					req := request(t, "GET", nil)
					req.URL.Host = "dead.example"
					try(t, transport, req)
				}
				require.Equal(t, int64(10), transport.Stats().GivenUp[retrip.QuotaExhausted])
				req := request(t, "GET", nil)
				req.URL.Host = "healthy.example"
				require.Equal(t, c.reason, last(try(t, transport, req)).Reason)
			})
		})
	}
}

type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(req *http.Request) (*http.Response, error) {
	return b[req.URL.Host].RoundTrip(req)
}

// net/http resends a request whose reused connection breaks before the response:
// one attempt, for which the client takes two connections.
func TestNetHTTPResendsWithinAnAttempt(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 2 { // on the connection that the first one left
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer srv.Close()
	transport := new(retrip.Transport)
	defer transport.CloseIdleConnections()
	var connections int
	for range 2 {
		connections = 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections++ }})
		req, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
		require.NoError(t, err)
		events := try(t, transport, req)
		require.Len(t, events, 1)
	}
	require.Equal(t, 2, connections)
	require.Equal(t, int64(3), requests.Load())
}

func TestOuterRetrierShowsInTheEvent(t *testing.T) {
	transport := &retrip.Transport{Base: &server{status(503)}}
	req := request(t, "GET", nil)
	req.Header.Set("Amz-Sdk-Request", "attempt=2; max=3")
	e := last(try(t, transport, req))
	require.Equal(t, 2, e.OuterAttempt)
	require.Equal(t, 1, e.Attempt)
	require.Equal(t, retrip.AttemptsExhausted, e.Reason)
}

// What the page shows of the log.
func TestLogNamesTheReason(t *testing.T) {
	var b strings.Builder
	transport := &retrip.Transport{Base: &server{status(503)}, Observe: retrip.LogTo(slog.New(slog.NewTextHandler(&b, nil)))}
	try(t, transport, request(t, "POST", strings.NewReader("order")))
	require.Regexp(t, `level=WARN msg="giving up on HTTP request" method=POST host=example.com attempt=1 class=transient status=503 reason="not idempotent" elapsed=`, b.String())
}
