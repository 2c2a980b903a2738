package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	backoffv4 "github.com/cenkalti/backoff/v4"
	"github.com/cenkalti/backoff/v7"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// retrying is what one writes around http.Client.Do with cenkalti/backoff: each
// attempt opens the body again, and closes the response that is not returned.
type retrying struct {
	base  http.RoundTripper
	heeds bool // Retry-After, in seconds
	retry func(ctx context.Context, operation func() (*http.Response, error)) (*http.Response, error)
}

func (r retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	var kept string
	if req.GetBody == nil && req.Body != nil {
		var err error
		if kept, err = readAndClose(req.Body); err != nil {
			return nil, err
		}
	}
	return r.retry(req.Context(), func() (*http.Response, error) {
		ctx, cancel := context.WithTimeout(req.Context(), perAttempt)
		defer cancel() // the test's bodies don't mind
		attempt := req.WithContext(ctx)
		switch {
		case req.GetBody != nil:
			attempt.Body, _ = req.GetBody() // which never fails here
		case req.Body != nil:
			attempt.Body = io.NopCloser(strings.NewReader(kept))
		}
		resp, err := r.base.RoundTrip(attempt)
		switch {
		case err != nil:
			return nil, err
		case worthIt(resp, nil):
			err := errors.Join(fmt.Errorf("status %d", resp.StatusCode), resp.Body.Close())
			if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); r.heeds && bad == nil {
				return nil, backoff.RetryAfter(time.Duration(seconds)*time.Second, err)
			}
			return nil, err
		}
		return resp, nil
	})
}

func worthIt(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }

func backOffPair(attempts int, backOff retrip.Backoff,
	retry func(context.Context, func() (*http.Response, error)) (*http.Response, error)) (peer, ours way) {
	peer = func(base http.RoundTripper) *http.Client {
		return &http.Client{Transport: retrying{base, false, retry}}
	}
	ours = func(base http.RoundTripper) *http.Client {
		s := retrip.Standard()
		s.MaxAttempts, s.RetryNonIdempotent, s.Hints = attempts, true, nil
		s.Backoff, s.ThrottleBackoff = backOff, nil
		s.Classifiers = []retrip.Classifier{retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
			if worthIt(a.Response, a.Err) {
				return retrip.Transient
			}
			return retrip.Unknown
		})}
		return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s, AttemptTimeout: perAttempt}}
	}
	return peer, ours
}

// growing is an exponential policy without chance.
func growing() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.RandomizationFactor, b.MaxInterval = 0, 3*time.Second
	return b
}

// A patience is a policy with a state of its own: short waits, then a long one,
// then none.
type patience struct{ n int }

func (p *patience) Reset() { p.n = 0 }

func (p *patience) NextBackOff() time.Duration {
	p.n++
	switch {
	case p.n < 4:
		return 10 * time.Millisecond
	case p.n == 4:
		return time.Minute
	default:
		return backoff.Stop
	}
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		attempts   int
		create     func() backoff.BackOff
		maxElapsed time.Duration
	}{
		"exponential": {5, func() backoff.BackOff { return growing() }, 0},
		"elapsed":     {1 << 30, func() backoff.BackOff { return growing() }, 8 * time.Second},
		"default":     {5, func() backoff.BackOff { return growing() }, backoff.DefaultMaxElapsedTime},
		"constant":    {4, func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }, 0},
		"zero":        {3, func() backoff.BackOff { return &backoff.ZeroBackOff{} }, 0},
		"stop":        {3, func() backoff.BackOff { return &backoff.StopBackOff{} }, 0},
		"own":         {1 << 30, func() backoff.BackOff { return new(patience) }, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer, ours := backOffPair(row.attempts, migrate.BackOff(row.create, row.maxElapsed),
				func(ctx context.Context, operation func() (*http.Response, error)) (*http.Response, error) {
					return backoff.Retry(ctx, operation, backoff.WithBackOff(row.create()),
						backoff.WithMaxTries(uint(row.attempts)), backoff.WithMaxElapsedTime(row.maxElapsed))
				})
			compareAfterFirst(t, peer, ours)
		})
	}
}

// In v4 the number of retries and the time are the policy's own.
func TestBackOffV4(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		retries    uint64
		maxElapsed time.Duration
	}{
		"retries": {3, 0},
		"elapsed": {100, 8 * time.Second},
		"none":    {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create := func() backoffv4.BackOff {
				b := backoffv4.NewExponentialBackOff(backoffv4.WithRandomizationFactor(0), backoffv4.WithMaxElapsedTime(row.maxElapsed))
				return backoffv4.WithMaxRetries(b, row.retries)
			}
			peer, ours := backOffPair(1<<30, migrate.BackOff(create, row.maxElapsed),
				func(ctx context.Context, operation func() (*http.Response, error)) (*http.Response, error) {
					return backoffv4.RetryWithData(operation, backoffv4.WithContext(create(), ctx))
				})
			compareAfterFirst(t, peer, ours)
		})
	}
}

// compareAfterFirst compares what begins with an attempt that takes no time,
// since that of the first counts here and not there.
func compareAfterFirst(t *testing.T, peer, ours way) {
	t.Helper()
	compare(t, func(base http.RoundTripper) *http.Client { return peer(atOnce(base)) },
		func(base http.RoundTripper) *http.Client { return ours(atOnce(base)) })
}

// What chance there is stays: every wait lies where the policy would draw it,
// and no two are alike.
func TestBackOffDraws(t *testing.T) {
	t.Parallel()
	adapted := migrate.BackOff(backoff.NewExponentialBackOff, 0)
	interval, seen := float64(backoff.DefaultInitialInterval), map[time.Duration]bool{}
	for n := range 8 {
		var sum time.Duration
		for range 1000 {
			d, ok := adapted.Delay(retrip.Retry{Index: n})
			require.True(t, ok)
			require.InEpsilon(t, interval, float64(d), 0.5000001)
			sum += d
			seen[d] = true
		}
		require.InEpsilon(t, interval, float64(sum/1000), 0.06) // six standard deviations
		interval *= backoff.DefaultMultiplier
	}
	require.Greater(t, len(seen), 7990)
}
