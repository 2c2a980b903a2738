package outage

import (
	"math/rand/v2"
	"testing"
)

// A queue is a server that answers in order of arrival, so many per second, from
// a waiting room. An attempt that finds it full gets a 503 at once. One that waits
// for longer than the timeout has gone, and is answered all the same: work done
// for no one, which is what keeps an overload going.
type queue struct {
	capacity func(now float64) float64
	full     float64 // capacity when healthy
	room     float64 // seconds of work at full capacity
	timeout  float64
	refusal  float64 // what a refusal costs, as a part of an answer
	free     float64 // when the work accepted so far is done
}

func (s *queue) attempt(now float64, _ *rand.Rand) (outcome, float64, float64) {
	c := s.capacity(now)
	s.free = max(s.free, now)
	if (s.free-now)*c >= s.room*s.full {
		s.free += s.refusal / c
		return failed, latency, 0
	}
	s.free += 1 / c
	if took := s.free - now + latency; took <= s.timeout {
		return good, took, 0
	}
	return silent, s.timeout, 0
}

// A brownout is a server of a thousand clients that for a while does half of what
// it did. Load is the part of its capacity that they use, without retries.
type brownout struct {
	load, length  float64
	room, refusal float64
	setting       setting
}

var (
	// late: it does not refuse, so that most answers come too late.
	late = brownout{length: 60, room: 3, setting: setting{3, 2}}
	// costly: it refuses, which costs nearly a third of an answer.
	costly = brownout{length: 60, room: 0.2, refusal: 0.3, setting: setting{3, 2}}
)

func (b brownout) at(load float64) brownout { b.load = load; return b }

// recovery is how many seconds after the brown-out 99 % of each later second's
// requests end well, and the share that ends well while it lasts. never is longer
// than can be measured.
func (b brownout) recovery(t *testing.T, p policy) (after, meanwhile float64) {
	t.Helper()
	const begin, watch = 60.0, 180.0
	end := begin + b.length
	n := scaled(1000)
	capacity := float64(n)
	w := inWorld(t, p, b.setting, func(w *world) {
		s := &queue{capacity: during(begin, end, capacity/2, capacity), full: capacity, room: b.room, timeout: 1, refusal: b.refusal}
		w.poisson(w.newClients(n, s.attempt), b.load, end+watch)
	})
	for s := end; s < end+watch-10; s++ {
		if sum(w.good, s, s+1) < 0.99*sum(w.firsts, s, s+1) {
			after = s - end + 1
		}
	}
	if after > watch-20 {
		after = never
	}
	return after, sum(w.good, begin, end) / sum(w.firsts, begin, end)
}

const never = 999
