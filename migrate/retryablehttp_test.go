package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// retryable is a policy of three retries, with waits of 1 s, 2 s and 3 s.
func retryable(check func(context.Context, *http.Response, error) (bool, error)) migrate.RetryableHTTP {
	return migrate.RetryableHTTP{
		CheckRetry: check,
		Backoff: func(lowest, highest time.Duration, attemptNum int, _ *http.Response) time.Duration {
			return min(lowest*time.Duration(attemptNum+1), highest)
		},
		RetryWaitMin: time.Second, RetryWaitMax: 3 * time.Second, RetryMax: 3,
	}
}

func on5xx(_ context.Context, resp *http.Response, err error) (bool, error) {
	return err != nil || resp.StatusCode >= 500, nil
}

func TestRetryableHTTP(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answers []answer
		waits   []time.Duration
		status  int
		err     error
	}{
		"success":        {answers: []answer{{status: 200}}, status: 200},
		"client's fault": {answers: []answer{{status: 404}}, status: 404},
		"failure":        {answers: []answer{{status: 500}, {status: 200}}, waits: seconds(1), status: 200},
		"error":          {answers: []answer{{err: errBroken}, {status: 200}}, waits: seconds(1), status: 200},
		"many failures":  {answers: []answer{{status: 500, body: "last words"}}, waits: seconds(1, 2, 3), status: 500},
		"many errors":    {answers: []answer{{err: errBroken}}, waits: seconds(1, 2, 3), err: errBroken},
		"both":           {answers: []answer{{status: 503}, {err: errBroken}, {status: 404}}, waits: seconds(1, 2), status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := call(t, retryable(on5xx).Strategy(), request(t, http.MethodPost, "an order"), row.answers...)
			require.ErrorIs(t, r.err, row.err)
			require.Equal(t, row.status, r.status)
			require.Equal(t, row.waits, b.waits())
			for _, body := range b.bodies {
				require.Equal(t, "an order", body)
			}
			if row.err == nil {
				require.Equal(t, row.answers[len(row.answers)-1].body, r.body)
			}
		})
	}
}

func seconds(n ...time.Duration) (d []time.Duration) {
	for _, n := range n {
		d = append(d, n*time.Second)
	}
	return d
}

// What is retried has one of two classes, and so has what is not.
func TestCheckRetryClasses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		retry bool
		err   error // that CheckRetry returns
		out   answer
		class retrip.Class
	}{
		"success":                      {false, nil, answer{status: 204}, retrip.Success},
		"redirect":                     {false, nil, answer{status: 302}, retrip.Success},
		"client's fault":               {false, nil, answer{status: 400}, retrip.Permanent},
		"server's fault, not retried":  {false, nil, answer{status: 500}, retrip.Permanent},
		"throttled, not retried":       {false, nil, answer{status: 429}, retrip.Permanent},
		"error, not retried":           {false, nil, answer{err: errBroken}, retrip.Permanent},
		"success that is none":         {false, errBroken, answer{status: 200}, retrip.Permanent},
		"server's fault":               {true, nil, answer{status: 500}, retrip.Transient},
		"throttled":                    {true, nil, answer{status: 429}, retrip.Throttled},
		"success to be repeated":       {true, nil, answer{status: 202}, retrip.Transient},
		"error":                        {true, nil, answer{err: errBroken}, retrip.Transient},
		"server's fault, with a cause": {true, errBroken, answer{status: 500}, retrip.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := migrate.CheckRetry(func(context.Context, *http.Response, error) (bool, error) { return row.retry, row.err })
			a := retrip.Attempt{Number: 1, Request: get(t), Err: row.out.err}
			if row.out.err == nil {
				a.Response = &http.Response{StatusCode: row.out.status, Body: http.NoBody}
			}
			require.Equal(t, row.class, rule.Classify(a))
		})
	}
}

// An error that comes with false ends the request. The caller gets what the
// base returned: its response, or its error.
func TestCheckRetryError(t *testing.T) {
	t.Parallel()
	s := retryable(func(_ context.Context, resp *http.Response, err error) (bool, error) {
		return false, errors.New("no more of this")
	}).Strategy()
	b, r := call(t, s, get(t), answer{status: 500, body: "last words"})
	require.NoError(t, r.err)
	require.Equal(t, "last words", r.body)
	require.Len(t, b.at, 1)

	b, r = call(t, s, get(t), answer{err: errBroken})
	require.Equal(t, errBroken, r.err)
	require.Len(t, b.at, 1)
}

// Errors arrive as http.Client makes them.
func TestCheckRetrySeesClientErrors(t *testing.T) {
	t.Parallel()
	for method, op := range map[string]string{"": "Get", "GET": "Get", "PATCH": "Patch", "x": "x"} {
		var seen error
		rule := migrate.CheckRetry(func(_ context.Context, _ *http.Response, err error) (bool, error) {
			seen = err
			return true, nil
		})
		a := retrip.Attempt{Number: 1, Request: get(t), Err: errBroken}
		a.Request.Method = method
		rule.Classify(a)
		require.Equal(t, &url.Error{Op: op, URL: "http://user:xxxxx@host/path", Err: errBroken}, seen)

		a.Err = fmt.Errorf("base: %w", &retrip.AttemptTimeoutError{After: time.Second})
		rule.Classify(a)
		var timeout *url.Error
		require.ErrorAs(t, seen, &timeout)
		require.True(t, timeout.Timeout())
		require.ErrorIs(t, seen, context.DeadlineExceeded)

		a.Err = nil
		a.Response = &http.Response{StatusCode: 200, Body: http.NoBody}
		rule.Classify(a)
		require.NoError(t, seen)
	}
}

// The backoff gets its bounds, numbers from 0, and the response of the attempt
// before, whose body is not at hand. A negative wait is none.
func TestRetryableBackoffArguments(t *testing.T) {
	t.Parallel()
	type arguments struct {
		lowest, highest time.Duration
		attemptNum      int
		status          int
	}
	var got []arguments
	p := retryable(on5xx)
	p.Backoff = func(lowest, highest time.Duration, attemptNum int, resp *http.Response) time.Duration {
		a := arguments{lowest, highest, attemptNum, 0}
		if resp != nil {
			a.status = resp.StatusCode
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Empty(t, body)
		}
		got = append(got, a)
		return -time.Hour
	}
	b, _ := call(t, p.Strategy(), get(t), answer{status: 503, body: "busy"}, answer{err: errBroken}, answer{status: 500}, answer{status: 200})
	require.Equal(t, []arguments{
		{time.Second, 3 * time.Second, 0, 503}, {time.Second, 3 * time.Second, 1, 0}, {time.Second, 3 * time.Second, 2, 500},
	}, got)
	require.Equal(t, seconds(0, 0, 0), b.waits())
}

// A policy may read, replace and close the body; the caller has it all the
// same. It is asked twice only where the body was not yet at hand.
func TestPolicyReadsBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	for name, row := range map[string]struct {
		out   answer
		seen  string // less than all of it in one case
		asked int
	}{
		"success":         {answer{status: 200, contentType: "text/plain", body: "busy"}, "busy", 2},
		"failure":         {answer{status: 500, contentType: "text/plain", body: "busy"}, "busy", 2},
		"failure in JSON": {answer{status: 500, contentType: "application/json", body: `{"a":1}`}, `{"a":1}`, 1},
		"zipped JSON":     {answer{status: 500, contentType: "application/json", body: `{"a":1}`, zipped: true}, `{"a":1}`, 1},
		"zipped text":     {answer{status: 200, contentType: "text/plain", body: "busy", zipped: true}, "busy", 2},
		"no body":         {answer{status: 500}, "", 1},
		"long body":       {answer{status: 500, body: long}, long[:64<<10], 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			s := retryable(func(_ context.Context, resp *http.Response, _ error) (bool, error) {
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				resp.Body = nil
				if encoding := resp.Header.Get("Content-Encoding"); encoding == "" {
					require.Equal(t, row.out.zipped, resp.Uncompressed)
					seen = append(seen, string(body))
				} else {
					seen = append(seen, encoding)
				}
				return false, nil
			}).Strategy()
			b, r := call(t, s, get(t), row.out)
			require.NoError(t, r.err)
			require.Len(t, b.at, 1)
			require.Len(t, seen, row.asked)
			require.Equal(t, row.seen, seen[row.asked-1])
			if row.out.zipped {
				require.Equal(t, "gzip", r.header.Get("Content-Encoding"))
				require.Equal(t, string(zip(row.out.body)), r.body)
			} else {
				require.Equal(t, row.out.body, r.body)
			}
		})
	}
}

// The policy is asked of every outcome, in its own way: here a job that is not
// done yet, by a word in the body of a 200.
func TestPolicyOnSuccess(t *testing.T) {
	t.Parallel()
	s := retryable(func(_ context.Context, resp *http.Response, err error) (bool, error) {
		if err != nil {
			return true, nil
		}
		body, err := io.ReadAll(resp.Body)
		return string(body) == "pending", err
	}).Strategy()
	pending := answer{status: 200, body: "pending"}
	b, r := call(t, s, get(t), pending, pending, answer{status: 200, body: "done"})
	require.NoError(t, r.err)
	require.Equal(t, "done", r.body)
	require.Equal(t, seconds(1, 2), b.waits())
}

func TestRetryableHTTPRefuses(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*migrate.RetryableHTTP){
		"Classifiers[0] is nil": func(p *migrate.RetryableHTTP) { p.CheckRetry = nil },
		"Backoff is nil":        func(p *migrate.RetryableHTTP) { p.Backoff = nil },
		"Backoff waits from -1s to 3s: use bounds from 0 up, the lower one first, or 0 for none": func(p *migrate.RetryableHTTP) { p.RetryWaitMin = -time.Second },
		"Backoff waits from 1s to -1s":                                       func(p *migrate.RetryableHTTP) { p.RetryWaitMax = -time.Second },
		"Backoff waits from 4s to 3s":                                        func(p *migrate.RetryableHTTP) { p.RetryWaitMin = 4 * time.Second },
		"MaxAttempts is 0: use 1 for no retries, or more":                    func(p *migrate.RetryableHTTP) { p.RetryMax = -1 },
		fmt.Sprintf("MaxAttempts is %d", math.MinInt+1):                      func(p *migrate.RetryableHTTP) { p.RetryMax = math.MinInt },
		"MaxAttempts is -1: use 1 for no retries, or more\nStrategy.Backoff": func(p *migrate.RetryableHTTP) { p.RetryMax, p.Backoff = -2, nil },
	} {
		p := retryable(on5xx)
		change(&p)
		refuses(t, p.Strategy(), text)
	}
}

func TestRetryableHTTPWithoutEnd(t *testing.T) {
	t.Parallel()
	p := retryable(on5xx)
	p.RetryMax = math.MaxInt
	require.Equal(t, math.MaxInt, p.Strategy().MaxAttempts)
	p.RetryMax = 0
	b, _ := call(t, p.Strategy(), get(t), answer{status: 500})
	require.Len(t, b.at, 1)
}

// What comes with the strategy: each has a quota of its own, which ends what
// the policy alone would go on with.
func TestQuotaComesAlong(t *testing.T) {
	t.Parallel()
	p := retryable(on5xx)
	p.RetryMax = 1000
	s := p.Strategy()
	b, r := call(t, s, get(t), answer{status: 500})
	require.Equal(t, 500, r.status)
	require.Len(t, b.at, 101)
	b, _ = call(t, s, get(t), answer{status: 500})
	require.Len(t, b.at, 1)
	b, _ = call(t, p.Strategy(), get(t), answer{status: 500})
	require.Len(t, b.at, 101)
}

func ExampleRetryableHTTP() {
	policy := migrate.RetryableHTTP{ // the fields of a retryablehttp.Client
		CheckRetry: func(_ context.Context, resp *http.Response, err error) (bool, error) {
			return err != nil || resp.StatusCode >= 500, nil // or retryablehttp.DefaultRetryPolicy
		},
		Backoff: func(lowest, highest time.Duration, attemptNum int, _ *http.Response) time.Duration {
			return min(lowest<<attemptNum, highest) // or retryablehttp.DefaultBackoff
		},
		RetryWaitMin: time.Second, RetryWaitMax: 30 * time.Second, RetryMax: 4,
	}
	fmt.Println(policy.Strategy())
	// Output:
	// MaxAttempts: 5
	// RetryNonIdempotent: true
	// MaxRetryAfter: 1m0s
	// MaxLimiterWait: 0s
	// Classifier: as a retryablehttp.CheckRetry says
	// Backoff: a retryablehttp.Backoff from 1s to 30s
	// ThrottleBackoff: nil
	// Quota: 500 of 500 tokens
	// Cost: 5
	// ThrottleCost: 5
	// TimeoutCost: 0
	// LongPoll: false
	// Limiter: false
}
