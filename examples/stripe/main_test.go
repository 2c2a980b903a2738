package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), "\n5 calls, 9 requests, 4 payments.\n"), out.String())
}

// A payment that failed once is made once: both requests bring the same body
// and the same key.
func TestPaymentIsMadeOnce(t *testing.T) {
	t.Parallel()
	server := newServer()
	t.Cleanup(server.Close)
	for name, fault := range map[string]faultlayer.Fault{
		"overloaded":     answer(503, "api_error", ""),
		"throttled":      answer(429, "invalid_request_error", ""),
		"conflict":       answer(409, "invalid_request_error", ""),
		"asked for":      answer(400, "invalid_request_error", "true"),
		"not of Stripe":  faultlayer.Answer(502, "bad gateway"),
		"answer is lost": server.loseAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			server.faults.Reset()
			server.faults.Fail(nil, fault)
			made := server.count()
			base := newMeter() // with connections of its own: see TestBelow
			payment, err := pay(t.Context(), newClient(server.URL, over(base)), 2000)
			require.NoError(t, err)
			require.EqualValues(t, 2000, payment.Amount)
			require.Equal(t, fmt.Sprintf(`{"id":"pi_%d","object":"payment_intent","amount":2000,"currency":"eur"}`, made+1),
				string(payment.LastResponse.RawJSON))
			requireHits(t, server, "amount=2000&currency=eur", 2)
			require.EqualValues(t, 2, base.calls.Load())
			require.Equal(t, made+1, server.count())
		})
	}
}

// When a connection that served before breaks, net/http itself replays the
// POST for its key's sake, below retrip and uncounted by it.
func TestBelow(t *testing.T) {
	t.Parallel()
	server := newServer()
	t.Cleanup(server.Close)
	base := newMeter()
	client := newClient(server.URL, over(base))
	_, err := pay(t.Context(), client, 1)
	require.NoError(t, err)

	server.faults.Reset()
	server.faults.Fail(nil, server.loseAnswer)
	_, err = pay(t.Context(), client, 2000)
	require.NoError(t, err)
	requireHits(t, server, "amount=2000&currency=eur", 2)
	require.EqualValues(t, 2, base.calls.Load(), "one for each payment")
	require.Equal(t, 2, server.count())
}

// Stripe's own word that a retry does not help ends the call.
func TestShouldNotRetry(t *testing.T) {
	t.Parallel()
	server := newServer()
	t.Cleanup(server.Close)
	base := newMeter()
	server.faults.Fail(nil, answer(500, "api_error", "false"))
	_, err := pay(t.Context(), newClient(server.URL, over(base)), 2000)
	var failure *stripe.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "status 500", failure.Msg)
	requireHits(t, server, "amount=2000&currency=eur", 1)
	require.EqualValues(t, 1, base.calls.Load())
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	server := newServer()
	t.Cleanup(server.Close)
	base := newMeter()
	down := answer(503, "api_error", "true")
	server.faults.Fail(nil, down, down, down, down)
	_, err := newClient(server.URL, over(base)).V1PaymentIntents.Retrieve(t.Context(), "pi_1", nil)
	var failure *stripe.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "status 503", failure.Msg)
	requireHits(t, server, "", 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// stripe-go's own two retries, if left on, make nine requests of three
// attempts: after errors of the network and answers that are not Stripe's.
// Errors that Stripe formats, of which it retries lock timeouts alone, it
// leaves to us.
func TestStripesOwnRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault faultlayer.Fault
		hits  int
	}{
		"not of Stripe": {faultlayer.Answer(503, "no healthy upstream"), 9},
		"of Stripe":     {answer(503, "api_error", "true"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer()
			t.Cleanup(server.Close)
			for range 10 {
				server.faults.Fail(nil, test.fault)
			}
			base := newMeter()
			config := &stripe.BackendConfig{
				HTTPClient:    &http.Client{Transport: over(base)},
				URL:           &server.URL,
				LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
			}
			backends := stripe.NewBackendsWithConfig(config)
			backends.API.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
			client := stripe.NewClient("example", stripe.WithBackends(backends))
			_, err := pay(t.Context(), client, 2000)
			require.Error(t, err)
			requireHits(t, server, "amount=2000&currency=eur", test.hits)
			require.EqualValues(t, test.hits, base.calls.Load())
			require.Zero(t, server.count())
		})
	}
}

// over is a transport over a base.
func over(base http.RoundTripper) *retrip.Transport {
	return &retrip.Transport{Base: base, PerKey: strategy}
}

// A meter counts the calls of a base.
type meter struct {
	http.RoundTripper
	calls atomic.Int64
}

func newMeter() *meter { return &meter{RoundTripper: new(http.Transport)} }

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.calls.Add(1)
	return m.RoundTripper.RoundTrip(req)
}

// requireHits wants n requests to have arrived, all with the same body and key.
func requireHits(t *testing.T, s *server, body string, n int) {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := s.faults.Hits()
	require.Len(t, hits, n)
	sum := sha256.Sum256([]byte(body))
	for _, hit := range hits {
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
		require.Equal(t, hits[0].Header["Idempotency-Key"], hit.Header["Idempotency-Key"])
	}
}
