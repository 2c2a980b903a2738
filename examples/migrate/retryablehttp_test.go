package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// perAttempt is HTTPClient.Timeout there, and Transport.AttemptTimeout here.
const perAttempt = 5 * time.Second

func newRetryable(change func(*retryablehttp.Client)) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	change(c)
	return c
}

func retryablePair(change func(*retryablehttp.Client)) (peer, ours way) {
	peer = func(base http.RoundTripper) *http.Client {
		c := newRetryable(change)
		c.HTTPClient = &http.Client{Transport: base, Timeout: perAttempt}
		return c.StandardClient()
	}
	ours = func(base http.RoundTripper) *http.Client {
		s := retryableStrategy(newRetryable(change))
		return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s, AttemptTimeout: perAttempt}}
	}
	return peer, ours
}

func retryableStrategy(c *retryablehttp.Client) *retrip.Strategy {
	policy := migrate.RetryableHTTP{
		CheckRetry: c.CheckRetry, Backoff: c.Backoff,
		RetryWaitMin: c.RetryWaitMin, RetryWaitMax: c.RetryWaitMax, RetryMax: c.RetryMax,
	}
	return policy.Strategy()
}

func TestRetryableHTTP(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*retryablehttp.Client){
		"defaults": func(*retryablehttp.Client) {},
		"errors propagated": func(c *retryablehttp.Client) {
			c.CheckRetry, c.RetryMax = retryablehttp.ErrorPropagatedRetryPolicy, 2
		},
		"linear": func(c *retryablehttp.Client) {
			c.Backoff, c.RetryWaitMin, c.RetryWaitMax = retryablehttp.LinearJitterBackoff, 800*time.Millisecond, 1200*time.Millisecond
		},
		"linear, with Retry-After": func(c *retryablehttp.Client) {
			c.Backoff, c.RetryWaitMin, c.RetryWaitMax = retryablehttp.RateLimitLinearJitterBackoff, time.Second, time.Second
		},
		"no retries":   func(c *retryablehttp.Client) { c.RetryMax = 0 },
		"capped early": func(c *retryablehttp.Client) { c.RetryWaitMax, c.RetryMax = 1500*time.Millisecond, 7 },
		"no timeouts, no POST": func(c *retryablehttp.Client) {
			c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
				if errors.Is(err, context.DeadlineExceeded) {
					return false, err
				}
				if resp != nil && resp.Request.Method == http.MethodPost {
					return false, nil
				}
				return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
			}
		},
		"by the body": func(c *retryablehttp.Client) {
			c.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
				if err != nil {
					return false, nil
				}
				return saysBusy(resp)
			}
			c.Backoff = func(lowest, highest time.Duration, attemptNum int, resp *http.Response) time.Duration {
				if resp.StatusCode == 503 {
					return highest
				}
				return lowest - time.Duration(attemptNum)*time.Minute // which is none
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer, ours := retryablePair(change)
			compare(t, peer, ours)
		})
	}
}

// saysBusy reads a body and puts it back, as the users of retryablehttp do.
func saysBusy(resp *http.Response) (bool, error) {
	text, err := readAndClose(resp.Body)
	resp.Body = io.NopCloser(strings.NewReader(text))
	return strings.Contains(text, "busy"), err
}

// Under ErrorOnGiveUp there is an error where there was one.
func TestErrorOnGiveUp(t *testing.T) {
	t.Parallel()
	theirs := func(base http.RoundTripper) *http.Client {
		c := newRetryable(func(c *retryablehttp.Client) { c.RetryMax = 3 })
		c.HTTPClient.Transport = base
		return c.StandardClient()
	}
	ours := func(base http.RoundTripper) *http.Client {
		_, transport, client := pageRetryable()
		transport.Base = base
		return client
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, status := range []int{200, 204, 400, 404, 408, 418, 429, 500, 501, 502, 503, 504, 599} {
			send, script := request{method: method}, []outcome{{status: status, body: "words"}}
			before, after := play(t, script, send, theirs), play(t, script, send, ours)
			require.Equal(t, before.err != nil, after.err != nil, "%s, %d", method, status)
			require.Equal(t, before.body, after.body, "%s, %d", method, status)
			require.Len(t, after.at, len(before.at), "%s, %d", method, status)
			var gaveUp *migrate.GiveUpError
			if errors.As(after.err, &gaveUp) {
				require.Equal(t, status, gaveUp.Status)
				require.Equal(t, "words", string(gaveUp.Body))
			}
		}
	}
}
