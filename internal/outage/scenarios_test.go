package outage

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/retrip-go/retrip"
)

var full = flag.Bool("full", false, "all clients and requests, not a fifth of them")

// scaled is a number of clients or requests, or a fifth of it. Clients don't meet
// at servers that fail by the clock or by chance, so there it only sets how exact
// the result is. Servers that queue are made smaller alike.
func scaled(n int) int {
	if *full {
		return n
	}
	return max(1, n/5)
}

const latency = 0.005 // of an attempt, unless it is said otherwise

// byChance fails attempts with a probability that depends on the time.
func byChance(p func(now float64) float64, end outcome, slow float64) server {
	return func(now float64, rng *rand.Rand) (outcome, float64, float64) {
		if rng.Float64() < p(now) {
			return end, latency + slow, 0
		}
		return good, latency, 0
	}
}

func during(from, to, in, out float64) func(float64) float64 {
	return func(now float64) float64 {
		if now >= from && now < to {
			return in
		}
		return out
	}
}

// An outageCase is some clients whose server fails for a while: as what, with
// which probability, and how long a failure takes.
type outageCase struct {
	clients      int
	rate, length float64
	chance       float64
	end          outcome
	slow         float64
}

// total is the outage of the table of demands.
var total = outageCase{clients: 1000, rate: 0.8, length: 60, chance: 1, end: refused}

// amplification is how many attempts are sent for each request while it lasts.
// Each client has made some 60 requests by then.
func (c outageCase) amplification(t *testing.T, p policy, s setting) float64 {
	t.Helper()
	begin := math.Ceil(max(20, 60/c.rate))
	w := inWorld(t, p, s, func(w *world) {
		clients := w.newClients(scaled(c.clients), byChance(during(begin, begin+c.length, c.chance, 0.001), c.end, c.slow))
		w.poisson(clients, c.rate, begin+c.length)
	})
	return sum(w.sent, begin, begin+c.length) / sum(w.firsts, begin, begin+c.length)
}

// flapping is ten outages of 10 s, one a minute: attempts per request in them.
func flapping(t *testing.T, p policy, clients int, rate float64) float64 {
	t.Helper()
	w := inWorld(t, p, setting{3, 2}, func(w *world) {
		down := func(now float64) float64 {
			if now >= 60 && math.Mod(now, 60) < 10 {
				return 1
			}
			return 0.001
		}
		w.poisson(w.newClients(scaled(clients), byChance(down, refused, 0)), rate, 660)
	})
	var sent, firsts float64
	for m := 60.0; m < 660; m += 60 {
		sent, firsts = sent+sum(w.sent, m, m+10), firsts+sum(w.firsts, m, m+10)
	}
	return sent / firsts
}

// crash is a server whose answers take 10 s and that breaks off all of them at once.
// Then it refuses everything for 60 s: attempts per request in that time. Timed tells
// that the clients bound their attempts in time.
func crash(t *testing.T, p policy, clients int, rate float64, timed bool) float64 {
	t.Helper()
	const at, took = 60.0, 10.0
	w := inWorld(t, p, setting{3, standard}, func(w *world) {
		w.timed = timed
		s := func(now float64, _ *rand.Rand) (outcome, float64, float64) {
			switch {
			case now >= at:
				return refused, latency, 0
			case now+took >= at:
				return refused, at - now, 0
			}
			return good, took, 0
		}
		w.poisson(w.newClients(scaled(clients), s), rate, at+60)
	})
	return sum(w.sent, at, at+60) / sum(w.firsts, at, at+60)
}

// background is one client of a server that fails by chance: how many requests
// fail for one that must, p^attempts. To have little noise, a refusal counts with
// the chance that the attempts left would have succeeded.
func background(t *testing.T, p policy, rate, chance float64, requests int, s setting) float64 {
	t.Helper()
	var excess, counted float64
	inWorld(t, p, s, func(w *world) {
		from := 0.1 * float64(requests) / rate
		w.refusal = func(now float64, f retrip.Failure) {
			if now >= from {
				excess += 1 - math.Pow(chance, float64(f.MaxAttempts-f.Attempt))
			}
		}
		w.poisson(w.newClients(1, byChance(func(float64) float64 { return chance }, failed, 0)), rate, float64(requests)/rate)
		w.wg.Wait()
		counted = sum(w.firsts, from, forever)
	})
	if p.name == none.name {
		return chance / math.Pow(chance, float64(s.attempts))
	}
	return 1 + excess/counted/math.Pow(chance, float64(s.attempts))
}

// A blip is a server that refuses everything for a moment.
type blip struct{ rate, length float64 }

// saved is the share of the requests begun in the blip that end well, of those
// that unlimited retries save. These are counted as those saved, and each refused
// with its chance.
func (b blip) saved(t *testing.T, p policy, s setting) float64 {
	t.Helper()
	const begin = 2.0
	var lost float64
	chances := rand.New(rand.NewPCG(1, 2))
	w := inWorld(t, p, s, func(w *world) {
		w.refusal = func(now float64, f retrip.Failure) {
			if now-latency >= begin && now-latency < begin+b.length {
				lost += s.chanceToOutlast(chances, begin+b.length-now, f.Attempt)
			}
		}
		n := int(max(3, math.Ceil(1500/(b.rate*min(b.length, 0.3)))))
		clients := w.newClients(scaled(n), byChance(during(begin, begin+b.length, 1, 0), refused, 0))
		w.poisson(clients, b.rate, begin+b.length)
	})
	if p.name == none.name {
		return 0
	}
	saved := sum(w.good, begin, forever)
	return saved / (saved + lost)
}

// chanceToOutlast is the chance that one of the attempts left comes after a time.
func (s setting) chanceToOutlast(rng *rand.Rand, left float64, attempt int) float64 {
	const samples = 64
	hits := 0.0
	for range samples {
		at := 0.0
		for n := attempt; n < s.attempts; n++ {
			at += rng.Float64() * min(20, s.backoff*math.Pow(2, float64(n-1)))
			if at >= left {
				hits++
				break
			}
			at += latency
		}
	}
	return hits / samples
}
