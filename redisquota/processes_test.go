package redisquota_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// The test binary is a process of a fleet, too, if its environment says so.
func TestMain(m *testing.M) {
	if target := os.Getenv("REDISQUOTA_TEST_TARGET"); target != "" {
		if err := beOneOfMany(target, os.Getenv("REDISQUOTA_TEST_REDIS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beOneOfMany sends 0.8 requests a second until standard input ends, through a fleet's
// quota if there is a Redis.
func beOneOfMany(target, redis string) error {
	strategy := retrip.Gated()
	if redis != "" {
		client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{redis}, ForceSingleClient: true})
		defer client.Close()
		fleet, err := redisquota.New(client, redisquota.Options{})
		if err != nil {
			return err
		}
		defer fleet.Close()
		strategy.Quota = fleet.Quota("stub")
	}
	transport := &retrip.Transport{Base: http.DefaultTransport, Strategy: strategy}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for n := 0; ; n++ {
		select {
		case <-ended:
			return nil
		case <-time.After(time.Duration(rand.ExpFloat64() * float64(1250*time.Millisecond))):
		}
		go func() {
			req, _ := http.NewRequest("GET", target, nil)
			req.Header.Set("X-Id", fmt.Sprintf("%d-%d", os.Getpid(), n))
			if resp, err := transport.RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
	}
}

// A stub answers, or fails during an outage, of which it counts requests and attempts.
type stub struct {
	down      atomic.Bool
	mu        sync.Mutex
	processes map[string]bool
	attempts  map[string]int // by request
	before    map[string]bool
}

func (s *stub) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("X-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	process, _, _ := strings.Cut(id, "-")
	s.processes[process] = true
	switch {
	case !s.down.Load():
		s.before[id] = true
	case s.before[id]:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		s.attempts[id]++
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// fleetOf runs processes through an outage and returns its requests and attempts.
func fleetOf(t *testing.T, processes int, redis string, outage time.Duration) (requests, attempts int) {
	t.Helper()
	s := &stub{processes: map[string]bool{}, attempts: map[string]int{}, before: map[string]bool{}}
	web := httptest.NewServer(s)
	defer web.Close()
	var all []*exec.Cmd
	var ends []io.Closer
	defer func() {
		for i, cmd := range all {
			_ = ends[i].Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "REDISQUOTA_TEST_TARGET="+web.URL, "REDISQUOTA_TEST_REDIS="+redis, "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		dieWithParent(cmd)
		end, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		all, ends = append(all, cmd), append(ends, end)
	}
	require.True(t, within(30*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.processes) == processes
	}), "not all processes send")
	s.down.Store(true)
	time.Sleep(outage)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.attempts {
		requests, attempts = requests+1, attempts+n
	}
	return requests, attempts
}

// A hundred processes send an outage no more retries than simulations say. Nearly all
// come in its beginning, so ten seconds of it have those of a minute, in which a
// twentieth of the requests is the bar. Chance and a busy machine get a hundredth more.
func TestHundredProcesses(t *testing.T) {
	if raceEnabled {
		t.Skip("a hundred processes with the race detector take too much memory")
	}
	withServersForLong(t, func(t *testing.T, program string) {
		const processes, outage = 100, 10 * time.Second
		_, alone := fleetOf(t, processes, "", outage)
		requests, attempts := fleetOf(t, processes, serve(t, program).addr(), outage)
		minute := requests * int(time.Minute/outage)
		t.Logf("%d requests, %d retries: %.3f for a minute; with gates alone %d attempts", requests, attempts-requests,
			1+float64(attempts-requests)/float64(minute), alone)
		require.Less(t, float64(attempts-requests), 0.06*float64(minute))
	})
}
