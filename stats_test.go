package retrip

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// statsByKey collects what Keys yields.
func statsByKey(t *Transport) map[string]KeyStats {
	found := map[string]KeyStats{}
	for k := range t.Keys() {
		found[k.Key] = k
	}
	return found
}

func TestStatsPerKeyAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string][]step{
			"well":     {status(200)},
			"recovers": {status(503), jsonError(400, "SlowDown"), status(200)},
			"sick":     {status(503)},
			"refuses":  {status(404)},
		}
		calls := map[string]int{}
		transport := &Transport{
			KeepStats: true,
			PerKey:    func(string) *Strategy { return Adaptive() },
			Base: step(func(req *http.Request) (*http.Response, error) {
				steps := answers[req.URL.Host]
				calls[req.URL.Host]++
				return steps[min(calls[req.URL.Host], len(steps))-1](req)
			}),
		}
		ask := func(host string) {
			_, err := transport.RoundTrip(hostRequest(t, host))
			require.NoError(t, err)
		}
		require.Equal(t, Stats{GivenUp: map[Reason]int64{}}, transport.Stats())
		for host := range answers {
			ask(host)
		}
		ask("well")
		want := map[string]Stats{
			"well":     {Requests: 2, Attempts: 2, GivenUp: map[Reason]int64{}},
			"recovers": {Requests: 1, Attempts: 3, Retries: 2, Recovered: 1, Throttled: 1, GivenUp: map[Reason]int64{}},
			"sick":     {Requests: 1, Attempts: 3, Retries: 2, GivenUp: map[Reason]int64{AttemptsExhausted: 1}},
			"refuses":  {Requests: 1, Attempts: 1, GivenUp: map[Reason]int64{NotRetryable: 1}},
		}
		have := statsByKey(transport)
		require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(have)))
		for host, stats := range want {
			require.Equal(t, stats, have[host].Stats, host)
		}
		require.Equal(t, 490, have["sick"].Tokens)
		require.Equal(t, 500, have["sick"].Capacity)
		require.Equal(t, 495, have["recovers"].Tokens)
		require.True(t, have["recovers"].Limiter.Enabled)
		require.False(t, have["sick"].Limiter.Enabled)
		require.Equal(t, Stats{
			Requests: 5, Attempts: 9, Retries: 4, Recovered: 1, Throttled: 1,
			GivenUp: map[Reason]int64{AttemptsExhausted: 1, NotRetryable: 1},
		}, transport.Stats())
	})
}

// The same numbers are there for expvar.
func TestStatsAsVars(t *testing.T) {
	transport := &Transport{KeepStats: true, Base: script(status(503)), PerKey: func(string) *Strategy { return noWait(tokens(500)) }}
	for range 2 {
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
	}
	var told struct {
		Total struct{ Requests int64 }
		Keys  map[string]struct {
			GivenUp map[string]int64
			Tokens  int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(expvar.Func(transport.Vars).String()), &told))
	require.EqualValues(t, 2, told.Total.Requests)
	require.EqualValues(t, 2, told.Keys["example.com"].GivenUp["attempts exhausted"])
	require.Equal(t, 480, told.Keys["example.com"].Tokens)
}

// What ends without an attempt is a request, but no attempt.
func TestStatsOfWhatIsNotSent(t *testing.T) {
	s := Adaptive()
	s.Limiter.update(s.Limiter.clock(), true)
	s.MaxLimiterWait = 1
	transport := &Transport{Base: script(status(200)), Strategy: s, KeepStats: true}
	_, err := get(t.Context(), transport)
	require.ErrorIs(t, err, ErrWaitOverCap)
	stats := statsByKey(transport)
	require.Equal(t, Stats{Requests: 1, GivenUp: map[Reason]int64{WaitOverCap: 1}}, stats[""].Stats)
	require.True(t, stats[""].Limiter.Enabled)
}

// The empty key is that of whoever has no other: beyond MaxKeys, and with a
// strategy of their own.
func TestStatsOfSharedKeys(t *testing.T) {
	transport := &Transport{KeepStats: true, MaxKeys: 1, Base: script(status(404)), PerKey: func(string) *Strategy {
		return &Strategy{MaxAttempts: 1, Backoff: Constant{}, Quota: NewBucket(0)}
	}}
	require.Empty(t, statsByKey(transport))
	for i := range 3 {
		entryOf(transport, hostRequest(t, "kept")).policy.Quota = new(lentQuota) // never as new, so never dropped
		_, err := transport.RoundTrip(hostRequest(t, fmt.Sprint("host", i)))
		require.NoError(t, err)
	}
	_, err := get(WithStrategy(t.Context(), Standard()), transport)
	require.NoError(t, err)
	stats := statsByKey(transport)
	require.Len(t, stats, 2)
	require.EqualValues(t, 4, stats[""].Requests)
	require.EqualValues(t, 0, stats["kept"].Requests)
}

// A lentQuota does not say what it has.
type lentQuota struct{}

func (*lentQuota) Answered(Class, int)                {}
func (*lentQuota) Failed(Failure)                     {}
func (*lentQuota) Take(context.Context, Failure) bool { return true }
func (*lentQuota) Return(int)                         {}

// Without KeepStats nothing is counted, and the state of each key is there.
func TestKeysAreThereWithoutStats(t *testing.T) {
	transport := &Transport{Base: script(status(200))}
	_, err := get(t.Context(), transport)
	require.NoError(t, err)
	require.Zero(t, transport.Stats().Requests)
	keys := statsByKey(transport)
	require.Len(t, keys, 1)
	require.Equal(t, 500, keys["example.com"].Tokens)
}

// Reading the numbers stops nobody, and loses nothing.
func TestStatsUnderLoad(t *testing.T) {
	transport := &Transport{KeepStats: true, MaxKeys: 8, Base: testkit.Empty(200)}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 500 {
				_, err := transport.RoundTrip(hostRequest(t, fmt.Sprint(worker, i%16)))
				assert.NoError(t, err)
				if i%50 == 0 {
					for k := range transport.Keys() {
						assert.Equal(t, 500, k.Tokens)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, Stats{Requests: 2000, Attempts: 2000, GivenUp: map[Reason]int64{}}, transport.Stats())
}
