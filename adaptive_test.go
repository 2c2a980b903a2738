package retrip

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever sleeps in this file sleeps in a bubble's virtual time.

// second is a clock for the limiter's pure functions.
func second(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// limiterAt begins at a second of that clock.
func limiterAt(s float64) *Limiter {
	l := newLimiter(time.Unix(0, 0).Add(second(s)))
	whole := second(math.Floor(s))
	l.now, l.throttledAt = l.now+whole, l.throttledAt+whole
	l.halfSecond = int64(whole) / halfSeconds
	return l
}

// The limiter as a timeline: what happens, and what state it leaves. The
// numbers are the rows published with the AWS SDKs' tests.
func TestLimiterTimeline(t *testing.T) {
	l := limiterAt(0)
	rows := []struct {
		at                    float64
		throttled             bool
		measured, rate, burst float64
		enabled               bool
	}{
		{0.2, false, 0, 0.5, 1, false},
		{0.4, false, 0, 0.5, 1, false},
		{0.6, false, 4.8, 0.5, 1, false},
		{1.0, false, 2.56, 0.5, 1, false},
		{1.2, false, 2.56, 0.6912, 1, false},
		{1.4, false, 2.56, 1.0976, 1.0976, false},
		{2.0, true, 2.912, 2.0384, 2.0384, true}, // 0.7 times what was sent
		{2.0, true, 2.912, 1.42688, 1.42688, true},
		{1.0, false, 2.912, 1.42688, 1.42688, true}, // a clock that goes back stands still
	}
	for i, row := range rows {
		l.update(second(row.at), row.throttled)
		got := l.State()
		require.InDelta(t, row.measured, got.Measured, 1e-9, "row %d", i)
		require.InDelta(t, row.rate, got.Rate, 1e-9, "row %d", i)
		require.InDelta(t, row.burst, got.Burst, 1e-9, "row %d", i)
		require.Equal(t, row.enabled, got.Enabled, "row %d", i)
	}
}

// Updates before the first throttle that take no lock leave the same rate as
// those that do, and a few tokens less, since tokens come at the rate that was
// settled last.
func TestLimiterMakesUpForWhatItPutOff(t *testing.T) {
	putOff := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		l, locked := limiterAt(0), limiterAt(0)
		at, perSecond, throttles := 0.0, 1+100*random.Float64(), 0
		for throttles < 3 {
			at += random.ExpFloat64() / perSecond
			throttled := random.Float64() < 0.003
			if random.Float64() < 0.01 {
				l.count(second(at))
				locked.count(second(at))
				continue
			}
			locked.settled.Store(0) // so that the update takes the lock
			locked.update(second(at), throttled)
			l.update(second(at), throttled)
			putOff = max(putOff, int(l.more.Load()))
			if throttled {
				throttles++
			}
			if throttled || random.Float64() < 0.01 {
				requireSameRate(t, locked.State(), l.State(), seed)
			}
		}
	}
	require.Greater(t, putOff, 10, "updates that took no lock")
}

func requireSameRate(t *testing.T, want, got LimiterState, seed uint64) {
	t.Helper()
	require.LessOrEqual(t, got.Tokens, want.Tokens+1e-9, "seed %d", seed)
	if want.Enabled { // before that, attempts need no tokens
		require.GreaterOrEqual(t, got.Tokens, want.Tokens-want.Burst/4, "seed %d", seed)
	}
	got.Tokens = want.Tokens
	require.Equal(t, want, got, "seed %d", seed)
}

func TestLimiterPermits(t *testing.T) {
	l := limiterAt(0)
	paid, p := l.admit(second(0), false)
	require.False(t, paid, "before the first throttle permits are free")
	require.Nil(t, p)
	l.update(second(0), true) // nothing measured yet: the slowest rate, one in two seconds

	_, first := l.admit(second(0.1), false)
	require.NotNil(t, first)
	_, later := l.admit(second(0.1), false)
	require.InDelta(t, 1.9, first.expected.Seconds(), 1e-9)
	require.InDelta(t, 3.9, later.expected.Seconds(), 1e-9)

	granted, wait := l.turn(first, second(0.1))
	require.False(t, granted)
	require.InDelta(t, 1.9, wait.Seconds(), 1e-9)
	granted, wait = l.turn(later, second(5))
	require.False(t, granted, "not before the first in line, whatever the time")
	require.Negative(t, wait)

	granted, _ = l.turn(first, second(5)) // the burst is one: five seconds saved up no more
	require.True(t, granted)
	<-later.wake
	granted, wait = l.turn(later, second(5))
	require.False(t, granted)
	require.InDelta(t, 2, wait.Seconds(), 1e-9)

	l.giveBack()
	<-later.wake
	granted, _ = l.turn(later, second(5))
	require.True(t, granted, "a permit that was not used is the next one's")
	require.Zero(t, l.State().Waiting)
}

func TestLimiterPlacesGivenUp(t *testing.T) {
	l := limiterAt(0)
	l.update(second(0), true)
	var places []*place
	for range 4 {
		_, p := l.admit(second(0), false)
		places = append(places, p)
	}
	l.leave(places[1])
	l.leave(places[3])
	l.leave(places[0])
	<-places[2].wake
	require.Equal(t, 1, l.State().Waiting)
	granted, _ := l.turn(places[2], second(2))
	require.True(t, granted)
}

// Whatever the clock does and whatever happens, the rate is a positive number
// and the tokens are no debt.
func FuzzLimiter(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(3), uint64(1<<63))
	f.Fuzz(func(t *testing.T, seed1, seed2 uint64) {
		rng := rand.New(rand.NewPCG(seed1, seed2))
		l := limiterAt(rng.Float64() * 10)
		now := second(10)
		var waiting []*place
		for range 200 {
			switch rng.IntN(4) {
			case 0:
				now -= time.Duration(rng.Int64N(int64(time.Hour)))
			case 1:
				now += time.Duration(rng.Int64N(int64(24 * 365 * time.Hour)))
			default:
				now += time.Duration(rng.Int64N(int64(time.Second)))
			}
			switch rng.IntN(6) {
			case 0, 1:
				l.update(now, rng.IntN(3) == 0)
			case 2:
				l.count(now)
			case 3:
				if _, p := l.admit(now, false); p != nil {
					waiting = append(waiting, p)
				}
			case 4:
				if len(waiting) > 0 {
					if granted, _ := l.turn(waiting[0], now); granted {
						waiting = waiting[1:]
					}
				}
			case 5:
				if n := len(waiting); n > 0 {
					l.leave(waiting[n-1])
					waiting = waiting[:n-1]
				}
			}
			s := l.State()
			if s.Enabled && (!(s.Rate >= minRate) || math.IsInf(s.Rate, 0)) {
				t.Fatalf("rate %v", s.Rate)
			}
			if !(s.Tokens >= 0 && s.Tokens <= max(s.Burst, minBurst)) || math.IsNaN(s.Measured) || s.Measured < 0 {
				t.Fatalf("state %+v", s)
			}
			if s.Waiting != len(waiting) {
				t.Fatalf("%d waiting, want %d", s.Waiting, len(waiting))
			}
			if q := l.queueTime(now); q < 0 {
				t.Fatalf("queue time %v", q)
			}
		}
	})
}

// Through the transport: a throttle slows first attempts down, in the order in
// which they came, and a caller that gives up leaves no trace.
func TestAdaptiveDelaysFirstAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxAttempts = 1
		base := script(status(429), status(200))
		transport := &Transport{Base: base, Strategy: s}
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.True(t, s.Limiter.State().Enabled)

		start := time.Now()
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			order []int
		)
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%4 == 3 {
				time.AfterFunc(time.Second/2, cancel)
			}
			wg.Go(func() {
				_, err := get(ctx, transport)
				if i%4 == 3 {
					assert.ErrorIs(t, err, ErrCancelled)
					return
				}
				assert.NoError(t, err)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait() // so that they join the queue in this order
		}
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18}, order)
		require.Greater(t, time.Since(start), 2*time.Second)
		require.Zero(t, s.Limiter.State().Waiting)
		require.Len(t, base.Sent(), 16)
	})
}

// The limiter hears of every attempt, also of retries and of other errors, and
// a success after throttling refills the retry quota.
func TestAdaptiveHearsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Adaptive())
		base := script(status(503), status(429), status(200))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.True(t, s.Limiter.State().Enabled, "the throttle came on the second attempt")
		require.Equal(t, 495, s.tokens())
		require.Len(t, base.Sent(), 3)
	})
}

// Only throttling slows attempts down: other failures say nothing about their number.
func TestOtherFailuresDoNotSlowDown(t *testing.T) {
	for _, failure := range []step{status(503), status(404), jsonError(400, "RequestTimeout"), fails(errReset)} {
		s := Adaptive()
		s.Backoff = Constant{}
		_, _ = get(t.Context(), &Transport{Base: script(failure), Strategy: s})
		require.False(t, s.Limiter.State().Enabled)
	}
}

// However long ago the throttle was, the limiter allows no more than twice what
// is sent, so that a sudden burst does not meet the server all at once.
func TestRateIsAtMostTwiceWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxAttempts = 1
		n := 0
		transport := &Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			if n++; n == 40 {
				return status(429)(req)
			}
			return status(200)(req)
		})}
		for range 640 {
			_, err := get(t.Context(), transport)
			require.NoError(t, err)
			time.Sleep(time.Second / 10)
		}
		state := s.Limiter.State()
		require.True(t, state.Enabled)
		require.InDelta(t, 10, state.Measured, 1)
		require.InDelta(t, 2*state.Measured, state.Rate, 1e-9)
	})
}

// The limiter's state never shows more tokens than it may save up: not after a
// cut, and not when a permit comes back that was not used.
func TestTokensAreNeverMoreThanTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.MaxAttempts = 1
		answer, failing := status(200), false
		transport := &Transport{
			Strategy: s,
			Base:     step(func(req *http.Request) (*http.Response, error) { return answer(req) }),
			Prepare: func(*http.Request, PrepareInfo) error {
				if failing {
					time.Sleep(4 * time.Second)
					return io.ErrNoProgress
				}
				return nil
			},
		}
		send := func(play step) {
			answer = play
			_, err := get(t.Context(), transport)
			require.NoError(t, err)
			state := s.Limiter.State()
			require.LessOrEqual(t, state.Tokens, max(state.Burst, 1))
		}
		for range 100 {
			send(status(200))
			time.Sleep(10 * time.Millisecond)
		}
		send(status(429))
		for range 100 {
			send(status(200))
		}
		time.Sleep(10 * time.Second) // the bucket is full
		send(status(429))

		time.Sleep(10 * time.Second)
		failing = true
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := get(t.Context(), transport)
			assert.ErrorIs(t, err, ErrPrepareFailed)
		})
		synctest.Wait()
		failing = false
		time.Sleep(3 * time.Second) // the bucket is filling up again
		send(status(200))
		wg.Wait()
		state := s.Limiter.State()
		require.LessOrEqual(t, state.Tokens, max(state.Burst, 1))
	})
}

func TestCancelledAttemptDoesNotMoveTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.Limiter.update(s.Limiter.clock(), true)
		before := s.Limiter.State()
		ctx, cancel := context.WithCancel(t.Context())
		base := step(func(req *http.Request) (*http.Response, error) {
			cancel()
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		_, err := get(ctx, &Transport{Base: base, Strategy: s})
		require.ErrorIs(t, err, context.Canceled)
		after := s.Limiter.State()
		require.Equal(t, before.Rate, after.Rate)
		require.NotEqual(t, before.Measured, after.Measured, "it was sent, and counts")
	})
}

// Ten thousand waiters: first come first served, and none spins.
func TestLongQueueIsFirstComeFirstServed(t *testing.T) {
	const n = 10_000
	if raceEnabled {
		t.Skip("the race detector allows fewer goroutines than this wants")
	}
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.Limiter.update(s.Limiter.clock(), true)
		l := s.Limiter
		l.rate, l.burst = 100, 1
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			order []int
			turns int
		)
		for i := range n {
			wg.Go(func() {
				_, p := l.admit(l.clock(), false)
				for p != nil {
					granted, wait := l.turn(p, l.clock())
					mu.Lock()
					turns++
					mu.Unlock()
					if granted {
						break
					}
					req := newRequest(t, "GET", nil)
					assert.NoError(t, pause(req, wait, p.wake))
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			if i%100 == 99 {
				synctest.Wait()
			}
		}
		start := time.Now()
		wg.Wait()
		require.InDelta(t, n/100, time.Since(start).Seconds(), 1)
		require.LessOrEqual(t, turns, 3*n, "joining, becoming the first, and going")
		for i := range order {
			require.InDelta(t, i, order[i], 100, "those who came together may go in any order")
		}
	})
}
