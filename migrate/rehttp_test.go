package migrate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// Attempt has the fields of a rehttp.Attempt, and RetryFn and DelayFn are as
// there: types with a name.
type Attempt struct {
	Index    int
	Request  *http.Request
	Response *http.Response
	Error    error
}

type (
	RetryFn func(Attempt) bool
	DelayFn func(Attempt) time.Duration
)

var (
	upTo3 RetryFn = func(a Attempt) bool { return a.Index < 3 && (a.Error != nil || a.Response.StatusCode >= 429) }
	steps DelayFn = func(a Attempt) time.Duration { return time.Duration(a.Index+1) * time.Second }
)

func TestRehttp(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answers []answer
		waits   []time.Duration
		status  int
		err     error
	}{
		"success":       {answers: []answer{{status: 200}}, status: 200},
		"not retried":   {answers: []answer{{status: 404}}, status: 404},
		"failure":       {answers: []answer{{status: 500}, {status: 200}}, waits: seconds(1), status: 200},
		"throttled":     {answers: []answer{{status: 429}, {status: 200}}, waits: seconds(1), status: 200},
		"many failures": {answers: []answer{{status: 500, body: "last words"}}, waits: seconds(1, 2, 3), status: 500},
		"many errors":   {answers: []answer{{err: errBroken}}, waits: seconds(1, 2, 3), err: errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := call(t, migrate.Rehttp(upTo3, steps), request(t, http.MethodPost, "an order"), row.answers...)
			require.ErrorIs(t, r.err, row.err)
			require.Equal(t, row.status, r.status)
			require.Equal(t, row.waits, b.waits())
			for _, body := range b.bodies {
				require.Equal(t, "an order", body)
			}
		})
	}
}

// Both functions see the whole attempt, and may read the body.
func TestRehttpAttempts(t *testing.T) {
	t.Parallel()
	var retries, delays []Attempt
	req := get(t)
	s := migrate.Rehttp(func(a Attempt) bool {
		retries = append(retries, a)
		return a.Index < 2
	}, func(a Attempt) time.Duration {
		delays = append(delays, a)
		return -time.Second
	})
	b, r := call(t, s, req, answer{status: 503}, answer{err: errBroken}, answer{status: 429, body: "last words"})
	require.Equal(t, "last words", r.body)
	require.Equal(t, seconds(0, 0), b.waits())
	require.Len(t, retries, 3)
	for i, a := range retries {
		require.Equal(t, i, a.Index)
		require.Same(t, req, a.Request)
		require.Equal(t, i == 1, a.Error != nil)
		require.Equal(t, i != 1, a.Response != nil)
	}
	require.Equal(t, 429, retries[2].Response.StatusCode)
	require.Len(t, delays, 2)
	require.Equal(t, 503, delays[0].Response.StatusCode)
	require.Equal(t, Attempt{Index: 1, Request: req, Error: errBroken}, delays[1])

	busy := migrate.RetryFn(func(a Attempt) bool {
		body, err := io.ReadAll(a.Response.Body)
		return err == nil && string(body) == "busy"
	})
	s.Classifiers = []retrip.Classifier{busy}
	b, r = call(t, s, req, answer{status: 200, body: "busy"}, answer{status: 200, body: "done"})
	require.Equal(t, "done", r.body)
	require.Len(t, b.at, 2)
}

func TestRetryFnClasses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		retry  bool
		status int // 0 is an error
		class  retrip.Class
	}{
		{false, 200, retrip.Success}, {false, 302, retrip.Success}, {false, 404, retrip.Permanent},
		{false, 500, retrip.Permanent}, {false, 0, retrip.Permanent},
		{true, 200, retrip.Transient}, {true, 429, retrip.Throttled}, {true, 500, retrip.Transient}, {true, 0, retrip.Transient},
	} {
		var seen error
		rule := migrate.RetryFn(func(a Attempt) bool { seen = a.Error; return row.retry })
		a := retrip.Attempt{Number: 1, Request: get(t), Err: &retrip.AttemptTimeoutError{After: time.Second}}
		if row.status > 0 {
			a.Response, a.Err = &http.Response{StatusCode: row.status, Body: http.NoBody}, nil
		}
		require.Equal(t, row.class, rule.Classify(a), "%+v", row)
		if row.status == 0 {
			require.Equal(t, context.DeadlineExceeded, seen) // rehttp's users compare with ==
		}
	}
}

func TestRehttpRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, migrate.Rehttp[Attempt](nil, steps), "Classifiers[0] is nil")
	refuses(t, migrate.Rehttp(upTo3, DelayFn(nil)), "Backoff is nil")
}

func ExampleRehttp() {
	// The same types as in rehttp, which would be
	// rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryStatuses(503)),
	// rehttp.ConstDelay(time.Second)
	retry := func(a Attempt) bool { return a.Index < 3 && a.Response != nil && a.Response.StatusCode == 503 }
	delay := func(Attempt) time.Duration { return time.Second }
	s := migrate.Rehttp(retry, delay)
	fmt.Println(s.Classifiers[0], "after", s.Backoff)
	// Output: as a rehttp.RetryFn says after a rehttp.DelayFn
}
