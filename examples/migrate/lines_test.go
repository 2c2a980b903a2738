package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
	"github.com/ybbus/httpretry"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// The code on the page docs/migrate.md, line by line: TestPage looks for it
// here. What is a policy is compared with the package that it comes from.

func pageStart() *http.Client {
	strategy := func(string) *retrip.Strategy {
		s := retrip.Standard()
		return s
	}
	transport := &retrip.Transport{
		PerKey: strategy, // called once for each host
	}
	client := &http.Client{Transport: transport}
	return client
}

func pageRetryable() (before *http.Client, transport *retrip.Transport, after *http.Client) {
	{
		client := retryablehttp.NewClient() // before
		client.RetryMax = 3
		standard := client.StandardClient()
		before = standard
	}
	policy := migrate.RetryableHTTP{ // after
		CheckRetry: retryablehttp.DefaultRetryPolicy, Backoff: retryablehttp.DefaultBackoff,
		RetryWaitMin: time.Second, RetryWaitMax: 30 * time.Second, RetryMax: 3,
	}
	transport = func() *retrip.Transport {
		transport := &retrip.Transport{
			PerKey: func(string) *retrip.Strategy { return policy.Strategy() },
		}
		return transport
	}()
	client := &http.Client{Transport: migrate.ErrorOnGiveUp(transport)} // or transport, for the last response
	return before, transport, client
}

func pageErrors(transport *retrip.Transport) *http.Client {
	client := &http.Client{Transport: migrate.ErrorOnGiveUp(transport)}
	return client
}

func pageRetryAfter(policy migrate.RetryableHTTP) *retrip.Strategy {
	s := policy.Strategy()
	s.Backoff = retrip.FullJitter{Base: time.Second, Cap: 30 * time.Second}
	s.Hints = retrip.Standard().Hints // up to s.MaxRetryAfter, a minute
	return s
}

func beforeRetries(prepareRetry func(*http.Request) error) func(*http.Request, retrip.PrepareInfo) error {
	return func(req *http.Request, p retrip.PrepareInfo) error {
		if p.Number == 1 {
			return nil
		}
		return prepareRetry(req)
	}
}

func beforeAttempts(hook retryablehttp.RequestLogHook) func(*http.Request, retrip.PrepareInfo) error {
	return func(req *http.Request, p retrip.PrepareInfo) error {
		hook(nil, req, p.Number-1) // or your own Logger
		return nil
	}
}

func pageRehttp(retry rehttp.RetryFn, delay rehttp.DelayFn) (before http.RoundTripper, after *retrip.Transport) {
	{
		transport := rehttp.NewTransport(nil, retry, delay) // before
		before = transport
	}
	transport := &retrip.Transport{ // after
		PerKey: func(string) *retrip.Strategy { return migrate.Rehttp(retry, delay) },
	}
	return before, transport
}

var noBodies = retrip.Classifier(retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
	failed := a.Err != nil || a.Response.StatusCode >= 400
	if failed && a.Request.Body != nil && a.Request.Body != http.NoBody {
		return retrip.Permanent
	}
	return retrip.Unknown
}))

func pageFailsafe() (before http.RoundTripper, after *retrip.Transport) {
	{
		retry := failsafehttp.NewRetryPolicyBuilder(). // before
								WithBackoff(time.Second, 30*time.Second).
								WithMaxRetries(3).
								Build()
		transport := failsafehttp.NewRoundTripper(nil, retry)
		before = transport
	}
	strategy := func(string) *retrip.Strategy { // after
		s := retrip.Standard()
		s.MaxAttempts = 4
		s.Backoff = retrip.Exponential{Base: time.Second, Cap: 30 * time.Second}
		s.ThrottleBackoff = nil // the same after throttling
		return s
	}
	transport := &retrip.Transport{PerKey: strategy}
	return before, transport
}

func handleIf(predicate func(*http.Response, error) bool) retrip.Classifier {
	return retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		if predicate(a.Response, a.Err) {
			return retrip.Transient
		}
		return retrip.Unknown
	})
}

func abortIf(predicate func(*http.Response, error) bool) retrip.Classifier {
	return retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		if predicate(a.Response, a.Err) {
			return retrip.Permanent
		}
		return retrip.Unknown
	})
}

func failsafeRule(resp *http.Response, err error) bool {
	if err != nil {
		return !strings.Contains(err.Error(), "unsupported protocol scheme")
	}
	return resp.StatusCode == 429 || resp.StatusCode >= 500 && resp.StatusCode != 501
}

func byFactor(first, longest time.Duration, factor float64) func(retrip.Retry) (time.Duration, bool) {
	return func(r retrip.Retry) (time.Duration, bool) {
		return time.Duration(min(float64(first)*math.Pow(factor, float64(r.Index)), float64(longest))), true
	}
}

func between(shortest, longest time.Duration) func(retrip.Retry) (time.Duration, bool) {
	return func(r retrip.Retry) (time.Duration, bool) {
		return shortest + time.Duration(r.Rand*float64(longest-shortest)), true
	}
}

func pageHeimdall(retrier heimdall.Retriable) (*httpclient.Client, *http.Client) {
	before := func() *httpclient.Client {
		client := httpclient.NewClient( // before
			httpclient.WithHTTPTimeout(10*time.Second),
			httpclient.WithRetryCount(3),
			httpclient.WithRetrier(retrier),
		)
		return client
	}
	strategy := func(string) *retrip.Strategy { // after
		s := retrip.Standard()
		s.MaxAttempts = 4
		s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return retrier.NextInterval(r.Index), true })
		s.ThrottleBackoff = nil // the same after throttling
		return s
	}
	client := &http.Client{Transport: &retrip.Transport{PerKey: strategy, AttemptTimeout: 10 * time.Second}}
	return before(), client
}

func heimdallRule(resp *http.Response, err error) bool {
	return err != nil || resp.StatusCode >= 500
}

func pageHTTPRetry(policy httpretry.RetryPolicy, backoff httpretry.BackoffPolicy) (before, after *http.Client) {
	{
		client := httpretry.NewDefaultClient( // before
			httpretry.WithMaxRetryCount(3),
			httpretry.WithRetryPolicy(policy),
			httpretry.WithBackoffPolicy(backoff),
		)
		before = client
	}
	strategy := func(string) *retrip.Strategy { // after
		s := retrip.Standard()
		s.MaxAttempts = 4
		s.RetryNonIdempotent = true // as there; without it, a POST is safe
		s.Classifiers = []retrip.Classifier{shouldRetry(policy)}
		s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return backoff(r.Index + 1), true })
		s.ThrottleBackoff, s.Hints = nil, nil // it knows neither
		return s
	}
	client := &http.Client{Transport: &retrip.Transport{PerKey: strategy}}
	return before, client
}

func shouldRetry(policy func(status int, err error) bool) retrip.Classifier {
	return retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		status := 0
		if a.Response != nil {
			status = a.Response.StatusCode
		}
		if policy(status, a.Err) {
			return retrip.Transient
		}
		return retrip.Unknown
	})
}

func pageBackOff(ctx context.Context, operation func() (*http.Response, error)) (*http.Response, *http.Client, error) {
	resp, err := backoff.Retry(ctx, operation, backoff.WithMaxTries(5)) // before

	strategy := func(string) *retrip.Strategy { // after
		s := retrip.Standard()
		s.MaxAttempts = 5
		s.Backoff = migrate.BackOff(backoff.NewExponentialBackOff, backoff.DefaultMaxElapsedTime)
		s.ThrottleBackoff = nil // the same after throttling
		return s
	}
	client := &http.Client{Transport: &retrip.Transport{PerKey: strategy}}
	return resp, client, err
}

// Every line of the tables makes a valid strategy or transport.
func TestLines(t *testing.T) {
	t.Parallel()
	var (
		retry     rehttp.RetryFn = rehttp.RetryMaxRetries(3)
		delay     rehttp.DelayFn = rehttp.ConstDelay(time.Second)
		predicate                = func(*http.Response, error) bool { return false }
		delayFunc                = func(r retrip.Retry) (time.Duration, bool) { return time.Second, true }
		errFatal                 = errors.New("fatal")
	)
	for _, set := range []func(*retrip.Strategy){
		func(s *retrip.Strategy) {
			s.Classifiers = []retrip.Classifier{migrate.CheckRetry(retryablehttp.DefaultRetryPolicy)}
		},
		func(s *retrip.Strategy) {
			s.Backoff = migrate.RetryableBackoff(retryablehttp.DefaultBackoff, time.Second, 30*time.Second)
		},
		func(s *retrip.Strategy) { s.Backoff = retrip.Exponential{Base: time.Second, Cap: 30 * time.Second} },
		func(s *retrip.Strategy) { s.Backoff = retrip.FullJitter{Base: time.Second, Cap: 30 * time.Second} },
		func(s *retrip.Strategy) { s.Backoff = retrip.EqualJitter{Base: time.Second, Cap: 30 * time.Second} },
		func(s *retrip.Strategy) {
			s.Backoff = retrip.FullJitter{Base: 100 * time.Millisecond, Cap: time.Second}
		},
		func(s *retrip.Strategy) { s.Backoff = retrip.Constant{Wait: time.Second} },
		func(s *retrip.Strategy) { s.Backoff = retrip.Constant{Wait: time.Second, Period: time.Minute} },
		func(s *retrip.Strategy) { s.Backoff = retrip.Constant{} },
		func(s *retrip.Strategy) { s.Backoff = retrip.BackoffFunc(delayFunc) },
		func(s *retrip.Strategy) {
			s.Backoff = retrip.BackoffFunc(byFactor(time.Second, 30*time.Second, 1.5))
		},
		func(s *retrip.Strategy) { s.Backoff = retrip.BackoffFunc(between(time.Second, 2*time.Second)) },
		func(s *retrip.Strategy) { s.Backoff = migrate.DelayFn(delay) },
		func(s *retrip.Strategy) { s.MaxAttempts = 4 },
		func(s *retrip.Strategy) { s.MaxAttempts = math.MaxInt },
		func(s *retrip.Strategy) { s.RetryNonIdempotent = false },
		func(s *retrip.Strategy) { s.RetryNonIdempotent = true },
		func(s *retrip.Strategy) { s.Rand = rand.Float64 },
		func(s *retrip.Strategy) { s.Quota = retrip.NewBucket(500) },
		func(s *retrip.Strategy) { s.Quota = nil },
		func(s *retrip.Strategy) { s.Limiter = retrip.NewLimiter() },
		func(s *retrip.Strategy) { s.Classifiers = []retrip.Classifier{migrate.RetryFn(retry)} },
		func(s *retrip.Strategy) {
			s.Classifiers = []retrip.Classifier{retrip.On(retrip.Transient, retrip.StatusIs(502, 503, 504))}
		},
		func(s *retrip.Strategy) { s.Classifiers = slices.Insert(s.Classifiers, 0, noBodies) },
		func(s *retrip.Strategy) { s.Classifiers = []retrip.Classifier{handleIf(failsafeRule)} },
		func(s *retrip.Strategy) { s.Classifiers = []retrip.Classifier{handleIf(heimdallRule)} },
		func(s *retrip.Strategy) { s.Classifiers = []retrip.Classifier{handleIf(predicate)} },
		func(s *retrip.Strategy) { s.Classifiers = slices.Insert(s.Classifiers, 0, abortIf(predicate)) },
		func(s *retrip.Strategy) {
			s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Permanent, retrip.ErrorIs(errFatal)))
		},
		func(s *retrip.Strategy) {
			s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Transient, retrip.StatusIs(409, 423)))
		},
		func(s *retrip.Strategy) {
			s.Classifiers = []retrip.Classifier{
				retrip.On(retrip.Permanent, retrip.StatusIs(501)),
				retrip.On(retrip.Transient, retrip.ErrorIs(syscall.ECONNRESET)),
				retrip.On(retrip.Transient, retrip.ErrorAs[*net.OpError]()),
			}
		},
	} {
		s := retrip.Standard()
		set(s)
		require.NoError(t, (&retrip.Transport{Strategy: s}).Validate())
	}

	var (
		httpClient     http.Client
		requestLogHook retryablehttp.RequestLogHook = func(retryablehttp.Logger, *http.Request, int) {}
		prepareRetry                                = func(*http.Request) error { return nil }
		breaker                                     = failsafe.Policy[*http.Response](circuitbreaker.NewWithDefaults[*http.Response]())
	)
	for _, transport := range []*retrip.Transport{
		{
			Base:           httpClient.Transport,
			AttemptTimeout: 10 * time.Second,
			Observe:        retrip.LogTo(slog.Default()),
			Prepare:        beforeAttempts(requestLogHook),
		},
		{
			Base:    http.DefaultTransport,
			Observe: func(e retrip.Event) { log.Println(e.Attempt, e.Status, e.Wait) },
			Prepare: beforeRetries(prepareRetry),
		},
		{
			Base:    failsafehttp.NewRoundTripper(nil, breaker),
			Observe: func(e retrip.Event) { log.Println(e.Attempt, e.Class, e.Wait, e.Final, e.Reason) },
		},
		{
			Base:    failsafehttp.NewRoundTripperWithLevel(nil),
			Observe: func(e retrip.Event) { log.Println(e.Reason == retrip.QuotaExhausted) },
		},
	} {
		require.NoError(t, transport.Validate())
		base := transport.Unwrap()
		require.NotNil(t, base)
	}

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, client, err := pageBackOff(done, func() (*http.Response, error) { return nil, errFatal })
	require.Error(t, err)
	require.False(t, errors.Is(err, retrip.ErrAttemptsExhausted))
	require.NoError(t, client.Transport.(*retrip.Transport).Validate())

	req := pageRequest(t.Context())
	require.NotNil(t, req.GetBody)
	require.NotNil(t, pageStart())
	require.NotNil(t, pageErrors(new(retrip.Transport)))
	before, _, after := pageRetryable()
	require.NotEqual(t, before, after)
	s := pageRetryAfter(migrate.RetryableHTTP{CheckRetry: retryablehttp.DefaultRetryPolicy})
	require.NoError(t, (&retrip.Transport{Strategy: s}).Validate())
	rt, ours := pageRehttp(retry, delay)
	require.NotEqual(t, rt, ours)
}

func pageRequest(ctx context.Context) *http.Request {
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("text")), nil }
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req := new(http.Request).WithContext(ctx)
	req.GetBody = open
	return req
}
