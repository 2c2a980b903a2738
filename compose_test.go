package retrip_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
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

// A rule of several conditions.
func ExampleCondition() {
	limited := retrip.StatusIs(403, 429).And(retrip.HeaderIs("X-RateLimit-Remaining", "0").
		Or(retrip.FieldContains("message", "rate limit")))
	rule := retrip.On(retrip.Throttled, limited)
	fmt.Println(rule)
	fmt.Println(rule.Classify(retrip.Attempt{
		Response: &http.Response{StatusCode: 403}, Body: []byte(`{"message":"Secondary rate limit"}`),
	}))
	// Output:
	// throttled: status 403, 429 and (header X-RateLimit-Remaining: 0 or body message: …rate limit…)
	// throttled
}

// A condition of one's own can be combined like the others.
func ExampleConditionFunc() {
	plain := retrip.ConditionFunc("plain HTTP", func(a retrip.Attempt) bool { return a.Request.URL.Scheme == "http" })
	fmt.Println(retrip.On(retrip.Permanent, plain.And(retrip.StatusIs(503))))
	// Output: permanent: plain HTTP and status 503
}

// A service that documents its code as a refusal: a POST is sent again, too.
func ExampleUnprocessed() {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0,
		retrip.Unprocessed(retrip.On(retrip.Transient, retrip.CodeIs("QueueFull"))))
	fmt.Println(s.Classifiers[0])
	// Output: transient: code QueueFull (not processed)
}

// X-RateLimit-Reset comes with every response, and asks for a wait only after a
// 429.
func ExampleHintWhen() {
	s := retrip.Standard()
	s.Hints = append(s.Hints, retrip.HintWhen(retrip.StatusIs(429),
		retrip.HintHeader{Name: "X-RateLimit-Reset", Format: retrip.EpochSeconds}))
	fmt.Println(s.Hints[len(s.Hints)-1])
	// Output: X-RateLimit-Reset (seconds since 1970), with status 429
}

// A wait in a JSON body.
func ExampleHintField() {
	hint, ok := retrip.HintField("error.retry_after").ReadHint(retrip.Attempt{
		Response: &http.Response{StatusCode: 429}, Body: []byte(`{"error":{"retry_after":1.5}}`),
	})
	fmt.Println(hint.Wait, ok)
	// Output: 1.5s true
}

// A list of rules of one's own: what none fits is a success below status 400,
// and permanent otherwise.
func ExampleTransportErrors() {
	s := retrip.Standard()
	s.Classifiers = []retrip.Classifier{
		retrip.On(retrip.Throttled, retrip.StatusIs(429)),
		retrip.On(retrip.Transient, retrip.StatusIs(502, 503, 504)),
		retrip.TransportErrors(),
	}
	fmt.Println(s.Classifiers[1])
	// Output: transient: status 502, 503, 504
}

// linear waits longer by the same step each time. Transport.Validate reports a
// step that makes no sense.
type linear struct{ step time.Duration }

func (l linear) Delay(r retrip.Retry) (time.Duration, bool) {
	return time.Duration(r.Index+1) * l.step, true
}

func (l linear) Validate() error {
	if l.step < 0 {
		return fmt.Errorf("has a step of %v: use 0 or more", l.step)
	}
	return nil
}

func ExampleValidator() {
	s := retrip.Standard()
	s.Backoff = linear{-time.Second}
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output: retrip: Transport.Strategy.Backoff has a step of -1s: use 0 or more
}

// overloaded reads a status line's text, and only of failures.
type overloaded struct{}

func (overloaded) Classify(a retrip.Attempt) retrip.Class {
	if a.Response != nil && strings.HasSuffix(a.Response.Status, "Overloaded") {
		return retrip.Throttled
	}
	return retrip.Unknown
}

func (overloaded) FailuresOnly() bool { return true }

func ExampleFailureClassifier() {
	var rule retrip.FailureClassifier = overloaded{}
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(rule))
	fmt.Println(rule.Classify(retrip.Attempt{Response: &http.Response{StatusCode: 503, Status: "503 Overloaded"}}))
	// Output: throttled
}
