package retrip_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// Whatever sleeps in this file sleeps in a bubble's virtual time.

// Requests that were throttled together come back together, and the send-rate
// limiter's queue is then longer than each of them could see before its backoff.
// A caller whose retry can't wait that long gets the answer, not an error about
// the queue.
func TestAnswerIsKeptUntilTheLimiterAdmitsTheRetry(t *testing.T) {
	for name, bound := range map[retrip.Reason]struct{ admit, deadline time.Duration }{
		retrip.WaitOverCap:      {admit: 3 * time.Second, deadline: time.Hour},
		retrip.WaitOverDeadline: {deadline: 5 * time.Second},
	} {
		t.Run(name.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const requests = 8
				s := retrip.Adaptive()
				s.ThrottleBackoff = retrip.Constant{Wait: 2 * time.Second}
				s.MaxLimiterWait = bound.admit
				var sent atomic.Int32
				transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
					time.Sleep(time.Millisecond) // until all first attempts are sent
					if sent.Add(1) <= requests {
						return answer(429, "slow down")(req)
					}
					return answer(200, "slow down")(req)
				})}
				ctx, cancel := context.WithTimeout(t.Context(), bound.deadline)
				defer cancel()
				var (
					all     sync.WaitGroup
					refused atomic.Int32
				)
				for range requests {
					all.Go(func() {
						ctx, trace := retrip.WithTrace(ctx)
						req := newRequest(t, "GET", nil).WithContext(ctx)
						resp, err := transport.RoundTrip(req)
						if !assert.NoError(t, err) {
							return
						}
						time.Sleep(time.Millisecond) // in the bubble's time, for whatever might still close the answer
						assert.Same(t, req, resp.Request)
						body, err := io.ReadAll(resp.Body)
						assert.NoError(t, err)
						assert.Equal(t, "slow down", string(body))
						assert.NoError(t, resp.Body.Close())
						events := trace.Requests()[0]
						last := events[len(events)-1]
						assert.True(t, last.Final)
						assert.Equal(t, resp.StatusCode, last.Status)
						if resp.StatusCode == 429 {
							refused.Add(1)
							assert.Equal(t, name, last.Reason)
						}
					})
				}
				all.Wait()
				require.Positive(t, refused.Load(), "requests that the limiter refused")
				require.Less(t, refused.Load(), int32(requests))
				require.Zero(t, s.Limiter.State().Waiting)
			})
		})
	}
}

// A retry is served before first attempts that came earlier: it has waited
// already. Retries among themselves keep their order, and so do first attempts.
func TestLimiterServesRetriesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retrip.Adaptive()
		s.ThrottleBackoff = retrip.Constant{Wait: time.Second}
		var (
			mu    sync.Mutex
			order []string
		)
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			order = append(order, req.URL.Path)
			throttle := len(order) <= 2
			mu.Unlock()
			time.Sleep(5 * time.Millisecond) // until both requests are sent
			if throttle {
				return answer(429, "")(req)
			}
			return answer(200, "")(req)
		})}
		var all sync.WaitGroup
		send := func(path string) {
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), "GET", "http://example.com"+path, nil)
				assert.NoError(t, err)
				resp, err := transport.RoundTrip(req)
				if assert.NoError(t, err) {
					assert.NoError(t, resp.Body.Close())
				}
			})
			time.Sleep(time.Millisecond)
		}
		send("/retry1")
		send("/retry2")
		time.Sleep(10 * time.Millisecond) // until both are throttled
		for _, path := range []string{"/first1", "/first2", "/first3"} {
			send(path) // queued, while the others wait out their backoff
		}
		all.Wait()
		require.Equal(t, []string{"/retry1", "/retry2", "/retry1", "/retry2", "/first1", "/first2", "/first3"}, order)
	})
}

// A file changes while the retry waits. The body can't be sent again, and the
// caller gets the answer.
func TestAnswerIsKeptUntilTheFileIsSeenUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "body")
		require.NoError(t, os.WriteFile(path, []byte("first"), 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		s := retrip.Standard()
		s.Backoff = retrip.Constant{Wait: time.Second}
		sent := 0
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			sent++
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
			return answer(503, "come back later")(req)
		})}
		req := newRequest(t, "PUT", file)
		changed := time.AfterFunc(time.Second/2, func() {
			assert.NoError(t, os.WriteFile(path, []byte("second"), 0o600))
		})
		defer changed.Stop()
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		synctest.Wait() // for whatever might still close the answer
		require.Equal(t, 503, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "come back later", string(body))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, sent)
		require.ErrorIs(t, file.Close(), os.ErrClosed)
		require.Equal(t, 500, s.Quota.(*retrip.Bucket).Tokens(), "the retry's tokens came back")
	})
}
