package retrip

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Stats is what has happened to the requests of a Transport, if it has KeepStats.
type Stats struct {
	// Requests is how many have ended.
	Requests int64
	// Attempts is how many were sent, and Retries how many of these were not
	// the first of their request.
	Attempts, Retries int64
	// Recovered is how many requests succeeded after a retry.
	Recovered int64
	// Throttled is how many attempts the server throttled.
	Throttled int64
	// GivenUp is how many requests ended without a success, by the reason why
	// there was no further attempt. Reasons that did not occur are not in it.
	GivenUp map[Reason]int64
}

// KeyStats is the state of one key, and what has happened to its requests.
type KeyStats struct {
	// Key is empty for the keys beyond MaxKeys, for Transport.Strategy without
	// Prepare, and for requests that bring a strategy of their own.
	Key string
	Stats
	// Tokens is what the quota has, and Capacity what it has when it is full; -1
	// if it is no MeteredQuota.
	Tokens, Capacity int
	// Doubt is how many failures the quota counts against the server, and Shut tells
	// that it refuses retries; -1 and false if it is no DoubtingQuota.
	Doubt float64
	Shut  bool
	// Limiter is the send-rate limiter's state, zero if there is none.
	Limiter LimiterState
	// Skew is how far the server's clock is ahead of ours, negative if it is behind,
	// and 0 if not known.
	Skew time.Duration
}

// Stats returns the sums over all keys, also of those since forgotten. It may be
// called at any time and stops no request. Without KeepStats they are zero.
func (t *Transport) Stats() Stats {
	return t.total.stats()
}

// Keys iterates over the keys that are known when it is called, in no order.
// Without KeepStats their counts are zero.
func (t *Transport) Keys() iter.Seq[KeyStats] {
	t.setUp()
	t.keys.mu.Lock()
	entries := t.keys.all()
	t.keys.mu.Unlock()
	return func(yield func(KeyStats) bool) {
		for _, e := range entries {
			if !yield(e.stats()) {
				return
			}
		}
		if shared, ok := t.sharedStats(); ok {
			yield(shared)
		}
	}
}

// sharedStats are those of the empty key, if it was used.
func (t *Transport) sharedStats() (KeyStats, bool) {
	overflow := t.keys.overflow.Load()
	if overflow == nil {
		return t.single.stats(), t.Strategy != nil || t.single.counts.Load() != nil
	}
	shared := overflow.stats()
	if own := t.single.counts.Load(); own != nil {
		shared.add(own.stats())
	}
	return shared, true
}

// Vars returns the sums and, by key, what Keys has, in a form that encoding/json
// can write: expvar.Publish("retrip", expvar.Func(t.Vars)). Like Stats and Keys, it
// may be called at any time.
func (t *Transport) Vars() any {
	byKey := map[string]KeyStats{}
	for k := range t.Keys() {
		byKey[k.Key] = k
	}
	return struct {
		Total Stats
		Keys  map[string]KeyStats
	}{t.Stats(), byKey}
}

// counters are a Stats under way. Requests that succeed at once are counted apart,
// in lanes, so that processors do not wait for each other's memory.
type counters struct {
	atOnce [lanes]struct {
		atomic.Int64
		_ [56]byte // the rest of a cache line
	}
	requests, attempts, retries, recovered, throttled atomic.Int64
	givenUp                                           [len(reasonNames)]atomic.Int64
}

// A tally is what one event adds.
type tally struct {
	sent, final, retried, throttled bool
	reason                          Reason
}

// lanes is how many processors can count without sharing memory. Our choice: more
// would cost each key more memory than it saves time.
const lanes = 8

// lanePool gives each processor a lane: what a sync.Pool gets was mostly put in on
// the same one.
var (
	laneNumbers [lanes]int
	lanesGiven  atomic.Uint32
	lanePool    = sync.Pool{New: func() any {
		n := int(lanesGiven.Add(1) % lanes)
		return &laneNumbers[n]
	}}
)

func init() {
	for i := range laneNumbers {
		laneNumbers[i] = i
	}
}

func (t *Transport) count(e *entry, n tally) {
	c := e.counts.Load()
	if c == nil {
		e.counts.CompareAndSwap(nil, new(counters))
		c = e.counts.Load()
	}
	if n == (tally{sent: true, final: true}) {
		lane := lanePool.Get().(*int)
		c.atOnce[*lane].Add(1)
		t.total.atOnce[*lane].Add(1)
		lanePool.Put(lane)
		return
	}
	c.count(n)
	t.total.count(n)
}

func (c *counters) count(n tally) {
	if n.sent {
		c.attempts.Add(1)
		if n.retried {
			c.retries.Add(1)
		}
		if n.throttled {
			c.throttled.Add(1)
		}
	}
	if !n.final {
		return
	}
	c.requests.Add(1)
	switch {
	case n.reason != 0:
		c.givenUp[n.reason].Add(1)
	case n.retried:
		c.recovered.Add(1)
	}
}

func (c *counters) stats() Stats {
	s := Stats{
		Requests: c.requests.Load(), Attempts: c.attempts.Load(), Retries: c.retries.Load(),
		Recovered: c.recovered.Load(), Throttled: c.throttled.Load(), GivenUp: map[Reason]int64{},
	}
	for i := range c.atOnce {
		n := c.atOnce[i].Load()
		s.Requests += n
		s.Attempts += n
	}
	for reason := range c.givenUp {
		if n := c.givenUp[reason].Load(); n > 0 {
			s.GivenUp[Reason(reason)] = n
		}
	}
	return s
}

func (s *Stats) add(other Stats) {
	s.Requests += other.Requests
	s.Attempts += other.Attempts
	s.Retries += other.Retries
	s.Recovered += other.Recovered
	s.Throttled += other.Throttled
	for reason, n := range other.GivenUp {
		s.GivenUp[reason] += n
	}
}

func (e *entry) stats() KeyStats {
	k := KeyStats{Key: e.key, Tokens: -1, Capacity: -1, Doubt: -1, Skew: e.skew.offset()}
	if c := e.counts.Load(); c != nil {
		k.Stats = c.stats()
	} else {
		k.GivenUp = map[Reason]int64{}
	}
	if e.policy.err == nil && e.policy.Strategy != nil {
		k.Tokens = e.policy.tokens()
		k.Doubt, k.Shut = e.policy.doubt()
		if q, ok := e.policy.Quota.(MeteredQuota); ok {
			k.Capacity = q.Capacity()
		}
	}
	if e.policy.sharedLimiter != nil {
		k.Limiter = e.policy.sharedLimiter.State()
	}
	return k
}
