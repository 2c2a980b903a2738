package retrip_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A mock transport is a base like any other: tests of a program that uses
// retrip need no server. (httpmock does not read request bodies, so what is
// promised of those is tested elsewhere.)
func TestOverAMockTransport(t *testing.T) {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("GET", "https://api.example.com/items",
		httpmock.NewStringResponder(503, "not yet").
			Then(httpmock.NewErrorResponder(io.ErrUnexpectedEOF)).
			Then(httpmock.NewJsonResponderOrPanic(200, []string{"a", "b"})))
	s := retrip.Standard()
	s.Backoff = retrip.Constant{Wait: time.Millisecond}
	client := &http.Client{Transport: &retrip.Transport{Base: mock, Strategy: s}}

	resp, err := client.Get("https://api.example.com/items")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, `["a","b"]`, string(body))
	require.Equal(t, 3, mock.GetTotalCallCount())

	_, err = client.Get("https://api.example.com/elsewhere")
	require.ErrorContains(t, err, "no responder found", "the base's own words come through")
}

// A strategy for some requests, and a number of attempts for others.
func ExampleWithStrategy() {
	patient := retrip.Legacy()
	patient.MaxAttempts = 10
	ctx := retrip.WithStrategy(context.Background(), patient)
	ctx = retrip.WithMaxAttempts(ctx, 2) // of both, this wins
	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.com/", nil)
	fmt.Println(req.URL.Host, err)
	// Output: example.com <nil>
}

// An error of one's own transport that is worth a retry, or is not.
func ExampleErrorIs() {
	errBusy := errors.New("the tunnel is busy")
	errClosed := errors.New("the tunnel is closed")
	s := retrip.Standard()
	s.Classifiers = append([]retrip.Classifier{
		retrip.On(retrip.Throttled, retrip.ErrorIs(errBusy)),
		retrip.On(retrip.Permanent, retrip.ErrorIs(errClosed)),
		retrip.On(retrip.Permanent, retrip.ErrorAs[*http.MaxBytesError]()),
	}, s.Classifiers...)
	fmt.Println(s.Classifiers[0].Classify(retrip.Attempt{Err: fmt.Errorf("sending: %w", errBusy)}))
	// Output: throttled
}

// One strategy as the pattern for many, each with a quota of its own.
func ExampleStrategy_Clone() {
	pattern := retrip.Standard()
	pattern.MaxAttempts = 5
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy { return pattern.Clone() },
	}
	_ = transport
	fmt.Println(pattern.Clone().MaxAttempts)
	// Output: 5
}

// Validate finds at the start what RoundTrip would report at the first request.
func ExampleTransport_Validate() {
	s := retrip.Standard()
	s.MaxAttempts = 0
	s.Backoff = retrip.FullJitter{Base: time.Minute, Cap: time.Second}
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output:
	// retrip: Transport.Strategy.MaxAttempts is 0: use 1 for no retries, or more
	// Strategy.Backoff starts at 1m0s, above its cap of 1s: lower the base or raise the cap
}
