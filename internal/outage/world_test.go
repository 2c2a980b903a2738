package outage

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
)

// An outcome is what a server makes of an attempt.
type outcome int

const (
	good     outcome = iota
	notFound         // 404
	failed           // 503
	refused          // no connection
	silent           // a timeout
	throttled
)

// A server says how an attempt at a time ends, after how long, and how long the
// client should wait for the next one (0: it does not say). Times are in seconds
// since the world began. Calls come one at a time.
type server func(now float64, rng *rand.Rand) (end outcome, latency, wait float64)

// A setting is how clients retry, apart from their quota.
type setting struct {
	attempts int
	backoff  float64 // full jitter from 0 to this, to twice this, ...
}

// A world is clients that send requests to servers through Transports of their
// own, in a bubble of virtual time.
type world struct {
	policy  policy
	setting setting
	seed    uint64
	timed   bool // clients have an AttemptTimeout
	// refusal hears of each retry that a quota refuses.
	refusal func(now float64, f retrip.Failure)

	mu      sync.Mutex
	rng     *rand.Rand
	start   time.Time
	request *http.Request
	wg      sync.WaitGroup
	// By second: requests begun, attempts sent, and requests that ended well, by the
	// second in which they began.
	firsts, sent, good []float64
}

// A client is one Transport.
type client struct {
	world     *world
	server    server
	transport *retrip.Transport
}

// inWorld runs a world. What run leaves under way is waited for.
func inWorld(t *testing.T, p policy, s setting, run func(*world)) *world {
	t.Helper()
	w := &world{policy: p, setting: s, seed: 1}
	synctest.Test(t, func(t *testing.T) {
		w.rng = rand.New(rand.NewPCG(w.seed, 1))
		w.start = time.Now()
		req, err := http.NewRequestWithContext(context.Background(), "GET", "http://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.request = req
		run(w)
		w.wg.Wait()
	})
	return w
}

// newClient returns a client with a quota of its own.
func (w *world) newClient(s server) *client {
	c := &client{world: w, server: s}
	strategy := retrip.Standard()
	strategy.MaxAttempts = w.setting.attempts
	strategy.Backoff = retrip.FullJitter{Base: seconds(w.setting.backoff), Cap: 20 * time.Second}
	strategy.ThrottleBackoff = nil
	strategy.Rand = func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.rng.Float64()
	}
	w.policy.apply(strategy)
	if strategy.Quota != nil && w.refusal != nil {
		strategy.Quota = &watched{strategy.Quota, w}
	}
	c.transport = &retrip.Transport{Base: c, Strategy: strategy}
	if w.timed {
		c.transport.AttemptTimeout = time.Hour
	}
	return c
}

func (w *world) newClients(n int, s server) (all []*client) {
	for range n {
		all = append(all, w.newClient(s))
	}
	return all
}

// watched is a quota whose refusals are told.
type watched struct {
	retrip.Quota
	world *world
}

func (q *watched) Take(ctx context.Context, f retrip.Failure) bool {
	if q.Quota.Take(ctx, f) {
		return true
	}
	q.world.mu.Lock()
	defer q.world.mu.Unlock()
	q.world.refusal(q.world.now(), f)
	return false
}

func (w *world) now() float64 { return time.Since(w.start).Seconds() }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sleepUntil waits until a time.
func (w *world) sleepUntil(at float64) { time.Sleep(seconds(at) - time.Since(w.start)) }

// poisson begins requests at random times, so many per second from each client,
// until an end. (All clients' together are again random, each of a random client.)
func (w *world) poisson(clients []*client, rate, end float64) {
	total := rate * float64(len(clients))
	for at := w.now(); ; {
		w.mu.Lock()
		at += w.rng.ExpFloat64() / total
		c := clients[w.rng.IntN(len(clients))]
		w.mu.Unlock()
		if at >= end {
			break
		}
		w.sleepUntil(at)
		c.begin()
	}
	w.sleepUntil(end)
}

// begin starts a request.
func (c *client) begin() {
	w := c.world
	begun := w.now()
	w.count(&w.firsts, begun)
	w.wg.Go(func() {
		resp, err := c.transport.RoundTrip(w.request)
		if err == nil && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			w.count(&w.good, begun)
		}
	})
}

// count adds 1 in the second of a time.
func (w *world) count(by *[]float64, at float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(*by) <= int(at) {
		*by = append(*by, 0)
	}
	(*by)[int(at)]++
}

const forever = 1e9

// sum adds up from a second to another.
func sum(by []float64, from, to float64) (n float64) {
	for i := int(from); i < min(int(to), len(by)); i++ {
		n += by[i]
	}
	return n
}

var statuses = map[outcome]int{good: 200, notFound: 404, failed: 503, throttled: 429}

// RoundTrip is an attempt.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	w := c.world
	now := w.now()
	w.count(&w.sent, now)
	w.mu.Lock()
	end, latency, wait := c.server(now, w.rng)
	w.mu.Unlock()
	time.Sleep(seconds(latency))
	switch end {
	case refused:
		return nil, socketerr.ConnRefused
	case silent:
		return nil, syscall.ETIMEDOUT
	}
	resp := &http.Response{StatusCode: statuses[end], Header: http.Header{}, Body: http.NoBody, Request: req}
	if wait > 0 {
		resp.Header.Set("Retry-After", strconv.FormatFloat(wait, 'f', 6, 64))
	}
	return resp, nil
}
