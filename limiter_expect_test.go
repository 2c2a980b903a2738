package retrip_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Whatever sleeps in this file sleeps in a bubble's virtual time.

// A throttledHost answers 429 to the first requests and then what answer says.
// From the first throttle on, its limiter gives one permit in two seconds.
type throttledHost struct {
	transport *retrip.Transport
	patient   *retrip.Strategy
	hasty     *retrip.Strategy // waits no more than 3 s for the same limiter
	answer    func(*http.Request) (*http.Response, error)
	prepare   error // what Prepare returns
}

func newThrottledHost() *throttledHost {
	h := &throttledHost{patient: retrip.Adaptive()}
	h.patient.Backoff, h.patient.ThrottleBackoff = retrip.Constant{}, retrip.Constant{Wait: time.Second}
	hasty := *h.patient
	hasty.MaxLimiterWait = 3 * time.Second
	h.hasty = &hasty
	h.transport = &retrip.Transport{
		Strategy: h.patient,
		Base:     step(func(req *http.Request) (*http.Response, error) { return h.answer(req) }),
		Prepare:  func(*http.Request, retrip.PrepareInfo) error { return h.prepare },
	}
	return h
}

func (h *throttledHost) get(ctx context.Context) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
	if err != nil {
		return 0, err
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// A retry is served before the first attempts that wait, so their number does
// not make its wait too long.
func TestRetryExpectsOnlyRetriesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottledHost()
		h.answer = answer(429, "")
		_, err := h.get(retrip.WithMaxAttempts(t.Context(), 1))
		require.NoError(t, err)
		h.answer = func(req *http.Request) (*http.Response, error) {
			if first, _ := req.Context().Value(ownKey{}).(*bool); first != nil && *first {
				*first = false
				time.Sleep(time.Second) // until the others are in the queue
				return answer(503, "")(req)
			}
			return answer(200, "")(req)
		}
		var all sync.WaitGroup
		all.Go(func() {
			first := true
			ctx := retrip.WithStrategy(context.WithValue(t.Context(), ownKey{}, &first), h.hasty)
			status, err := h.get(ctx)
			assert.NoError(t, err)
			assert.Equal(t, 200, status)
			assert.False(t, first)
		})
		time.Sleep(2500 * time.Millisecond) // until it is sent
		for range 5 {
			all.Go(func() {
				_, err := h.get(t.Context())
				assert.NoError(t, err)
			})
		}
		all.Wait()
	})
}

type ownKey struct{}

// A first attempt knows that the retries in the queue are served before it.
func TestFirstAttemptExpectsRetriesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottledHost()
		var sent atomic.Int32
		h.answer = func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond) // until all first attempts are sent
			if sent.Add(1) <= 3 {
				return answer(429, "")(req)
			}
			return answer(200, "")(req)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				status, err := h.get(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, 200, status)
			})
		}
		time.Sleep(1500 * time.Millisecond) // until the retries are in the queue
		start := time.Now()
		_, err := h.get(retrip.WithStrategy(t.Context(), h.hasty))
		require.ErrorIs(t, err, retrip.ErrWaitOverCap)
		require.Zero(t, time.Since(start))
		all.Wait()
	})
}

// A server answers before it has the whole request, and the retry is refused by
// the limiter. The caller gets the response, and the request goes on to be sent.
func TestRefusedRetryLeavesTheUploadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 8
		h := newThrottledHost()
		h.hasty.ThrottleBackoff = retrip.Constant{Wait: 2 * time.Second}
		var (
			sent, whole, refused atomic.Int32
			all                  sync.WaitGroup
		)
		h.answer = func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond) // until all first attempts are sent
			if sent.Add(1) > requests {
				_, err := io.Copy(io.Discard, req.Body)
				assert.NoError(t, err)
				assert.NoError(t, req.Body.Close())
				return answer(200, "")(req)
			}
			all.Go(func() {
				time.Sleep(time.Minute) // until RoundTrip has returned
				if body, err := io.ReadAll(req.Body); err == nil && string(body) == "order" {
					whole.Add(1)
				}
				assert.NoError(t, req.Body.Close())
			})
			return answer(429, "")(req)
		}
		for range requests {
			all.Go(func() {
				ctx := retrip.WithStrategy(t.Context(), h.hasty)
				req := newRequest(t, "PUT", testkit.OnlyReader(strings.NewReader("order"))).WithContext(ctx)
				resp, err := h.transport.RoundTrip(req)
				if assert.NoError(t, err) && resp.StatusCode == 429 {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		require.Positive(t, refused.Load())
		require.Equal(t, refused.Load(), whole.Load(), "bodies that were sent whole")
	})
}

// A permit that was not used comes back once.
func TestPermitComesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottledHost()
		h.answer = answer(200, "")
		ctx := retrip.WithMaxAttempts(t.Context(), 1)
		send := func() {
			_, err := h.get(ctx)
			require.NoError(t, err)
		}
		for range 100 {
			send()
			time.Sleep(10 * time.Millisecond)
		}
		h.answer = answer(429, "")
		send()
		time.Sleep(100 * time.Millisecond) // while some permits are saved up
		h.answer = answer(200, "")
		send()
		before := h.patient.Limiter.State()
		require.Greater(t, before.Tokens, 1.0)
		require.Less(t, before.Tokens, before.Burst-1)

		h.prepare = io.ErrNoProgress
		_, err := h.get(ctx)
		require.ErrorIs(t, err, retrip.ErrPrepareFailed)
		require.InDelta(t, before.Tokens, h.patient.Limiter.State().Tokens, 1e-9)
	})
}

// The event of a request that the limiter refuses tells the wait that was too
// long.
func TestRefusalTellsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottledHost()
		h.hasty.MaxLimiterWait = time.Second
		h.answer = answer(429, "")
		_, err := h.get(retrip.WithMaxAttempts(t.Context(), 1))
		require.NoError(t, err)
		ctx, trace := retrip.WithTrace(retrip.WithStrategy(t.Context(), h.hasty))
		_, err = h.get(ctx)
		require.ErrorIs(t, err, retrip.ErrWaitOverCap)
		events := trace.Requests()[0]
		require.Len(t, events, 1)
		require.Equal(t, 2*time.Second, events[0].Wait)
		require.Equal(t, "limiter", events[0].WaitFrom)
	})
}

// A permit that was waited for and then not used serves the next request.
func TestPermitThatWasWaitedForComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottledHost()
		h.answer = answer(429, "")
		_, err := h.get(retrip.WithMaxAttempts(t.Context(), 1))
		require.NoError(t, err)
		h.answer, h.prepare = answer(200, ""), io.ErrNoProgress
		_, err = h.get(t.Context())
		require.ErrorIs(t, err, retrip.ErrPrepareFailed)
		start := time.Now()
		h.prepare = nil
		_, err = h.get(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
	})
}
