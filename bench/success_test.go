package bench

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
)

// BenchmarkTimeNow is the yardstick for all that takes nanoseconds.
func BenchmarkTimeNow(b *testing.B) {
	for b.Loop() {
		_ = time.Now()
	}
}

// BenchmarkSuccess is what a request costs that succeeds at once, without a
// body and with one of 1 KiB.
func BenchmarkSuccess(b *testing.B) {
	for _, body := range []string{"none", "getbody", "opaque"} {
		compared := peers
		if body != "none" {
			compared = libraries()
		}
		for _, p := range compared {
			b.Run(fmt.Sprintf("body=%s/peer=%s", body, p.name), func(b *testing.B) {
				compareSuccess(b, p.wrap(b, canned{}, 0), body, 1<<10)
			})
		}
	}
}

// BenchmarkBodySize is how that grows with the body.
func BenchmarkBodySize(b *testing.B) {
	for _, body := range []string{"getbody", "opaque"} {
		for _, size := range []int{32 << 10, 1 << 20, 16 << 20} {
			for _, p := range libraries() {
				b.Run(fmt.Sprintf("body=%s/size=%d/peer=%s", body, size, p.name), func(b *testing.B) {
					compareSuccess(b, p.wrap(b, canned{}, 0), body, size)
				})
			}
		}
	}
}

func compareSuccess(b *testing.B, rt http.RoundTripper, body string, size int) {
	compare(b, rt,
		sending(b, rt, newShot(b, body, size).load),
		sending(b, canned{}, newShot(b, body, size).load),
		sending(b, ours(b, canned{}), newShot(b, body, size).load),
	)
}

// BenchmarkHosts is how it grows with the number of hosts, which are asked in
// no order. "crowded" has room for half of them only, so that nearly each
// request drops a host to make room for another. B/host is what is kept. There
// is one request, to which a host is given before it is sent: who sends a
// request has just made it, so that it is in the processor's cache, and what is
// kept for its host is not.
func BenchmarkHosts(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000, 100_000} {
		hosts := make([]string, n)
		for i := range hosts {
			hosts[i] = fmt.Sprintf("host%d.example.com", i)
		}
		rand.Shuffle(n, func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		inTurn := func() func() *http.Request {
			i, req := 0, newShot(b, "none", 0).Request
			return func() *http.Request {
				i = (i + 1) % n
				req.URL.Host = hosts[i]
				return req
			}
		}
		for _, p := range []struct {
			name    string
			maxKeys int
		}{
			{"retrip-perhost", n},
			{"retrip-crowded", max(n/2, 1)},
		} {
			b.Run(fmt.Sprintf("hosts=%d/peer=%s", n, p.name), func(b *testing.B) {
				rt := &retrip.Transport{Base: canned{}, MaxKeys: p.maxKeys}
				kept := -liveHeap()
				next := inTurn()
				for range hosts {
					mustAnswer(b, rt, next(), 200)
				}
				kept += liveHeap()
				compare(b, rt,
					sending(b, rt, inTurn()),
					sending(b, canned{}, inTurn()),
					sending(b, ours(b, canned{}), inTurn()),
				)
				b.ReportMetric(float64(max(kept, 0))/float64(n), "B/host")
			})
		}
	}
}

// BenchmarkParallel is how it scales with processors, BenchmarkGoroutines with
// the goroutines that use one host at once.
func BenchmarkParallel(b *testing.B) {
	for _, p := range peers {
		rt := p.wrap(b, canned{}, 0)
		for _, procs := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("procs=%d/peer=%s", procs, p.name), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				compareTogether(b, rt, procs)
			})
		}
	}
}

func BenchmarkGoroutines(b *testing.B) {
	for _, p := range named("bare", "retrip", "retrip-perhost", "retrip-adaptive", "retrip-throttled") {
		rt := p.wrap(b, canned{}, 0)
		for _, goroutines := range []int{1, 10, 100, 1000, 10_000} {
			b.Run(fmt.Sprintf("goroutines=%d/peer=%s", goroutines, p.name), func(b *testing.B) {
				compareTogether(b, rt, goroutines)
			})
		}
	}
}

// compareTogether is not RunParallel, which times each peer on its own.
func compareTogether(b *testing.B, rt http.RoundTripper, goroutines int) {
	requests := make([]*http.Request, goroutines)
	for i := range requests {
		requests[i] = newShot(b, "none", 0).Request
	}
	sendingTogether := func(rt http.RoundTripper) lane {
		mustAnswer(b, rt, requests[0], 200)
		return together(goroutines, func(goroutine int) {
			if _, err := rt.RoundTrip(requests[goroutine]); err != nil {
				b.Error(err)
			}
		})
	}
	compare(b, rt, sendingTogether(rt), sendingTogether(canned{}), sendingTogether(ours(b, canned{})))
}
