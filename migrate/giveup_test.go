package migrate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
	"github.com/retrip-go/retrip/migrate"
)

// giveUp sends a request through ErrorOnGiveUp over a base with the answers.
func giveUp(t *testing.T, s *retrip.Strategy, req *http.Request, answers ...answer) (b *base, resp *http.Response, err error) {
	t.Helper()
	b = &base{answers: answers}
	synctest.Test(t, func(t *testing.T) {
		rt := migrate.ErrorOnGiveUp(&retrip.Transport{Base: b, PerKey: func(string) *retrip.Strategy { return s }})
		resp, err = rt.RoundTrip(req)
	})
	return b, resp, err
}

// What the strategy would have retried is an error, whatever stopped it.
func TestErrorOnGiveUp(t *testing.T) {
	t.Parallel()
	busy := answer{status: 503, contentType: "application/json", body: `{"code":"SlowDown"}`}
	for name, row := range map[string]struct {
		method   string
		change   func(*retrip.Strategy)
		answer   answer
		reason   error
		attempts int
	}{
		"attempts exhausted": {answer: busy, reason: retrip.ErrAttemptsExhausted, attempts: 3},
		"no retries": {
			change: func(s *retrip.Strategy) { s.MaxAttempts = 1 },
			answer: busy, reason: retrip.ErrAttemptsExhausted, attempts: 1,
		},
		"quota exhausted": {
			change: func(s *retrip.Strategy) { s.Quota = retrip.NewBucket(5) },
			answer: busy, reason: retrip.ErrQuotaExhausted, attempts: 2,
		},
		"not idempotent": {method: http.MethodPost, answer: answer{status: 500}, reason: retrip.ErrNotIdempotent, attempts: 1},
		"backoff stopped": {
			change: func(s *retrip.Strategy) {
				s.Backoff = retrip.BackoffFunc(func(retrip.Retry) (time.Duration, bool) { return 0, false })
				s.ThrottleBackoff = nil
			},
			answer: busy, reason: retrip.ErrBackoffStopped, attempts: 1,
		},
		"a 200 that the strategy retries": {
			change: func(s *retrip.Strategy) {
				s.Classifiers = []retrip.Classifier{migrate.CheckRetry(func(context.Context, *http.Response, error) (bool, error) { return true, nil })}
			},
			answer: answer{status: 200, body: "busy"}, reason: retrip.ErrAttemptsExhausted, attempts: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := retrip.Standard()
			if row.change != nil {
				row.change(s)
			}
			req := request(t, cmp.Or(row.method, http.MethodGet), "order")
			b, resp, err := giveUp(t, s, req, row.answer)
			require.Nil(t, resp)
			require.ErrorIs(t, err, row.reason)
			var gaveUp *migrate.GiveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.Equal(t, row.attempts, gaveUp.Attempts)
			require.Len(t, b.at, row.attempts)
			require.Equal(t, row.answer.status, gaveUp.Status)
			require.Equal(t, row.answer.contentType, gaveUp.Header.Get("Content-Type"))
			require.Equal(t, row.answer.body, string(gaveUp.Body))
			require.NotContains(t, err.Error(), "secret")
			var of *retrip.Error
			require.ErrorAs(t, err, &of)
			require.Equal(t, gaveUp.Reason, of.Reason)
		})
	}
}

// A response that is no failure to retry stays a response, and an error stays the
// error that it was.
func TestErrorOnGiveUpLeavesTheRest(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 302, 404, 501} {
		req := get(t)
		_, resp, err := giveUp(t, retrip.Standard(), req, answer{status: status, body: "words"})
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		require.Same(t, req, resp.Request)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "words", string(text))
		require.NoError(t, resp.Body.Close())
	}
	_, resp, err := giveUp(t, retrip.Standard(), get(t), answer{status: 503}, answer{status: 200})
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)

	_, resp, err = giveUp(t, retrip.Standard(), get(t), answer{err: errBroken})
	require.Nil(t, resp)
	require.ErrorIs(t, err, errBroken)
	require.False(t, errors.As(err, new(*migrate.GiveUpError)))
}

// A retry that would outlive the deadline is a timeout for the caller.
func TestErrorOnGiveUpAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond*10)
		defer cancel()
		s := retrip.Standard()
		s.Backoff = retrip.Constant{Wait: time.Second}
		rt := migrate.ErrorOnGiveUp(&retrip.Transport{Base: &base{answers: []answer{{status: 503}}}, Strategy: s})
		resp, err := rt.RoundTrip(get(t).WithContext(ctx))
		require.Nil(t, resp)
		require.ErrorIs(t, err, retrip.ErrWaitOverDeadline)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
	})
}

// stalling gives a text and then nothing until it is closed.
func stalling(text string) io.ReadCloser {
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, text) }() // until the close
	return r
}

// A body that is long, or never ends, is read up to the bounds and closed.
func TestGiveUpErrorBounds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text   string
		stalls bool
		kept   int
		took   time.Duration
	}{
		"short":  {text: "words", kept: 5},
		"long":   {text: strings.Repeat("words", 100_000), kept: 64 << 10},
		"stalls": {text: "words", stalls: true, kept: 5, took: 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := testkit.Opaque(row.text)
				if row.stalls {
					b = &testkit.Body{ReadCloser: stalling(row.text)}
				}
				s := retrip.Standard()
				s.MaxAttempts = 1
				rt := migrate.ErrorOnGiveUp(&retrip.Transport{Strategy: s, Base: testkit.Stream(500, b)})
				start := time.Now()
				resp, err := rt.RoundTrip(get(t))
				require.Nil(t, resp)
				var gaveUp *migrate.GiveUpError
				require.ErrorAs(t, err, &gaveUp)
				require.Equal(t, row.text[:row.kept], string(gaveUp.Body))
				require.Equal(t, row.took, time.Since(start))
				time.Sleep(time.Hour)
				require.Equal(t, 1, b.Closes())
			})
		})
	}
}

// The caller's Observe and Trace go on as before, with the caller's request, also
// of a Transport inside another one.
func TestErrorOnGiveUpIsInvisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events, within []retrip.Event
		inner := &retrip.Transport{
			Base:    &base{answers: []answer{{status: 503}}},
			Observe: func(e retrip.Event) { within = append(within, e) },
		}
		_ = migrate.ErrorOnGiveUp(inner) // which is used without it, too
		outer := &retrip.Transport{Base: inner, Observe: func(e retrip.Event) { events = append(events, e) }}
		ctx, trace := retrip.WithTrace(context.Background())
		req := get(t).WithContext(ctx)
		resp, err := migrate.ErrorOnGiveUp(outer).RoundTrip(req)
		require.Nil(t, resp)
		require.ErrorAs(t, err, new(*migrate.GiveUpError))
		require.Len(t, events, 3)
		require.NotEmpty(t, within)
		for _, e := range events {
			require.Same(t, req, e.Request)
		}
		require.Len(t, trace.Requests()[0], 3)
		resp, err = outer.RoundTrip(get(t)) // not through it
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
	})
}

// A nil Transport is a zero one, and idle connections are closed through it.
func TestErrorOnGiveUpPassesOn(t *testing.T) {
	t.Parallel()
	_, err := migrate.ErrorOnGiveUp(nil).RoundTrip(nil)
	require.ErrorContains(t, err, "the request is nil")
	closed := false
	client := &http.Client{Transport: migrate.ErrorOnGiveUp(&retrip.Transport{Base: idle{func() { closed = true }}})}
	client.CloseIdleConnections()
	require.True(t, closed)
}

type idle struct{ close func() }

func (idle) RoundTrip(*http.Request) (*http.Response, error) { return nil, errBroken }
func (i idle) CloseIdleConnections()                         { i.close() }

func ExampleErrorOnGiveUp() {
	s := retrip.Standard()
	s.Backoff = retrip.Constant{}
	client := &http.Client{Transport: migrate.ErrorOnGiveUp(&retrip.Transport{
		Base:   &base{answers: []answer{{status: 503, body: "back at noon"}}},
		PerKey: func(string) *retrip.Strategy { return s }, // there is only one host
	})}
	_, err := client.Get("http://host/path")
	var gaveUp *migrate.GiveUpError
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp)
		fmt.Println(gaveUp.Status, string(gaveUp.Body))
	}
	// Output:
	// retrip: attempts exhausted after 3 attempts (last status: 503)
	// 503 back at noon
}

// An error that a CheckRetry returns with false is the request's error, as it is in
// go-retryablehttp: code that rejects a response in this way must not take it for a
// success. One that comes with true counts for nothing.
func TestErrorOnGiveUpReturnsTheErrorOfACheckRetry(t *testing.T) {
	errNotReady := errors.New("not ready")
	get := func(rejected int) (*http.Response, error) {
		policy := migrate.RetryableHTTP{
			CheckRetry: func(_ context.Context, resp *http.Response, _ error) (bool, error) {
				if resp.StatusCode == rejected {
					return false, errNotReady
				}
				return resp.StatusCode == 503, errors.New("counts only with false")
			},
			Backoff:  func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 },
			RetryMax: 2,
		}
		return (&http.Client{Transport: migrate.ErrorOnGiveUp(&retrip.Transport{
			Base:   &base{answers: []answer{{status: 503}, {status: 200, body: "wait"}}},
			PerKey: func(string) *retrip.Strategy { return policy.Strategy() },
		})}).Get("http://host/path")
	}
	_, err := get(200)
	require.ErrorIs(t, err, errNotReady)
	var gaveUp *migrate.GiveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, 200, gaveUp.Status)
	require.Equal(t, "wait", string(gaveUp.Body))
	_, err = get(503)
	require.ErrorIs(t, err, errNotReady)
}
