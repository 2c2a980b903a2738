package outage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// The longest first backoff: 2 s as in the design's tables, or Standard's 100 ms.
const long, standard = 2.0, 0.1

// A blackHole swallows attempts: they time out.
var blackHole = outageCase{clients: 1000, rate: 0.8, length: 60, chance: 1, end: silent, slow: 2}

// mostly is a server that answers one attempt in ten.
var mostly = outageCase{clients: 1000, rate: 0.8, length: 60, chance: 0.9, end: failed}

// notUnderRace skips what takes long under the race detector and would show it
// nothing that the other tests don't.
func notUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("takes ten times as long")
	}
}

// What the gate adds to the load of an outage, whatever fails, is bounded.
func TestGateInAnOutage(t *testing.T) {
	for _, row := range []struct {
		name  string
		c     outageCase
		s     setting
		limit float64
	}{
		{"refused, 3 attempts", total, setting{3, long}, 1.10},
		{"refused, 5 attempts", total, setting{5, long}, 1.20},
		{"refused, 8 attempts", total, setting{8, long}, 1.20},
		{"refused, 3 attempts, Standard's backoff", total, setting{3, standard}, 1.10},
		{"black hole, 3 attempts", blackHole, setting{3, long}, 1.10},
		{"black hole, 5 attempts", blackHole, setting{5, long}, 1.20},
		{"black hole, 8 attempts", blackHole, setting{8, long}, 1.20},
		{"90 % failures, 3 attempts", mostly, setting{3, long}, 1.20},
	} {
		got := row.c.amplification(t, gate, row.s)
		t.Logf("%-42s %.3f attempts per request, at most %.2f", row.name, got, row.limit)
		require.LessOrEqual(t, got, row.limit, row.name)
	}
}

// Where a server fails by chance, a gate loses hardly more than must be lost.
func TestGateAgainstChance(t *testing.T) {
	notUnderRace(t)
	for p, limit := range map[float64]float64{0.01: 1.01, 0.1: 1.01, 0.3: 1.05} {
		if !*full {
			limit += 0.02 // for chance
		}
		for _, rate := range []float64{1. / 60, 1, 1000} {
			got := background(t, gate, rate, p, scaled(400_000), setting{3, long})
			t.Logf("p = %v, %.3g requests/s: %.4f of the ideal, at most %v", p, rate, got, limit)
			require.LessOrEqual(t, got, limit, "p = %v, %v/s", p, rate)
		}
	}
}

var blips = func() (all []blip) {
	for _, rate := range []float64{10, 50, 200, 1000} {
		for _, length := range []float64{0.05, 0.1, 0.2, 0.5} {
			all = append(all, blip{rate, length})
		}
	}
	return all
}()

// A busy client gets through an interruption of up to half a second.
func TestGateInABlip(t *testing.T) {
	for _, attempts := range []int{3, 5} {
		worst := 1.0
		for _, b := range blips {
			worst = min(worst, b.saved(t, gate, setting{attempts, standard}))
		}
		t.Logf("%d attempts: at worst %.2f %% of what unlimited retries save, at least 99", attempts, 100*worst)
		require.GreaterOrEqual(t, worst, 0.99)
	}
}

// A server that was overloaded recovers as if no one had retried.
func TestGateAfterABrownout(t *testing.T) {
	notUnderRace(t)
	for name, b := range map[string]brownout{"late": late, "costly": costly} {
		for _, load := range []float64{0.8, 0.9} {
			free, _ := b.at(load).recovery(t, none)
			got, _ := b.at(load).recovery(t, gate)
			t.Logf("%s, %v load: %v s after the end, %v without retries", name, load, got, free)
			limit := free + 2
			if !*full {
				limit += 2 // a small server's queue is less even
			}
			require.LessOrEqual(t, got, limit)
		}
	}
}

// scripts are what single clients meet.
var (
	lone     = script{setting{10, standard}, atOnce(1), down(0, 5), 2000}
	burst3   = script{setting{3, standard}, atOnce(20), perSecond(5, true), 20}
	burst5   = script{setting{5, standard}, atOnce(20), perSecond(5, true), 20}
	restart  = script{setting{8, standard}, everySecond(60), down(30, 33), 1000}
	unsteady = script{setting{5, standard}, everySecond(100), unreliable(0.6, 0), 300}
)

// A request that is alone is never refused a retry.
func TestGateAndALoneRequest(t *testing.T) {
	refusals := 0
	inWorld(t, gate, lone.setting, func(w *world) {
		w.refusal = func(float64, retrip.Failure) { refusals++ }
		for range scaled(lone.trials) {
			w.newClient(lone.server()).begin()
		}
	})
	require.Zero(t, refusals)
}

// Requests that a server tells when to come back get through as with a bucket.
func TestGateAndABurstThatIsThrottled(t *testing.T) {
	for _, s := range []script{burst3, burst5} {
		got, _, _ := s.play(t, gate)
		want, _, _ := s.play(t, bucket)
		t.Logf("%d attempts: %v of 20 lost, %v with a bucket", s.setting.attempts, got, want)
		require.Equal(t, want, got)
	}
}

// The world itself, against what can be computed.
func TestWorldKeepsItsPromises(t *testing.T) {
	s := setting{3, long}
	require.InDelta(t, 1, total.amplification(t, none, s), 0.0001)
	twice := total
	twice.chance = 0.5
	require.InDelta(t, 1.75, twice.amplification(t, unlimited, s), 0.05, "1 + 1/2 + 1/4, less those that come later")
	require.Equal(t, 1.0, background(t, unlimited, 1, 0.3, 1000, s))
	lost, of, sent := unsteady.play(t, unlimited)
	require.Equal(t, 100.0, of)
	require.InDelta(t, 100*math.Pow(0.6, 5), lost, 1)
	require.InDelta(t, (1-math.Pow(0.6, 5))/0.4, sent, 0.05)
	free, _ := costly.at(0.8).recovery(t, none)
	require.LessOrEqual(t, free, 1.0, "nothing is left to do")
}
