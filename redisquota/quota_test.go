package redisquota_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// newFleet is New with a Close at the end of the test.
func newFleet(t testing.TB, client redisquota.Client, o redisquota.Options) *redisquota.Fleet {
	t.Helper()
	fleet, err := redisquota.New(client, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return fleet
}

// sleepy is a Client whose server never says anything.
type sleepy struct{}

func (sleepy) Eval(ctx context.Context, _, _ string, _ ...string) ([]int64, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAnswersAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	quota := newFleet(t, newMemory(), redisquota.Options{}).Quota("api")
	require.Zero(t, testing.AllocsPerRun(10_000, func() { quota.Answered(retrip.Success, 0) }))
}

func BenchmarkAnswered(b *testing.B) {
	for name, quota := range map[string]retrip.Quota{
		"gate":  new(retrip.Gate),
		"fleet": newFleet(b, sleepy{}, redisquota.Options{}).Quota("api"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					quota.Answered(retrip.Success, 0)
				}
			})
		})
		b.Run(name+" alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				quota.Answered(retrip.Success, 0)
			}
		})
	}
}

// A request that succeeds does not talk to Redis: the one goroutine of the Fleet does,
// later.
func TestSuccessRunsNoCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newMemory()
		fleet := newFleet(t, server, redisquota.Options{})
		s := retrip.Gated()
		s.Quota = fleet.Quota("api")
		transport := &retrip.Transport{Strategy: s, Base: answers(http.StatusOK)}
		before := runtime.NumGoroutine()
		for range 1000 {
			get(t, transport)
		}
		synctest.Wait()
		require.Zero(t, server.evals.Load())
		require.Equal(t, before, runtime.NumGoroutine())
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, server.evals.Load(), "reports without news")
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answers is a server that answers with one status after another.
func answers(statuses ...int) roundTripper {
	var n atomic.Int64
	return func(req *http.Request) (*http.Response, error) {
		status := statuses[(int(n.Add(1))-1)%len(statuses)]
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
}

func get(t *testing.T, rt http.RoundTripper) *http.Response {
	t.Helper()
	req, err := http.NewRequest("GET", "http://api.example/", nil)
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

// failure is the first of a request that may take three attempts.
func failure() retrip.Failure {
	return retrip.Failure{Class: retrip.Transient, Attempt: 1, MaxAttempts: 3, Done: time.Now()}
}

// Close ends all goroutines, also of those that ask: synctest would find one left.
func TestCloseEndsWhatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, err := redisquota.New(sleepy{}, redisquota.Options{})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 10 {
			quota := fleet.Quota(fmt.Sprint(i))
			wg.Go(func() {
				quota.Failed(failure())
				quota.Take(t.Context(), failure())
			})
		}
		time.Sleep(time.Millisecond) // they wait
		begun := time.Now()
		require.NoError(t, fleet.Close())
		require.NoError(t, fleet.Close())
		wg.Wait()
		require.Zero(t, time.Since(begun), "somebody waits after Close")
		fleet.Quota("late").Failed(failure())
		require.True(t, fleet.Quota("late").Take(t.Context(), failure()))
	})
}

// Everything may happen at once, also Close.
func TestConcurrentUse(t *testing.T) {
	server := newMemory()
	server.takes.Store(int64(time.Millisecond))
	for range 5 {
		fleet, err := redisquota.New(server, redisquota.Options{Interval: 50 * time.Millisecond})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				quota := fleet.Quota(fmt.Sprint(i % 3))
				for n := range 300 {
					quota.Answered(retrip.Success, 0)
					f := failure()
					f.Attempt = 1 + n%3
					quota.Failed(f)
					quota.Take(context.Background(), f)
					quota.Shut(3)
					quota.Full()
					_ = fleet.Stats()
					for range fleet.Keys() {
						break
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, fleet.Close())
		wg.Wait()
	}
}

// A dependency that nothing uses any more is forgotten, and comes back as a new one.
func TestUnusedQuotasAreForgotten(t *testing.T) {
	fleet := newFleet(t, newMemory(), redisquota.Options{Interval: 50 * time.Millisecond})
	kept := fleet.Quota("kept")
	require.Same(t, kept, fleet.Quota("kept"))
	for i := range 1000 {
		fleet.Quota(fmt.Sprint(i)).Answered(retrip.Success, 0)
	}
	require.Eventually(t, func() bool {
		kept.Answered(retrip.Success, 0)
		runtime.GC()
		n := 0
		for range fleet.Keys() {
			n++
		}
		return n == 1
	}, 10*time.Second, 60*time.Millisecond)
	require.Same(t, kept, fleet.Quota("kept"))
	runtime.KeepAlive(kept)
}

// A server that hangs delays the reports of many dependencies by one of them each time,
// and all are told once it is back.
func TestHangingServerAndManyDependencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newMemory()
		server.hang()
		fleet := newFleet(t, server, redisquota.Options{})
		var quotas []*redisquota.Quota
		for i := range 100 {
			q := fleet.Quota(fmt.Sprint(i))
			q.Answered(retrip.Success, 0)
			quotas = append(quotas, q)
		}
		time.Sleep(10 * time.Second)
		require.InDelta(t, 13, server.evals.Load(), 4) // 500 ms and 250 ms each
		server.takes.Store(0)
		time.Sleep(2 * time.Second)
		told := 0
		for _, q := range quotas {
			if q.Stats().Age >= 0 {
				told++
			}
		}
		require.GreaterOrEqual(t, told, 80)
		require.Zero(t, fleet.Stats().Blinded)
	})
}

// What makes no sense is an error that says what to do instead.
func TestNewRefusesNonsense(t *testing.T) {
	ok := newMemory()
	for _, row := range []struct {
		client  redisquota.Client
		options redisquota.Options
		says    string
	}{
		{nil, redisquota.Options{}, "the client is nil: use DialRueidis"},
		{(*redisquota.LazyRueidis)(nil), redisquota.Options{}, "the client is nil"},
		{redisquota.Rueidis(nil), redisquota.Options{}, "the client is nil"},
		{ok, redisquota.Options{Prefix: "a b"}, `Options.Prefix is "a b": use 1 to 64 letters`},
		{ok, redisquota.Options{Prefix: "{all}"}, "Options.Prefix"},
		{ok, redisquota.Options{Prefix: strings.Repeat("x", 65)}, "Options.Prefix"},
		{ok, redisquota.Options{Interval: -1}, "Options.Interval is -1ns: use 0 for 500ms, or 50ms to 10s"},
		{ok, redisquota.Options{Interval: time.Hour}, "Options.Interval"},
	} {
		fleet, err := redisquota.New(row.client, row.options)
		require.Nil(t, fleet)
		require.ErrorContains(t, err, row.says)
	}
}

// Failures that no Transport reports don't panic, and add no more than others.
func TestStrangeFailures(t *testing.T) {
	fleet := newFleet(t, newMemory(), redisquota.Options{})
	for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
		for _, m := range []int{math.MinInt, -1, 0, math.MaxInt} {
			q := fleet.Quota(fmt.Sprint(n, m))
			f := retrip.Failure{Attempt: n, Hinted: m, MaxAttempts: n, Hint: m > 0}
			q.Failed(f)
			q.Take(t.Context(), f)
			q.Shut(n)
			require.Eventually(t, func() bool { return q.Stats().Age >= 0 }, 5*time.Second, time.Millisecond)
			require.LessOrEqual(t, q.Stats().FleetDoubt, 2.0)
		}
	}
}
