package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/ybbus/httpretry"

	"github.com/retrip-go/retrip"
)

// The lines of the page for packages without an adapter keep a policy, too.

func TestFailsafe(t *testing.T) {
	t.Parallel()
	peer := func(base http.RoundTripper) *http.Client {
		retry := failsafehttp.NewRetryPolicyBuilder().
			WithBackoff(time.Second, 30*time.Second).
			WithMaxRetries(3).
			Build()
		return &http.Client{Transport: failsafehttp.NewRoundTripper(base, retry, timeout.New[*http.Response](perAttempt))}
	}
	ours := func(base http.RoundTripper) *http.Client {
		_, transport := pageFailsafe()
		s := transport.PerKey("host")
		s.RetryNonIdempotent = true
		s.Classifiers = []retrip.Classifier{handleIf(failsafeRule)}
		return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s, AttemptTimeout: perAttempt}}
	}
	// Retry-After is read otherwise: see the page.
	compareOnly(t, peer, ours, func(o outcome) bool { return o.header == "" })
}

func TestHeimdall(t *testing.T) {
	t.Parallel()
	backoff := heimdall.NewExponentialBackoff(100*time.Millisecond, time.Second, 3, 0)
	retrier := heimdall.NewRetrierFunc(func(retry int) time.Duration {
		if retry == 3 {
			return 0 // it sleeps after the last attempt, too
		}
		return backoff.Next(retry)
	})
	peer := func(base http.RoundTripper) *http.Client {
		client := httpclient.NewClient(
			httpclient.WithHTTPClient(&http.Client{Transport: base, Timeout: perAttempt}),
			httpclient.WithRetryCount(3),
			httpclient.WithRetrier(retrier),
		)
		return &http.Client{Transport: doer(func(req *http.Request) (*http.Response, error) {
			resp, err := client.Do(req)
			if err != nil && resp != nil { // both, where some attempt had an error
				err = resp.Body.Close()
			}
			return resp, err
		})}
	}
	ours := func(base http.RoundTripper) *http.Client {
		_, client := pageHeimdall(retrier)
		s := client.Transport.(*retrip.Transport).PerKey("host")
		s.RetryNonIdempotent = true
		s.Classifiers = []retrip.Classifier{handleIf(heimdallRule)}
		s.Hints = nil
		return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s, AttemptTimeout: perAttempt}}
	}
	compareOnly(t, peer, ours, func(outcome) bool { return true })
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) RoundTrip(req *http.Request) (*http.Response, error) { return d(req) }

func TestHTTPRetry(t *testing.T) {
	t.Parallel()
	policy := httpretry.NewDefaultClient().Transport.(*httpretry.RetryRoundtripper).ShouldRetry
	for name, backoff := range map[string]httpretry.BackoffPolicy{
		"exponential": httpretry.ExponentialBackoff(100*time.Millisecond, 300*time.Millisecond, 0),
		"linear":      httpretry.LinearBackoff(100*time.Millisecond, 250*time.Millisecond, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := func(base http.RoundTripper) *http.Client {
				return httpretry.NewCustomClient(&http.Client{Transport: base},
					httpretry.WithMaxRetryCount(3),
					httpretry.WithRetryPolicy(policy),
					httpretry.WithBackoffPolicy(backoff))
			}
			ours := func(base http.RoundTripper) *http.Client {
				_, client := pageHTTPRetry(policy, backoff)
				client.Transport.(*retrip.Transport).Base = base
				return client
			}
			// It has no limit for each attempt.
			compareOnly(t, peer, ours, func(o outcome) bool { return !o.hangs })
		})
	}
}
