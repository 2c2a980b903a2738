package redisquota_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
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

// A scene is a fleet whose clients send requests at random to one server.
type scene struct {
	clients int
	every   time.Duration // for each client, on average
	healthy time.Duration // before and after the outage
	outage  time.Duration
	timeout time.Duration // of attempts in the outage; 0 refuses at once
	failing float64       // share of attempts that fail outside the outage
	seed    uint64
	shared  func(process int) redisquota.Client // nil: gates alone
	during  func()                              // in the middle of the outage
}

// A result is what came of it.
type result struct {
	requests, attempts int64 // begun in the outage
	failed             int64 // requests, all in all
}

func (r result) amplification() float64 { return float64(r.attempts) / float64(r.requests) }

// play runs a scene in virtual time, with the real Transport and one Fleet in each
// process.
func (s scene) play(t *testing.T) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var (
			begin     = time.Now()
			from, to  = begin.Add(s.healthy), begin.Add(s.healthy + s.outage)
			end       = to.Add(s.healthy)
			wg        sync.WaitGroup
			requests  atomic.Int64
			attempts  atomic.Int64
			failed    atomic.Int64
			closeThem []io.Closer
		)
		for process := range s.clients {
			quota := func() retrip.Quota { return new(retrip.Gate) }
			if s.shared != nil {
				fleet, err := redisquota.New(s.shared(process), redisquota.Options{})
				require.NoError(t, err)
				closeThem = append(closeThem, fleet)
				quota = func() retrip.Quota { return fleet.Quota("api") }
			}
			random := rand.New(rand.NewPCG(s.seed, uint64(process)))
			base := func(req *http.Request) (*http.Response, error) {
				now := time.Now()
				down := !now.Before(from) && now.Before(to)
				if req.Header.Get("X-In-Outage") != "" {
					attempts.Add(1)
				}
				if down && s.timeout > 0 {
					time.Sleep(s.timeout)
					return nil, context.DeadlineExceeded
				}
				status := http.StatusOK
				if down || random.Float64() < s.failing {
					status = http.StatusServiceUnavailable
				}
				time.Sleep(5 * time.Millisecond)
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
			}
			strategy := retrip.Gated()
			strategy.Quota = quota()
			transport := &retrip.Transport{Base: roundTripper(base), Strategy: strategy}
			wg.Go(func() {
				for {
					time.Sleep(time.Duration(random.ExpFloat64() * float64(s.every)))
					now := time.Now()
					if now.After(end) {
						return
					}
					req, _ := http.NewRequest("GET", "http://api.example/", nil)
					if !now.Before(from) && now.Before(to) {
						requests.Add(1)
						req.Header.Set("X-In-Outage", "1")
					}
					wg.Go(func() {
						resp, err := transport.RoundTrip(req)
						if err != nil || resp.StatusCode != http.StatusOK {
							failed.Add(1)
						}
					})
				}
			})
		}
		if s.during != nil {
			time.Sleep(s.healthy + s.outage/2)
			s.during()
		}
		wg.Wait()
		for _, c := range closeThem {
			require.NoError(t, c.Close())
		}
		r = result{requests.Load(), attempts.Load(), failed.Load()}
	})
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// together gives all processes one server.
func together(server redisquota.Client) func(int) redisquota.Client {
	return func(int) redisquota.Client { return server }
}

// A fleet that shares its quota sends an outage few retries, however slow its
// clients are. The numbers of requests are bounded by the time that tests may take:
// -short has a tenth of the clients at ten times the rate.
func TestFleetInAnOutage(t *testing.T) {
	for name, s := range map[string]scene{
		"1000 at 0.8 a second": {clients: 1000, every: 1250 * time.Millisecond},
		"timeouts":             {clients: 1000, every: 1250 * time.Millisecond, timeout: 500 * time.Millisecond},
		"4000 at 0.2 a second": {clients: 4000, every: 5 * time.Second},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			s.healthy, s.outage, s.seed = 20*time.Second, time.Minute, 1
			if testing.Short() {
				s.clients, s.every = s.clients/10, s.every/10
			}
			alone := s.play(t)
			server := newMemory()
			s.shared = together(server)
			shared := s.play(t)
			t.Logf("amplification %.3f, of gates alone %.3f; %d requests; %.2f runs of the script per process and second",
				shared.amplification(), alone.amplification(), shared.requests,
				float64(server.evals.Load())/float64(s.clients)/(2*s.healthy+s.outage).Seconds())
			require.LessOrEqual(t, shared.amplification(), 1.05)
			require.LessOrEqual(t, float64(server.evals.Load())/float64(s.clients)/(2*s.healthy+s.outage).Seconds(), 4.0)
		})
	}
}
