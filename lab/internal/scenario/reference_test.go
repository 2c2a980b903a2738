package scenario

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/lab/internal/policy"
)

// What another simulation, written before and apart from this one, found for the
// same policies: attempts per request in a total outage of 1000 clients of 0.8
// requests per second, and where 50 % and 90 % of attempts fail; and how many more
// requests fail than p³, for a share p of attempts that fail by chance, the worse of
// one client of 1 request per minute and one of 1000 per second.
var reference = []struct {
	policy                string
	refused, half, ninety float64
	over                  [6]float64 // p = 0.01, 0.1, 0.2, 0.3, 0.4, 0.5
}{
	{"unlimited", 2.93, 1.73, 2.65, [6]float64{1, 1, 1, 1, 1, 1}},
	{"standard", 2.88, 1.73, 2.65, [6]float64{1, 1, 1, 1, 3.5, 3.2}},
	{"aws-2026", 1.73, 1.73, 1.83, [6]float64{1, 1, 1.3, 6.9, 5.2, 3.7}},
	{"sre", 1.21, 1.21, 1.21, [6]float64{230, 21.6, 15, 8.5, 5.3, 3.6}},
	{"brooker", 1.29, 1.29, 1.29, [6]float64{1, 12, 15, 8.6, 5.3, 3.6}},
	{"grpc", 1.08, 1.10, 1.08, [6]float64{1, 83, 25, 11, 6.3, 4.0}},
	{"gated", 1.093, 1.685, 1.131, [6]float64{1, 1, 1.01, 1.012, 0, 0}}, // 0: not in the table
}

// near is 3 %, and half of the last digit that the table has.
func near(want float64) float64 {
	switch {
	case want >= 100:
		return 0.03*want + 5
	case want >= 10:
		return 0.03*want + 0.5
	case want >= 3:
		return 0.03*want + 0.05
	}
	return 0.03*want + 0.005
}

func TestAmplificationsAgreeWithAnotherSimulation(t *testing.T) {
	for name, want := range map[string]func(i int) float64{
		"refused":    func(i int) float64 { return reference[i].refused },
		"half-fails": func(i int) float64 { return reference[i].half },
		"most-fails": func(i int) float64 { return reference[i].ninety },
	} {
		s := load(t, name)
		if small {
			s.Clients = 300
		}
		for i, row := range reference {
			got, _ := s.inOutage(s.play(mustName(row.policy), 1))
			require.InDelta(t, want(i), got, near(want(i)), "%s in %s", row.policy, name)
		}
	}
}

func TestFailuresByChanceAgreeWithAnotherSimulation(t *testing.T) {
	requests := 200_000
	if small {
		requests = 50_000
	}
	strategy := load(t, "refused").Strategy
	for _, row := range reference {
		for i, p := range []float64{0.01, 0.1, 0.2, 0.3, 0.4, 0.5} {
			want := row.over[i]
			if want == 0 || small && (i == 0 || want > 1.2) {
				continue // too few requests fail by chance to tell
			}
			got := 0.0
			for _, rate := range []float64{1. / 60, 1000} {
				got = max(got, Background(mustName(row.policy), strategy, rate, p, requests, 1))
			}
			within := near(want) + 0.05*boolean(small)
			if row.policy == "aws-2026" && p == 0.2 {
				// What it earns and spends is about equal here, so that it runs dry by chance
				// alone: between 1.18 and 1.38 in seven seeds, 1.26 on average. The other
				// simulation's own tables have 1.23 and 1.3.
				within = 0.15
			}
			assert.InDelta(t, want, got, within, "%s at p = %v", row.policy, p)
		}
	}
}

// small tests are those of -short and of the race detector.
var small = raceEnabled

func TestMain(m *testing.M) {
	flag.Parse()
	small = small || testing.Short()
	os.Exit(m.Run())
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Seconds from the end of a brown-out until 99 % of each later second's requests end
// well. The other simulation counts the same; chance moves both by a second.
func TestRecoveriesAgreeWithAnotherSimulation(t *testing.T) {
	for _, row := range []struct {
		scenario string
		load     float64
		want     map[string]float64
	}{
		{"brownout-late", 0.8, map[string]float64{"none": 13, "unlimited": Never, "standard": 34, "finagle": Never, "envoy": Never, "brooker": 19, "grpc": 13, "gated": 13}},
		{"brownout-late", 0.9, map[string]float64{"none": 22, "unlimited": Never, "standard": 36, "grpc": 22, "gated": 22}},
		{"brownout-costly", 0.8, map[string]float64{"none": 1, "standard": 36, "envoy": 31, "grpc": 1, "gated": 1}},
		{"brownout-costly", 0.9, map[string]float64{"none": 1, "unlimited": Never, "standard": 44, "grpc": 1, "gated": 1}},
	} {
		s := load(t, row.scenario)
		s.Load = row.load
		for name, want := range row.want {
			if small && name != "none" && name != "gated" {
				continue
			}
			got := s.recovery(s.play(mustName(name), 1))
			if want == Never || got == Never {
				require.Equal(t, want, got, "%s in %s at %v", name, row.scenario, row.load)
				continue
			}
			require.InDelta(t, want, got, max(1.5, 0.05*want), "%s in %s at %v", name, row.scenario, row.load)
		}
	}
}

// What single clients meet, with what must be lost: a quota may not lose more.
func TestSingleClientsAgreeWithAnotherSimulation(t *testing.T) {
	lone := load(t, "lone-request")
	batch := load(t, "batch-of-twenty")
	batch.Seeds = []uint64{1, 2}
	for name, want := range map[string][2]float64{"none": {1, 15}, "unlimited": {0.0015, 0}, "standard": {0.0015, 0}, "gated": {0.0015, 0}} {
		rec := lone.play(mustName(name), 1)
		require.InDelta(t, want[0], float64(rec.Lost)/float64(rec.Ended), 0.002, name)
		require.InDelta(t, want[1], float64(batch.play(mustName(name), 1).Lost), 0.01, name)
	}
}

func load(t testing.TB, name string) *Scenario {
	t.Helper()
	s, err := Load(name)
	require.NoError(t, err)
	return s
}

// The 64 attempts of the SRE book: three layers that send four times each.
func TestThreeLayersMakeSixtyFourAttempts(t *testing.T) {
	s := load(t, "three-layers")
	s.Clients, s.Rate, s.Warm, s.Outage = 1, 0.01, 0, 2000*time.Second
	s.Strategy.Backoff = &policy.Backoff{Backoff: retrip.Constant{}}
	for i := range s.Faults {
		s.Faults[i].For = s.Outage
	}
	amplification, _ := s.inOutage(s.play(mustName("unlimited"), 1))
	require.Equal(t, 64.0, amplification)
}
