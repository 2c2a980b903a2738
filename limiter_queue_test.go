package retrip

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A queueTest has a transport whose limiter gives some hundred permits a
// second, and notes when each attempt was sent.
type queueTest struct {
	t         *testing.T
	transport *Transport
	limiter   *Limiter
	wg        sync.WaitGroup

	mu     sync.Mutex
	joined int
	sent   []int
	at     []time.Time
}

type stepKey struct{}

// inQueue runs test in a bubble: whatever sleeps in this file sleeps in the
// bubble's time.
func inQueue(t *testing.T, test func(*testing.T, *queueTest)) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxAttempts = 1
		q := &queueTest{t: t, limiter: s.Limiter, transport: &Transport{
			Strategy: s,
			Base: step(func(req *http.Request) (*http.Response, error) {
				return req.Context().Value(stepKey{}).(step)(req)
			}),
		}}
		send := func(s step) {
			_, err := get(context.WithValue(t.Context(), stepKey{}, s), q.transport)
			require.NoError(t, err)
		}
		for range 89 {
			send(status(200))
		}
		time.Sleep(time.Second / 2) // so that what was sent is measured
		send(status(429))
		require.InDelta(t, 0.7*0.8*180, q.rate(), 1e-9)
		test(t, q)
		q.wg.Wait()
		require.Zero(t, q.limiter.State().Waiting)
	})
}

func (q *queueTest) rate() float64 { return q.limiter.State().Rate }

// join lets n attempts join the queue one after the other, and returns what
// makes the last of them give up. They leave the rate as it is: each is sent
// and then cancelled by its caller, which says nothing about the server.
func (q *queueTest) join(n int) (giveUp []context.CancelFunc) {
	for range n {
		i := q.joined
		q.joined++
		ctx, cancel := context.WithCancel(q.t.Context())
		giveUp = append(giveUp, cancel)
		ctx = context.WithValue(ctx, stepKey{}, step(func(*http.Request) (*http.Response, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.sent, q.at = append(q.sent, i), append(q.at, time.Now())
			cancel()
			return nil, ctx.Err()
		}))
		q.wg.Go(func() {
			_, err := get(ctx, q.transport)
			assert.ErrorIs(q.t, err, context.Canceled)
		})
		synctest.Wait() // until it stands in line
	}
	return giveUp
}

// hold sends an attempt whose answer comes when the returned function is
// called.
func (q *queueTest) hold(code int) (answer func()) {
	come := make(chan struct{})
	q.wg.Go(func() {
		_, err := get(context.WithValue(q.t.Context(), stepKey{}, step(func(req *http.Request) (*http.Response, error) {
			<-come
			return status(code)(req)
		})), q.transport)
		assert.NoError(q.t, err)
	})
	time.Sleep(time.Second) // until it has its permit
	return func() {
		close(come)
		synctest.Wait()
	}
}

// served tells who was sent so far, and when.
func (q *queueTest) served() (who []int, at []time.Time) {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent, q.at
}

// last is when the last attempt so far was sent.
func (q *queueTest) last() time.Time {
	_, at := q.served()
	return at[len(at)-1]
}

// evenly checks that after a moment one was sent in each period, and returns
// how long the first took.
func (q *queueTest) evenly(after time.Time, period time.Duration) time.Duration {
	_, at := q.served()
	first := slices.IndexFunc(at, after.Before)
	require.Positive(q.t, len(at)-1-first)
	for i := first + 1; i < len(at); i++ {
		require.InDelta(q.t, period, at[i].Sub(at[i-1]), float64(time.Microsecond))
	}
	return at[first].Sub(after)
}

func perSecond(rate float64) time.Duration { return time.Duration(float64(time.Second) / rate) }

// Ten thousand are served in the order in which they came, at the limiter's
// rate.
func TestQueueIsFirstComeFirstServed(t *testing.T) {
	n := 10_000
	if raceEnabled {
		n = 5_000 // the race detector can't have so many goroutines
	}
	inQueue(t, func(t *testing.T, q *queueTest) {
		start, rate := time.Now(), q.rate()
		q.join(n)
		require.Zero(t, time.Since(start))
		q.wg.Wait()
		require.InDelta(t, float64(n)/rate, time.Since(start).Seconds(), 1/rate)
		require.Equal(t, rate, q.rate())
		who, _ := q.served()
		require.Len(t, who, n)
		require.IsIncreasing(t, who)
	})
}

// Nobody overtakes those who wait by coming in the moment in which a permit
// does.
func TestQueueIsNotOvertaken(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queueTest) {
		q.join(10)
		time.Sleep(perSecond(q.rate())) // until the first was sent
		for i := range 300 {
			offset := time.Duration(i%3 - 1) // the limiter's nanoseconds may be rounded otherwise
			time.Sleep(time.Until(q.last().Add(perSecond(q.rate()) + offset)))
			q.join(1)
		}
		q.wg.Wait()
		who, _ := q.served()
		require.Len(t, who, 310)
		require.IsIncreasing(t, who)
	})
}

// Who gives up leaves at once, takes no permit, and all behind move up.
func TestQueueClosesUpBehindWhoGivesUp(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queueTest) {
		start, rate := time.Now(), q.rate()
		giveUp := q.join(1000)
		time.Sleep(time.Second) // while some are served
		who, _ := q.served()
		gave, served, stay := time.Now(), len(who), 0
		for i := served; i < 1000; i++ {
			if i%10 == 0 {
				stay++
			} else {
				giveUp[i]()
			}
		}
		synctest.Wait()
		require.Zero(t, time.Since(gave))
		require.Equal(t, stay, q.limiter.State().Waiting)

		q.wg.Wait()
		who, _ = q.served()
		require.Len(t, who, served+stay)
		require.IsIncreasing(t, who)
		require.InDelta(t, float64(served+stay)/rate, time.Since(start).Seconds(), 1/rate)
	})
}

// A throttle slows those down who wait already.
func TestQueueObeysACut(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queueTest) {
		throttle := q.hold(429)
		q.join(500)
		time.Sleep(time.Second) // while some are served
		before := q.rate()
		throttle()
		cut, last, rate := time.Now(), q.last(), q.rate()
		require.Less(t, rate, 0.75*before)
		q.wg.Wait()
		first := q.evenly(cut, perSecond(rate))
		require.Greater(t, cut.Add(first).Sub(last), perSecond(before), "who was next, too")
	})
}

// When more may be sent, the next in line does not sleep out a wait that was
// reckoned at the old rate.
func TestQueueUsesARise(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queueTest) {
		succeed := q.hold(200)
		q.join(2000)
		time.Sleep(10 * time.Second) // while the curve goes up
		before := q.rate()
		moment := q.last().Add(perSecond(before) * 5 / 4)
		time.Sleep(time.Until(moment)) // a quarter of the way to the permit after the next
		succeed()
		rate := q.rate()
		require.Greater(t, rate, 1.5*before)
		q.wg.Wait()
		first := q.evenly(moment, perSecond(rate))
		require.InDelta(t, perSecond(rate)*3/4, first, float64(time.Microsecond))
	})
}
