package bench

import (
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// A lane is what takes part in a comparison: a function that makes so many
// requests.
type lane struct {
	do       func()
	requests int
}

// compare times requests by a peer, in turns of some microseconds with those by
// the bare base, those by retrip with a single strategy, and readings of the
// clock, so that what disturbs one disturbs the others. It reports medians for
// one request:
//
//	ns/op     of the peer
//	over-ns   that without what the bare base takes
//	clocks    that in readings of the clock: machines differ, and how dear those
//	          are differs with them
//	x-bare    ns/op in multiples of what the bare base took in the same turn
//	x-bare-lo, x-bare-hi
//	          between which the median of all such turns lies with 95 %
//	x-retrip  ns/op in multiples of what retrip takes
//
// The transport is the peer's, if it has one: the times say nothing if its
// limiter got in the way.
func compare(b *testing.B, rt http.RoundTripper, peer, bare, retrip lane) {
	median := timed(b, rt, peer, bare, retrip)
	if median == nil {
		return
	}
	b.ReportMetric((median[0]-median[1])/median[3], "clocks")
	b.ReportMetric(median[0]/median[2], "x-retrip")
}

// timed times the peer, the bare base, another lane and readings of the clock in
// turns, reports all metrics but those of the others, and returns all four medians; none if the
// times say nothing.
func timed(b *testing.B, rt http.RoundTripper, peer, bare, other lane) []float64 {
	lanes := [...]lane{peer, bare, other, {func() { _ = time.Now() }, 1}}
	var (
		turn  [len(lanes)]int // how often each is called in its
		times [len(lanes)][]time.Duration
	)
	for i, l := range lanes {
		turn[i] = min(max(fitting(20*time.Microsecond, l.do), 1), 100)
	}
	bytes, allocs := allocated(peer, turn[0]+1)
	for first := 0; b.Loop(); first++ { // none always comes first
		for i := range lanes {
			at := (first + i) % len(lanes)
			start := time.Now()
			for range turn[at] {
				lanes[at].do()
			}
			times[at] = append(times[at], time.Since(start))
		}
	}
	b.ReportAllocs()
	b.ReportMetric(bytes, "B/op")
	b.ReportMetric(allocs, "allocs/op")
	if waited(rt) {
		b.ReportMetric(0, "ns/op")
		return nil
	}
	lowest, middle, highest := interval(ratios(times[0], turn[0]*peer.requests, times[1], turn[1]*bare.requests))
	var median []float64
	for at := range lanes {
		slices.Sort(times[at])
		median = append(median, float64(times[at][len(times[at])/2])/float64(turn[at]*lanes[at].requests))
	}
	b.ReportMetric(median[0], "ns/op")
	b.ReportMetric(median[0]-median[1], "over-ns")
	b.ReportMetric(middle, "x-bare")
	b.ReportMetric(lowest, "x-bare-lo")
	b.ReportMetric(highest, "x-bare-hi")
	return median
}

// ratios divides what one lane took in each turn by what another took in it.
func ratios(one []time.Duration, oneRequests int, other []time.Duration, otherRequests int) []float64 {
	quotients := make([]float64, len(one))
	for i := range one {
		quotients[i] = float64(one[i]) / float64(oneRequests) / (float64(other[i]) / float64(otherRequests))
	}
	return quotients
}

// interval is the median of samples, and the two of them between which the true
// median lies with 95 %: those 0.98·√n places away, by the binomial distribution.
func interval(samples []float64) (low, median, high float64) {
	slices.Sort(samples)
	n := len(samples)
	away := int(math.Ceil(0.98 * math.Sqrt(float64(n))))
	return samples[max(n/2-away, 0)], samples[n/2], samples[min(n/2+away, n-1)]
}

// fitting is how often something can be done in a time, as the fastest of a
// few tries has it.
func fitting(d time.Duration, do func()) int {
	fastest, begun := time.Second, time.Now()
	for i := 0; i < 5 && time.Since(begun) < 20*time.Millisecond; i++ {
		start := time.Now()
		do()
		fastest = min(fastest, time.Since(start))
	}
	return int(d / max(fastest, 1))
}

// together is a lane in which goroutines, each with its number, do the same at
// once: a few for a millisecond or so, since otherwise one would be done before
// the next begins, and many for some milliseconds all in all.
func together(goroutines int, do func(goroutine int)) lane {
	const probe = 100
	fit := fitting(time.Millisecond, func() {
		for range probe {
			do(0)
		}
	})
	times := max(probe*fit/max(goroutines/8, 1), 20)
	return lane{func() {
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				for range times {
					do(i)
				}
			})
		}
		wg.Wait()
	}, goroutines * times}
}

// allocated is what one request takes, whole bytes and whole allocations.
func allocated(l lane, times int) (bytes, allocs float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		l.do()
	}
	runtime.ReadMemStats(&after)
	n := uint64(times * l.requests)
	return float64((after.TotalAlloc - before.TotalAlloc) / n), float64((after.Mallocs - before.Mallocs) / n)
}

// sending is a lane for one request that is to be answered 200. That is checked
// once, so that no peer looks fast because it does nothing.
func sending(b *testing.B, rt http.RoundTripper, load func() *http.Request) lane {
	b.Helper()
	mustAnswer(b, rt, load(), 200)
	return lane{func() {
		if _, err := rt.RoundTrip(load()); err != nil {
			b.Fatal(err)
		}
	}, 1}
}

// ours is what the others are compared with.
func ours(b *testing.B, base http.RoundTripper) http.RoundTripper {
	return named("retrip")[0].wrap(b, base, 0)
}
