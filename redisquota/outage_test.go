package redisquota_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
)

// thousand is 1000 processes of 0.8 requests a second each. The seed is any.
func thousand() scene {
	return scene{clients: 1000, every: 1250 * time.Millisecond, healthy: 20 * time.Second, outage: time.Minute, seed: 1}.sized()
}

// sized has a tenth of the processes where tests must be quick: all simulations take a
// minute, and more under the race detector.
func (s scene) sized() scene {
	if testing.Short() || raceEnabled {
		s.clients /= 10
	}
	return s
}

// scripts is how often each process ran the script, for each second.
func (s scene) scripts(server *memory) float64 {
	return float64(server.evals.Load()) / float64(s.clients) / (2*s.healthy + s.outage).Seconds()
}

// A fleet that shares its quota sends an outage few retries, however slow its
// clients are.
func TestFleetInAnOutage(t *testing.T) {
	minutely := thousand()
	minutely.clients, minutely.every = 48_000, time.Minute
	minutely = minutely.sized()
	slow := thousand()
	slow.timeout = 500 * time.Millisecond
	for name, s := range map[string]scene{
		"1000 at 0.8 a second":   thousand(),
		"timeouts":               slow,
		"48 000 at one a minute": minutely,
	} {
		t.Run(name, func(t *testing.T) {
			alone := s.play(t)
			server := newMemory()
			s.server = server
			shared := s.play(t)
			t.Logf("amplification %.3f, of gates alone %.3f; %d requests; %.2f runs of the script per process and second",
				shared.amplification(), alone.amplification(), shared.requests, s.scripts(server))
			require.LessOrEqual(t, shared.amplification(), 1.05)
			require.LessOrEqual(t, s.scripts(server), 4.0)
		})
	}
}

// A fleet loses hardly more requests than gates alone where attempts fail by chance,
// and in short interruptions.
func TestFleetLosesFewRequests(t *testing.T) {
	chance := func(p float64) scene {
		s := thousand()
		s.outage, s.failing = 0, p
		return s
	}
	blip := func(d time.Duration, attempts int) scene {
		s := thousand()
		s.outage, s.healthy, s.attempts = d, 5*time.Second, attempts
		return s
	}
	for name, s := range map[string]scene{
		"10 % fail":          chance(0.1),
		"30 % fail":          chance(0.3),
		"50 ms":              blip(50*time.Millisecond, 3),
		"200 ms":             blip(200*time.Millisecond, 3),
		"500 ms":             blip(500*time.Millisecond, 3),
		"1 s":                blip(time.Second, 3),
		"500 ms, 5 attempts": blip(500*time.Millisecond, 5),
		"1 s, 5 attempts":    blip(time.Second, 5),
	} {
		t.Run(name, func(t *testing.T) {
			var alone, shared result
			seeds := uint64(5)
			if testing.Short() || raceEnabled {
				seeds = 1
			}
			for s.seed = 1; s.seed <= seeds; s.seed++ {
				s.server = nil
				alone.add(s.play(t))
				s.server = newMemory()
				shared.add(s.play(t))
			}
			t.Logf("%d requests failed, %d with gates alone, of %d (%d begun in an interruption)",
				shared.failed, alone.failed, alone.all, alone.requests)
			require.LessOrEqual(t, float64(shared.failed), 1.05*float64(alone.failed))
		})
	}
}

// After a second of doubt, a fleet stops. Slow clients alone would not have noticed yet,
// and some of their retries would have found the server back. This is what the README
// says that a fleet costs.
func TestFleetStopsAfterASecond(t *testing.T) {
	s := thousand()
	s.outage, s.healthy, s.attempts = 1500*time.Millisecond, 10*time.Second, 5
	alone := s.play(t)
	s.server = newMemory()
	shared := s.play(t)
	t.Logf("%d of %d requests failed, %d with gates alone", shared.failed, shared.requests, alone.failed)
	require.Greater(t, shared.failed, alone.failed)
}

// Whatever happens to Redis in an outage, no request fails for it, and no more retries
// are sent than by gates alone.
func TestFleetOutlivesRedis(t *testing.T) {
	alone := thousand().play(t)
	for name, happens := range map[string]func(*memory){
		"killed": (*memory).kill, "hung": (*memory).hang, "slow": (*memory).slow,
		"flushed": (*memory).flush, "fails over": (*memory).failOver,
	} {
		for _, after := range []time.Duration{time.Second, 30 * time.Second} {
			t.Run(fmt.Sprintf("%s after %v", name, after), func(t *testing.T) {
				s := thousand()
				server := newMemory()
				s.server, s.after, s.during = server, after, func() { happens(server) }
				shared := s.play(t)
				t.Logf("amplification %.3f, of gates alone %.3f; %d requests failed, %d with gates alone",
					shared.amplification(), alone.amplification(), shared.failed, alone.failed)
				require.LessOrEqual(t, shared.amplification(), alone.amplification()+0.02)
				require.Equal(t, alone.failed, shared.failed)
			})
		}
	}
}

// A process that is broken itself stops no others.
func TestBrokenProcessStopsNoOthers(t *testing.T) {
	s := thousand()
	s.healthy, s.outage, s.failing = 15*time.Second, 0, 0.1
	alone := s.play(t)
	s.broken, s.server = 200*time.Microsecond, newMemory()
	shared := s.play(t)
	t.Logf("%d requests failed, %d with gates alone", shared.failed, alone.failed)
	require.Equal(t, alone.failed, shared.failed)
}

// A retry waits no longer than 20 ms for Redis, whatever the state of it, and neither
// does the answer that there is none.
func TestRetriesDoNotWaitForRedis(t *testing.T) {
	for name, happens := range map[string]func(*memory){
		"healthy": func(m *memory) { m.takes.Store(int64(time.Millisecond)) },
		"slow":    (*memory).slow, "hung": (*memory).hang, "killed": (*memory).kill,
	} {
		t.Run(name, func(t *testing.T) {
			server := newMemory()
			happens(server)
			s := thousand()
			s.failing, s.outage, s.healthy = 0.2, 10*time.Second, 10*time.Second
			s.server, s.backoff = server, retrip.Constant{}
			r := s.play(t)
			t.Logf("%v at p99, %v at most", r.late(), r.added[len(r.added)-1])
			require.LessOrEqual(t, r.late(), 25*time.Millisecond)
			require.LessOrEqual(t, s.scripts(server), 4.0)
		})
	}
}

// A process runs the script no more than four times a second for a dependency, however
// busy it is.
func TestRedisLoad(t *testing.T) {
	for _, s := range []scene{
		{every: 1250 * time.Millisecond},
		{every: 1250 * time.Millisecond, failing: 0.3},
		{every: 1250 * time.Millisecond, failing: 1},
		{every: 20 * time.Millisecond},
		{every: 20 * time.Millisecond, failing: 0.3},
		{every: 20 * time.Millisecond, failing: 0.7},
		{every: 20 * time.Millisecond, failing: 1},
	} {
		server := newMemory()
		s.server, s.clients, s.healthy, s.seed = server, 10, 10*time.Second, 1
		s.play(t)
		t.Logf("%4.1f requests/s, %3.0f %% fail: %.2f runs of the script per process and second",
			float64(time.Second)/float64(s.every), 100*s.failing, s.scripts(server))
		require.LessOrEqual(t, s.scripts(server), 4.0)
	}
}
