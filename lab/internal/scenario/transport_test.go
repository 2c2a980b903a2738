package scenario

import (
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/sim"
)

// A bubble runs a scenario with real Transports in virtual time.
type bubble struct {
	mu                 sync.Mutex
	start              time.Time
	site               *sim.Site
	jitter             *rand.Rand
	windows            [][2]time.Duration
	firsts, sent, good float64
}

func (b *bubble) now() time.Duration { return time.Since(b.start) }

func (b *bubble) inOutage(at time.Duration) bool {
	for _, w := range b.windows {
		if at >= w[0] && at < w[1] {
			return true
		}
	}
	return false
}

// RoundTrip is an attempt.
func (b *bubble) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	if b.inOutage(b.now()) {
		b.sent++
	}
	reply := b.site.Attempt(b.now())
	b.mu.Unlock()
	time.Sleep(reply.Took)
	switch reply.Outcome {
	case sim.Refused:
		return nil, socketerr.ConnRefused
	case sim.Silent:
		return nil, os.ErrDeadlineExceeded
	}
	status := map[sim.Outcome]int{sim.Good: 200, sim.NotFound: 404, sim.Failed: 503, sim.Throttled: 429}[reply.Outcome]
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
	if reply.Hint > 0 {
		resp.Header.Set("Retry-After", strconv.FormatFloat(reply.Hint.Seconds(), 'f', 6, 64))
	}
	return resp, nil
}

// A real is one client.
type real struct {
	transport *retrip.Transport
	begin     sim.Beginner
}

func (b *bubble) client(strategies func() *retrip.Strategy) real {
	s := strategies()
	s.Rand = func() float64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.jitter.Float64()
	}
	begin, _ := s.Quota.(sim.Beginner)
	return real{&retrip.Transport{Base: b, Strategy: s}, begin}
}

// real runs the scenario: amplification and good answers in the outage.
func (s *Scenario) real(t *testing.T, p policy.Policy, seed uint64) (amplification, good float64) {
	t.Helper()
	b := &bubble{windows: s.windows()}
	synctest.Test(t, func(t *testing.T) {
		b.start = time.Now()
		b.site, b.jitter = s.site(seed), rand.New(rand.NewPCG(seed, 7))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/", nil)
		require.NoError(t, err)
		strategies := p.Strategies(s.Strategy)
		clients := make([]real, s.Clients)
		for i := range clients {
			clients[i] = b.client(strategies)
		}
		arrive := rand.New(rand.NewPCG(seed, 1)) // as in the simulation
		var wg sync.WaitGroup
		for at := time.Duration(0); at < s.Warm+s.Outage; {
			factor, until := b.site.Load(at)
			next := at + time.Duration(arrive.ExpFloat64()/s.perSecond()/factor*1e9)
			if next >= until {
				at = until
				continue
			}
			at = next
			c := clients[arrive.IntN(len(clients))]
			time.Sleep(at - b.now())
			if at < s.Warm+s.Outage {
				wg.Go(func() { b.request(c, req) })
			}
		}
		wg.Wait()
	})
	return b.sent / b.firsts, b.good / b.firsts
}

func (b *bubble) request(c real, req *http.Request) {
	counts := b.inOutage(b.now())
	b.mu.Lock()
	if counts {
		b.firsts++
	}
	b.mu.Unlock()
	if c.begin != nil {
		c.begin.Began(time.Now())
	}
	resp, err := c.transport.RoundTrip(req)
	b.mu.Lock()
	defer b.mu.Unlock()
	if counts && err == nil && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		b.good++
	}
}

// The simulation says what real Transports do: within 2 %.
func TestTransportsAgreeWithTheSimulation(t *testing.T) {
	policies, seeds := []string{"none", "unlimited", "standard", "aws-2026", "finagle", "envoy", "sre", "brooker", "grpc", "gated"}, 2
	if small {
		policies, seeds = []string{"standard", "gated"}, 1
	}
	for _, name := range []string{"refused", "most-fails", "one-of-four", "brownout-late", "throttled-bucket"} {
		s := load(t, name)
		few := min(200, s.Clients)
		shrink := float64(few) / float64(s.Clients)
		s.Watch, s.Clients = 0, few
		s.Server.Capacity *= shrink
		s.Server.Limit.Rate *= shrink
		s.Server.Limit.Burst *= shrink
		for _, policy := range policies {
			s.agrees(t, policy, seeds)
		}
	}
}

// agrees compares means over some seeds: arrivals are the same, other chance is not.
func (s *Scenario) agrees(t *testing.T, policy string, seeds int) {
	t.Helper()
	var simulated, actual, good, actuallyGood float64
	n := float64(seeds)
	for seed := range uint64(seeds) {
		a, g := s.inOutage(s.play(mustName(policy), seed))
		simulated, good = simulated+a/n, good+g/n
		a, g = s.real(t, mustName(policy), seed)
		actual, actuallyGood = actual+a/n, actuallyGood+g/n
	}
	t.Logf("%-18s %-10s %.3f simulated, %.3f with Transports; good %.3f, %.3f", s.Name, policy, simulated, actual, good, actuallyGood)
	require.InDelta(t, simulated, actual, 0.02*simulated, "attempts per request: %s in %s", policy, s.Name)
	require.InDelta(t, good, actuallyGood, 0.02, "good answers: %s in %s", policy, s.Name)
}
