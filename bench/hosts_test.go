package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/retrip-go/retrip"
)

// A mapped base keeps a bucket for each host in a plain map, whose lock it takes
// to read: the least that keeps state for each host. It has no bound and forgets
// nothing.
type mapped struct {
	base  http.RoundTripper
	mu    sync.RWMutex
	hosts map[string]*retrip.Bucket
}

func (m *mapped) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.RLock()
	quota := m.hosts[req.URL.Host]
	m.mu.RUnlock()
	if quota == nil {
		m.mu.Lock()
		quota = retrip.NewBucket(500)
		m.hosts[req.URL.Host] = quota
		m.mu.Unlock()
	}
	resp, err := m.base.RoundTrip(req)
	quota.Answered(retrip.Success, 0)
	return resp, err
}

// BenchmarkSickHosts is what the zero Transport takes for many hosts, in no order,
// a tenth of which failed before and paid for a retry. x-map compares what it takes
// over the bare base with what a plain map takes; both are charged the search for
// the host's bucket and the report of a success to it, and retrip all else that it
// does. From 100,000 hosts on there are more than MaxKeys. "full" is a table that is
// full of other hosts, which have failed. B/host is what is kept, less when hosts
// share.
func BenchmarkSickHosts(b *testing.B) {
	for _, full := range []bool{false, true} {
		for _, n := range []int{1, 1000, 10_000, 30_000, 35_000, 100_000, 300_000} {
			b.Run(fmt.Sprintf("full=%v/hosts=%d", full, n), func(b *testing.B) {
				hosts := make([]string, n)
				for i := range hosts {
					hosts[i] = fmt.Sprintf("host%d.example.com", i)
				}
				rand.Shuffle(n, func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
				rt := &retrip.Transport{Base: canned{}}
				if full {
					for i := range 40_000 {
						fail(b, rt, fmt.Sprintf("other%d.example.com", i), 1)
					}
				}
				kept := -liveHeap()
				var sick sync.WaitGroup
				for _, host := range hosts[:n/10] {
					sick.Go(func() { fail(b, rt, host, 2) })
				}
				sick.Wait()
				inTurn := func() func() *http.Request {
					i, req := 0, newShot(b, "none", 0).Request
					return func() *http.Request {
						i = (i + 1) % n
						req.URL.Host = hosts[i]
						return req
					}
				}
				m := &mapped{base: canned{}, hosts: map[string]*retrip.Bucket{}}
				next := inTurn()
				for range hosts {
					mustAnswer(b, rt, next(), 200)
				}
				kept += liveHeap()
				for range hosts {
					mustAnswer(b, m, next(), 200)
				}
				median := timed(b, rt, sending(b, rt, inTurn()), sending(b, canned{}, inTurn()), sending(b, m, inTurn()))
				b.ReportMetric((median[0]-median[1])/(median[2]-median[1]), "x-map")
				b.ReportMetric(median[2]-median[1], "map-ns")
				b.ReportMetric(float64(max(kept, 0))/float64(n), "B/host")
			})
		}
	}
}

// fail sends a request to a host that answers 503.
func fail(b *testing.B, rt http.RoundTripper, host string, attempts int) {
	req := newShot(b, "none", 0).Request
	req = req.WithContext(retrip.WithMaxAttempts(context.Background(), attempts))
	req.Response, req.URL.Host = answer(503), host
	if _, err := rt.RoundTrip(req); err != nil {
		b.Error(err)
	}
}
