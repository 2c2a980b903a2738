package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/cenkalti/backoff/v7"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// ways are how a program sends a request before and after it has moved.
type ways struct {
	before, after func(base http.RoundTripper) http.RoundTripper
}

// go-retryablehttp: the fields of its Client are those of RetryableHTTP.
var retryable = ways{
	before: func(base http.RoundTripper) http.RoundTripper {
		client := retryablehttp.NewClient()
		client.HTTPClient.Transport = base
		client.RetryWaitMin, client.RetryWaitMax, client.RetryMax = 10*time.Millisecond, time.Second, 3
		client.Logger = nil
		return client.StandardClient().Transport
	},
	after: func(base http.RoundTripper) http.RoundTripper {
		policy := migrate.RetryableHTTP{
			CheckRetry: retryablehttp.DefaultRetryPolicy, Backoff: retryablehttp.DefaultBackoff,
			RetryWaitMin: 10 * time.Millisecond, RetryWaitMax: time.Second, RetryMax: 3,
		}
		return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy { return policy.Strategy() }}
	},
}

// rehttp: its two functions are the arguments of Rehttp.
var (
	retry   = rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryStatusInterval(500, 600))
	re      = rehttpWays(rehttp.ExpJitterDelay(time.Millisecond, 4*time.Millisecond))
	patient = rehttpWays(rehttp.ConstDelay(time.Minute))
)

func rehttpWays(delay rehttp.DelayFn) ways {
	return ways{
		before: func(base http.RoundTripper) http.RoundTripper { return rehttp.NewTransport(base, retry, delay) },
		after: func(base http.RoundTripper) http.RoundTripper {
			return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy { return migrate.Rehttp(retry, delay) }}
		},
	}
}

// cenkalti/backoff: the function that makes a policy is the argument of
// BackOff. What is retried was in the operation, and is now Standard's rule.
var backOff = ways{
	before: func(base http.RoundTripper) http.RoundTripper { return operation{base} },
	after: func(base http.RoundTripper) http.RoundTripper {
		return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy {
			s := retrip.Standard()
			s.Backoff = migrate.BackOff(newPolicy, time.Minute)
			return s
		}}
	},
}

func newPolicy() *backoff.ExponentialBackOff {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval = 10 * time.Millisecond
	return policy
}

type operation struct{ base http.RoundTripper }

func (o operation) RoundTrip(req *http.Request) (*http.Response, error) {
	return backoff.Retry(req.Context(), func() (*http.Response, error) {
		resp, err := o.base.RoundTrip(req)
		if err == nil && resp.StatusCode >= 500 {
			_ = resp.Body.Close() // the error says it all
			return nil, fmt.Errorf("status %d", resp.StatusCode)
		}
		return resp, err
	}, backoff.WithBackOff(newPolicy()), backoff.WithMaxTries(3), backoff.WithMaxElapsedTime(time.Minute))
}
