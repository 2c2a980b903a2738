package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, `20 requests, breaker open  rule       attempts  quota left
failsafe-go                none       60        300 of 500
failsafe-go                permanent  20        500 of 500
gobreaker                  none       60        300 of 500
gobreaker                  permanent  20        500 of 500
`, out.String())
}

// A server answers each request after a time, and keeps the bodies.
type server struct {
	takes time.Duration

	mu     sync.Mutex
	bodies []string
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	var text []byte
	if req.Body != nil {
		text, _ = io.ReadAll(req.Body) // in memory
		_ = req.Body.Close()
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, string(text))
	s.mu.Unlock()
	time.Sleep(s.takes) // in the bubble's time, or 0
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func post(t *testing.T, transport http.RoundTripper) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://host/", strings.NewReader("order"))
	require.NoError(t, err)
	return transport.RoundTrip(req)
}

// The caller gets the breaker's own error at once, and nothing is sent.
func TestOpenBreakerEndsTheRequest(t *testing.T) {
	for name, row := range map[string]struct {
		open func(http.RoundTripper) http.RoundTripper
		err  error
	}{
		"failsafe-go": {openFailsafe, circuitbreaker.ErrOpen},
		"gobreaker":   {openGobreaker, gobreaker.ErrOpenState},
		"gobreaker, half open": {func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) { return nil, gobreaker.ErrTooManyRequests })
		}, gobreaker.ErrTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(server)
				transport := &retrip.Transport{Base: row.open(s), PerKey: standardOverBreaker}
				start := time.Now()
				_, err := post(t, transport)
				require.Equal(t, row.err, err)
				require.Zero(t, time.Since(start))
				require.Empty(t, s.got())
				require.False(t, errors.As(err, new(*retrip.Error)))
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A hedging policy below retrip sends a POST twice, in one attempt.
func TestHedgingBelowRepeatsAPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: 10 * time.Second}
		var events []retrip.Event
		transport := &retrip.Transport{
			Base:    failsafehttp.NewRoundTripper(s, hedgepolicy.NewWithDelay[*http.Response](time.Second)),
			Observe: func(e retrip.Event) { events = append(events, e) },
		}
		_, err := post(t, transport)
		require.NoError(t, err)
		require.Len(t, s.got(), 2)
		require.Len(t, events, 1)
		require.Equal(t, 1, events[0].Attempt)
		time.Sleep(time.Minute) // in the bubble's time, for the request that lost
	})
}
