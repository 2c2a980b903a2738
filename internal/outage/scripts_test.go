package outage

import (
	"math/rand/v2"
	"testing"
)

// A script is some requests of one client, played by many clients, each with a
// server of its own: how many of the requests are lost.
type script struct {
	setting  setting
	requests arrivals
	server   func() server
	trials   int
}

// arrivals are the times at which a client begins its requests.
type arrivals func(rng *rand.Rand) []float64

// play returns how many requests are lost, how many there were, and how many
// attempts were sent for each.
func (s script) play(t *testing.T, p policy) (lost, of, attempts float64) {
	t.Helper()
	trials := scaled(s.trials)
	w := inWorld(t, p, s.setting, func(w *world) {
		arrive := rand.New(rand.NewPCG(w.seed, 2)) // the same for every policy
		for range trials {
			c, times := w.newClient(s.server()), s.requests(arrive)
			w.wg.Go(func() {
				for _, at := range times {
					w.sleepUntil(at)
					c.begin()
				}
			})
		}
	})
	n, firsts := float64(trials), sum(w.firsts, 0, forever)
	return (firsts - sum(w.good, 0, forever)) / n, firsts / n, sum(w.sent, 0, forever) / firsts
}

func atOnce(n int) arrivals { return func(*rand.Rand) []float64 { return make([]float64, n) } }

func everySecond(n int) arrivals {
	return func(rng *rand.Rand) (times []float64) {
		x := rng.Float64()
		for i := range n {
			times = append(times, float64(i)+x)
		}
		return times
	}
}

func atRandom(rate, until float64) arrivals {
	return func(rng *rand.Rand) (times []float64) {
		for at := rng.ExpFloat64() / rate; at < until; at += rng.ExpFloat64() / rate {
			times = append(times, at)
		}
		return times
	}
}

// shared makes each trial's server from one that keeps no state.
func shared(s server) func() server { return func() server { return s } }

func down(from, to float64) func() server {
	return shared(byChance(during(from, to, 1, 0), refused, 0))
}

func unreliable(p, missing float64) func() server {
	return shared(func(_ float64, rng *rand.Rand) (outcome, float64, float64) {
		switch x := rng.Float64(); {
		case x < p:
			return failed, latency, 0
		case x < p+(1-p)*missing:
			return notFound, latency, 0
		}
		return good, latency, 0
	})
}

// perSecond answers so many in each second and throttles the others, which it
// tells to come in the next, or does not tell.
func perSecond(n int, tells bool) func() server {
	return func() server {
		second, used := -1, 0
		return func(now float64, _ *rand.Rand) (outcome, float64, float64) {
			if s := int(now + 1e-6); s != second {
				second, used = s, 0
			}
			if used++; used <= n {
				return good, 0.8 * latency, 0 // so that what comes back first is not by chance
			}
			if tells {
				return throttled, latency, float64(second+1) - now
			}
			return throttled, latency, 0
		}
	}
}

// waiting throttles everything, and tells each to come back after a time.
func waiting(wait float64) func() server {
	return shared(func(float64, *rand.Rand) (outcome, float64, float64) { return throttled, latency, wait })
}
