package retrip

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// How long may a request wait for the send-rate limiter? Whatever sleeps in
// this file sleeps in a bubble's virtual time.

func TestAdmissionBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.Limiter.update(s.Limiter.clock(), true) // one in two seconds
		base := script(status(200))
		transport := &Transport{Base: base, Strategy: s}
		start := time.Now()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := get(ctx, transport)
		require.ErrorIs(t, err, ErrWaitOverDeadline)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Zero(t, e.Attempts)

		s.MaxLimiterWait = time.Second
		body := opaque("body")
		_, err = transport.RoundTrip(newRequest(t, "PUT", body))
		require.ErrorIs(t, err, ErrWaitOverCap)
		require.Equal(t, 1, body.Closes())
		require.Zero(t, time.Since(start))
		require.Empty(t, base.Sent())

		s.MaxLimiterWait = 2 * time.Second
		_, err = get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// Those who wait already are part of the wait that is expected: an attempt that
// would come too late behind them fails at once. An event tells the wait for the
// limiter apart from the attempt.
func TestQueueIsPartOfTheExpectedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxAttempts = 1
		transport := &Transport{Base: script(status(429), status(200)), Strategy: s}
		_, err := get(t.Context(), transport) // from here on one in two seconds
		require.NoError(t, err)
		start := time.Now()
		ctx, trace := WithTrace(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := get(ctx, transport)
			assert.NoError(t, err)
		})
		synctest.Wait()
		hurried, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = get(hurried, transport)
		require.ErrorIs(t, err, ErrWaitOverDeadline)
		require.Zero(t, time.Since(start))
		wg.Wait()
		e := trace.Requests()[0][0]
		require.Equal(t, 2*time.Second, e.LimiterWait)
		require.Equal(t, start.Add(2*time.Second), e.Sent)
	})
}

// Someone in the middle of the queue whose wait gets too long after all leaves
// as soon as that is known.
func TestAdmissionBoundInsideTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxLimiterWait = 5 * time.Second
		s.Limiter.update(s.Limiter.clock(), true)
		transport := &Transport{Base: script(status(200)), Strategy: s}
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = get(t.Context(), transport) })
		wg.Go(func() {
			synctest.Wait()
			_, err := get(t.Context(), transport)
			assert.ErrorIs(t, err, ErrWaitOverCap)
			assert.Equal(t, 2*time.Second, time.Since(start), "when it is first in line")
		})
		time.Sleep(time.Second)
		s.Limiter.mu.Lock()
		s.Limiter.rate = 1e-3 // a cut that nobody could foresee
		s.Limiter.mu.Unlock()
		wg.Wait()
		require.Zero(t, s.Limiter.State().Waiting)
	})
}

// The bound of one strategy holds behind others in the queue that have none,
// when a cut makes all of them wait longer than anyone could expect.
func TestAdmissionBoundBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := Adaptive()
		patient.MaxAttempts = 1
		hasty := *patient
		hasty.MaxLimiterWait = 5 * time.Second
		answer := status(200)
		transport := &Transport{Strategy: patient, Base: step(func(req *http.Request) (*http.Response, error) { return answer(req) })}
		for range 100 {
			_, err := get(t.Context(), transport)
			require.NoError(t, err)
			time.Sleep(time.Second / 10)
		}
		answer = status(429) // from here on, each answer cuts the rate
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
		answer = func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // until all are in the queue
			return status(429)(req)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := get(t.Context(), transport)
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		start := time.Now()
		_, err = get(WithStrategy(t.Context(), &hasty), transport)
		took := time.Since(start)
		wg.Wait()
		require.ErrorIs(t, err, ErrWaitOverCap)
		require.Equal(t, hasty.MaxLimiterWait, took)
	})
}
