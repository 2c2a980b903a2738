package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A Fault is what is wrong with the server from one time to another.
type Fault struct {
	From, Until time.Duration
	// Failures is the part of the attempts that fail, As what, and Takes how long
	// such a failure takes.
	Failures float64
	As       Outcome
	Takes    time.Duration
	// Capacity is the part of its capacity that the server has.
	Capacity float64
	// Backend is the one backend that the fault hits, or -1 for all.
	Backend int
	// Load is what the clients' rate is multiplied with.
	Load float64
}

// A Limit is a server's limit of attempts per second: those above it are throttled.
type Limit struct {
	Rate   float64
	Burst  float64       // of a token bucket
	Window time.Duration // a fixed window, or 0 for a token bucket
	Hint   bool          // it says when to come back
}

// Site is a server that does what a scenario says.
type Site struct {
	Latency time.Duration
	// Failures is the part of attempts that fail by chance where nothing is wrong,
	// and Missing the part that gets a 404.
	Failures, Missing float64
	// Capacity is how many attempts it answers per second, 0 for any number. Queue
	// is how much work waits at most, in seconds of a healthy server; an attempt that
	// finds it full gets a 503, which costs Refusal of an answer. A client gives up
	// after Timeout; its attempt is answered all the same, for no one.
	Capacity, Refusal float64
	Queue, Timeout    time.Duration
	// Backends share the capacity; attempts are spread over them at random.
	Backends int
	Limit    Limit
	// ColdCost is what an answer costs while the cache is empty, which Cold fills by
	// and by: so many answers fill it. ColdAt is when it is emptied.
	ColdCost, Cold float64
	ColdAt         time.Duration
	Faults         []Fault

	rng    *rand.Rand
	free   []time.Duration // when each backend has done the work it accepted
	tokens float64
	filled time.Duration
	window int64
	used   float64
	warmth float64
	// Late counts the answers for no one.
	Late int
}

// Start prepares the server.
func (s *Site) Start(seed uint64) {
	s.rng = rand.New(rand.NewPCG(seed, 3))
	s.Backends = max(s.Backends, 1)
	s.free = make([]time.Duration, s.Backends)
	s.tokens = s.Limit.Burst
	s.window = -1
}

// Attempt answers.
func (s *Site) Attempt(now time.Duration) Reply {
	if s.Limit.Rate > 0 {
		if ok, wait := s.admit(now); !ok {
			return Reply{Throttled, s.Latency, wait}
		}
	}
	backend := 0
	if s.Backends > 1 {
		backend = s.rng.IntN(s.Backends)
	}
	failures, as, takes, capacity := s.Failures, Failed, s.Latency, 1.0
	for i := range s.Faults {
		f := &s.Faults[i]
		if now < f.From || now >= f.Until || f.Backend >= 0 && f.Backend != backend {
			continue
		}
		if f.Failures > 0 {
			failures, as, takes = f.Failures, f.As, s.Latency+f.Takes
		}
		capacity *= f.Capacity
	}
	if failures > 0 && s.rng.Float64() < failures {
		return Reply{Outcome: as, Took: takes}
	}
	outcome := Good
	if s.Missing > 0 && s.rng.Float64() < s.Missing {
		outcome = NotFound
	}
	if s.Capacity <= 0 {
		return Reply{Outcome: outcome, Took: s.Latency}
	}
	return s.queue(now, backend, capacity, outcome)
}

// queue lets an attempt wait for its turn.
func (s *Site) queue(now time.Duration, backend int, part float64, outcome Outcome) Reply {
	full := s.Capacity / float64(s.Backends)
	free := max(s.free[backend], now)
	if part <= 0 {
		s.free[backend] = now
		return Reply{Outcome: Silent, Took: s.Timeout}
	}
	perSecond := full * part
	if float64(free-now)*perSecond >= float64(s.Queue)*full {
		s.free[backend] = free + perAnswer(s.Refusal, perSecond)
		return Reply{Outcome: Failed, Took: s.Latency}
	}
	cost := 1.0
	if s.Cold > 0 && now >= s.ColdAt {
		cost = s.cold()
	}
	free += perAnswer(cost, perSecond)
	s.free[backend] = free
	took := free - now + s.Latency
	if s.Timeout > 0 && took > s.Timeout {
		s.Late++
		return Reply{Outcome: Silent, Took: s.Timeout}
	}
	return Reply{Outcome: outcome, Took: took}
}

// cold is what the next answer costs. Each answer adds to the cache.
func (s *Site) cold() float64 {
	missing := max(0, 1-s.warmth/s.Cold)
	s.warmth++
	return 1 + (s.ColdCost-1)*missing
}

func perAnswer(cost, perSecond float64) time.Duration {
	return time.Duration(math.Round(cost / perSecond * 1e9))
}

// admit applies the limit.
func (s *Site) admit(now time.Duration) (ok bool, wait time.Duration) {
	l := s.Limit
	if l.Window > 0 {
		if n := int64(now / l.Window); n != s.window {
			s.window, s.used = n, 0
		}
		if s.used++; s.used <= l.Rate*l.Window.Seconds() {
			return true, 0
		}
		wait = time.Duration(s.window+1)*l.Window - now
	} else {
		s.tokens = min(l.Burst, s.tokens+(now-s.filled).Seconds()*l.Rate)
		s.filled = now
		if s.tokens >= 1 {
			s.tokens--
			return true, 0
		}
		wait = time.Duration((1 - s.tokens) / l.Rate * 1e9)
	}
	if !l.Hint {
		wait = 0
	}
	return false, wait
}

// Load is what the clients' rate is multiplied with at a time, and until when.
func (s *Site) Load(now time.Duration) (factor float64, until time.Duration) {
	factor, until = 1, math.MaxInt64
	for _, f := range s.Faults {
		if f.Load == 1 {
			continue
		}
		switch {
		case now < f.From:
			until = min(until, f.From)
		case now < f.Until:
			factor *= f.Load
			until = min(until, f.Until)
		}
	}
	return factor, until
}

// Faulty reports whether a fault is on at a time.
func (s *Site) Faulty(now time.Duration) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return now >= f.From && now < f.Until })
}
