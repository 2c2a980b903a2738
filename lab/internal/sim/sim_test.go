package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// busy is a world of a thousand clients of a server that fails a part of attempts.
func busy(part float64, quota func() *retrip.Strategy) *World {
	w := NewWorld(1)
	w.Tiers = []*Tier{NewTier(1000, false, quota)}
	site := &Site{Latency: 5 * time.Millisecond, Failures: part}
	site.Start(1)
	w.Server = site
	w.Arrivals.Rate = func(time.Duration) (float64, time.Duration) { return 10_000, math.MaxInt64 }
	w.Record = NewRecord(time.Second, 1000*time.Second)
	return w
}

// steps runs so many events.
func (w *World) steps(n int) {
	for range n {
		w.step()
	}
}

func TestEventsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates itself")
	}
	for name, strategy := range map[string]func() *retrip.Strategy{"standard": retrip.Standard, "gated": retrip.Gated, "legacy": retrip.Legacy} {
		w := busy(0.3, strategy)
		w.plan()
		w.events.push(event{kind: sample})
		w.steps(200_000) // until nothing grows
		require.Zero(t, testing.AllocsPerRun(10, func() { w.steps(10_000) }), name)
	}
}

func TestTheSameSeedGivesTheSameWorld(t *testing.T) {
	run := func(seed uint64) *Record {
		w := busy(0.3, retrip.Standard)
		w.arriving = rand.New(rand.NewPCG(seed, 1))
		w.Run(20 * time.Second)
		return w.Record
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func TestHeapGivesEventsInTheirOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h heap
	for i := range 10_000 {
		h.push(event{at: time.Duration(rng.IntN(100)), id: int32(i)})
	}
	last := h.pop()
	for len(h.events) > 0 {
		next := h.pop()
		require.True(t, last.at < next.at || last.at == next.at && last.id < next.id, "%v before %v", last, next)
		last = next
	}
}

func TestHistogramIsWithinThreePercent(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 31, 32, 63, 64, 1000, 5 * time.Millisecond, time.Second, time.Hour} {
		var h Histogram
		h.Add(d)
		require.InDelta(t, float64(d), float64(h.Quantile(0.5)), 0.03*float64(d), d)
	}
	var h Histogram
	require.Zero(t, h.Quantile(0.99), "nothing was counted")
	for i := range 100 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, 99*time.Millisecond, h.Quantile(0.99), 0.03)
	require.InEpsilon(t, 50*time.Millisecond, h.Quantile(0.5), 0.03)
}

// A server that is busy for a known time.
func TestQueueServesInTurn(t *testing.T) {
	s := &Site{Capacity: 10, Queue: 300 * time.Millisecond, Timeout: 200 * time.Millisecond, Refusal: 0.5}
	s.Start(1)
	require.Equal(t, Reply{Outcome: Good, Took: 100 * time.Millisecond}, s.Attempt(0))
	require.Equal(t, Reply{Outcome: Good, Took: 200 * time.Millisecond}, s.Attempt(0))
	require.Equal(t, Reply{Outcome: Silent, Took: 200 * time.Millisecond}, s.Attempt(0), "answered when the client has gone")
	require.Equal(t, Reply{Outcome: Failed}, s.Attempt(0), "no room; this costs half an answer")
	require.Equal(t, Reply{Outcome: Good, Took: 150 * time.Millisecond}, s.Attempt(300*time.Millisecond))
	require.Equal(t, 1, s.Late)
}

func TestLimitsSayWhenToComeBack(t *testing.T) {
	s := &Site{Limit: Limit{Rate: 2, Window: time.Second, Hint: true}}
	s.Start(1)
	require.Equal(t, Good, s.Attempt(0).Outcome)
	require.Equal(t, Good, s.Attempt(0).Outcome)
	require.Equal(t, Reply{Throttled, 0, 600 * time.Millisecond}, s.Attempt(400*time.Millisecond))
	require.Equal(t, Good, s.Attempt(time.Second).Outcome)

	s = &Site{Limit: Limit{Rate: 2, Burst: 1, Hint: true}}
	s.Start(1)
	require.Equal(t, Good, s.Attempt(0).Outcome)
	require.Equal(t, Reply{Throttled, 0, 500 * time.Millisecond}, s.Attempt(0))
	require.Equal(t, Good, s.Attempt(500*time.Millisecond).Outcome)
}

// A strategy's own classifiers decide what is retried.
func TestRulesAskTheStrategy(t *testing.T) {
	r := NewRule(retrip.Standard())
	require.Equal(t, [outcomes]retrip.Class{
		Good: retrip.Success, NotFound: retrip.Permanent, Failed: retrip.Transient, Refused: retrip.Transient,
		Silent: retrip.Transient, Throttled: retrip.Throttled,
	}, r.class)
	require.True(t, r.obeys)
	s := retrip.Standard()
	s.Classifiers, s.Hints, s.TimeoutCost = nil, nil, 10
	r = NewRule(s)
	require.Equal(t, retrip.Permanent, r.class[Failed])
	require.False(t, r.obeys)
	require.Equal(t, 10, r.cost[Silent])
}

func BenchmarkMillionRequests(b *testing.B) {
	for b.Loop() {
		w := busy(0.1, retrip.Standard)
		w.Run(100 * time.Second)
		if w.Record.Ended < 990_000 {
			b.Fatal(w.Record.Ended)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	w := busy(0.3, retrip.Gated)
	w.plan()
	w.steps(200_000)
	b.ReportAllocs()
	for b.Loop() {
		w.step()
	}
}
