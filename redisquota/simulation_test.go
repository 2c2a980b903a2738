package redisquota_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// A scene is a fleet whose clients send requests at random to one server.
type scene struct {
	clients  int
	every    time.Duration // for each client, on average
	healthy  time.Duration // before and after the outage
	outage   time.Duration
	timeout  time.Duration // of attempts in the outage; 0 refuses at once
	failing  float64       // share of attempts that fail outside the outage
	broken   time.Duration // one more process fails always, and sends so often
	seed     uint64
	attempts int               // 0: as many as retrip.Gated has
	backoff  retrip.Backoff    // nil: that of retrip.Gated
	server   redisquota.Client // nil: gates alone
	after    time.Duration     // of the outage: when during is called
	during   func()
}

// A result is what came of it, without the broken process.
type result struct {
	requests, attempts int64 // begun in the outage
	all, failed        int64 // requests
	added              []time.Duration
}

func (r *result) add(other result) {
	r.requests += other.requests
	r.attempts += other.attempts
	r.all += other.all
	r.failed += other.failed
}

func (r result) amplification() float64 { return float64(r.attempts) / float64(r.requests) }

// late returns what the slowest of a hundred have added to the wait for a retry, or to
// the answer that there is none.
func (r result) late() time.Duration {
	slices.Sort(r.added)
	return r.added[len(r.added)*99/100]
}

// A play is a scene under way.
type play struct {
	scene
	from, to, end time.Time
	wg            sync.WaitGroup

	mu sync.Mutex
	result
}

// play runs a scene in virtual time, with the real Transport and one Fleet in each
// process. Chances are the same with and without a fleet.
func (s scene) play(t *testing.T) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &play{scene: s, from: time.Now().Add(s.healthy)}
		p.to = p.from.Add(s.outage)
		p.end = p.to.Add(s.healthy)
		var fleets []*redisquota.Fleet
		processes := s.clients
		if s.broken > 0 {
			processes++
		}
		for number := range processes {
			strategy := retrip.Gated()
			if s.server != nil {
				fleet, err := redisquota.New(s.server, redisquota.Options{})
				require.NoError(t, err)
				fleets = append(fleets, fleet)
				strategy.Quota = fleet.Quota("api")
			}
			strategy.MaxAttempts = cmp.Or(s.attempts, strategy.MaxAttempts)
			strategy.Backoff = byRequest(cmp.Or[retrip.Backoff](s.backoff, strategy.Backoff))
			p.wg.Go(func() { p.process(uint64(number), strategy) })
		}
		if s.during != nil {
			time.Sleep(s.healthy + s.after)
			s.during()
		}
		p.wg.Wait()
		for _, fleet := range fleets {
			require.NoError(t, fleet.Close())
		}
		r = p.result
	})
	return r
}

// process sends requests until the end.
func (p *play) process(number uint64, strategy *retrip.Strategy) {
	random := rand.New(rand.NewPCG(p.seed, number))
	every, broken := p.every, number == uint64(p.clients)
	if broken {
		every = p.broken
	}
	for request := uint64(0); ; request++ {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(every)))
		now := time.Now()
		if now.After(p.end) {
			return
		}
		one := &sending{
			play: p, counted: p.at(now), broken: broken,
			random: rand.New(rand.NewPCG(p.seed^number<<32, request)),
		}
		p.wg.Go(func() { one.run(strategy) })
	}
}

func (p *play) at(now time.Time) bool { return !now.Before(p.from) && now.Before(p.to) }

// A sending is one request, with chances of its own. It is the base of its Transport.
type sending struct {
	*play
	counted, broken bool
	random          *rand.Rand
	sent            int64     // attempts
	ended           time.Time // the last attempt
	added           []time.Duration
}

type sendingKey struct{}

// byRequest takes the chance in a backoff from the request's own.
func byRequest(backoff retrip.Backoff) retrip.Backoff {
	return retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) {
		r.Rand = r.Attempt.Request.Context().Value(sendingKey{}).(*sending).random.Float64()
		return backoff.Delay(r)
	})
}

func (s *sending) run(strategy *retrip.Strategy) {
	ctx := context.WithValue(context.Background(), sendingKey{}, s)
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://api.example/", nil)
	resp, err := (&retrip.Transport{Base: s, Strategy: strategy}).RoundTrip(req)
	if s.broken {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if s.counted {
		s.requests++
		s.result.attempts += s.sent
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		s.failed++
		s.added = append(s.added, time.Since(s.ended))
	}
	s.result.added = append(s.result.added, s.added...)
}

func (s *sending) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.sent++; s.sent > 1 {
		s.added = append(s.added, time.Since(s.ended))
	}
	defer func() { s.ended = time.Now() }()
	down := s.broken || s.at(time.Now())
	if down && s.timeout > 0 {
		time.Sleep(s.timeout)
		return nil, context.DeadlineExceeded
	}
	status := http.StatusOK
	if s.random.Float64() < s.failing || down {
		status = http.StatusServiceUnavailable
	}
	time.Sleep(5 * time.Millisecond)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}
