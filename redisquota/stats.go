package redisquota

import (
	"cmp"
	"iter"
	"slices"
	"sync/atomic"
	"time"
)

// Stats is what has happened between a Fleet and Redis.
type Stats struct {
	// Reports is how often the script was run, and Errors how often that failed.
	Reports, Errors int64
	// LastError is the last error and LastErrorAt when it came, or nil and zero. It
	// says what to do, if that is known.
	LastError   error
	LastErrorAt time.Time
	// Blind is true while Redis does not answer: then each process's own gates decide.
	// Blinded is how many retries have waited for an answer in vain.
	Blind   bool
	Blinded int64
	// Refused is how many retries the fleet forbade that the process's gate allowed.
	Refused int64
	// Latency is what the last run of the script took, with the way there and back.
	Latency time.Duration
}

// KeyStats is what is known of one dependency.
type KeyStats struct {
	// Key is what Quota was called with, and RedisKey where its doubt is kept.
	Key, RedisKey string
	// Doubt is this process's, in failures; see retrip.Gate.
	Doubt float64
	// FleetDoubt and FleetLimit are what the fleet knows, in failures: from the limit
	// on, it forbids retries if Late is true, which is a second after doubt arose.
	FleetDoubt, FleetLimit float64
	Late                   bool
	// Age is how old this knowledge is, or -1 if there is none.
	Age time.Duration
	// Reports is how often this process reported, and Refused how many of its retries
	// the fleet forbade.
	Reports, Refused int64
}

type fleetCounts struct {
	evals, errors, blind, refused atomic.Int64
	lastLatency                   atomic.Int64
	last                          atomic.Pointer[failure]
}

type failure struct {
	err error
	at  time.Time
}

type quotaCounts struct{ reports, refused atomic.Int64 }

func (c *fleetCounts) latency(d time.Duration) {
	c.evals.Add(1)
	c.lastLatency.Store(int64(d))
}

func (c *fleetCounts) fail(err error, at time.Time) {
	c.errors.Add(1)
	c.last.Store(&failure{err, at})
}

// Stats returns the sums since New.
func (f *Fleet) Stats() Stats {
	s := Stats{
		Reports: f.counts.evals.Load(), Errors: f.counts.errors.Load(), Blinded: f.counts.blind.Load(),
		Blind: f.blind(time.Now()), Latency: time.Duration(f.counts.lastLatency.Load()),
		Refused: f.counts.refused.Load(),
	}
	if last := f.counts.last.Load(); last != nil {
		s.LastError, s.LastErrorAt = last.err, last.at
	}
	return s
}

// Keys iterates over the dependencies in use, by their keys.
func (f *Fleet) Keys() iter.Seq[KeyStats] {
	f.mu.Lock()
	var quotas []*Quota
	for _, kept := range f.quotas {
		if q := kept.Value(); q != nil {
			quotas = append(quotas, q)
		}
	}
	f.mu.Unlock()
	slices.SortFunc(quotas, func(a, b *Quota) int { return cmp.Compare(a.key, b.key) })
	return func(yield func(KeyStats) bool) {
		for _, q := range quotas {
			if !yield(q.Stats()) {
				return
			}
		}
	}
}

// Totals and Verdicts make a Fleet an otelretrip.Fleet, for metrics. Totals are those
// of Stats.
func (f *Fleet) Totals() (reports, errors, refused int64, latency time.Duration) {
	return f.counts.evals.Load(), f.counts.errors.Load(), f.counts.refused.Load(), time.Duration(f.counts.lastLatency.Load())
}

// Verdicts calls yield with what Keys says of the keys of which the fleet has told,
// until it returns false.
func (f *Fleet) Verdicts(yield func(key string, doubt, limit float64, age time.Duration) bool) {
	for k := range f.Keys() {
		if k.Age >= 0 && !yield(k.Key, k.FleetDoubt, k.FleetLimit, k.Age) {
			return
		}
	}
}

// Stats returns what is known of the dependency.
func (q *Quota) Stats() KeyStats {
	s := KeyStats{
		Key: q.key, RedisKey: q.redisKey, Doubt: q.gate.Doubt(), Age: -1,
		Reports: q.counts.reports.Load(), Refused: q.counts.refused.Load(),
	}
	if v := q.verdict.Load(); v != nil {
		s.FleetDoubt, s.FleetLimit = float64(v.doubt)/plainQuarters, float64(v.limit)/plainQuarters
		s.Late, s.Age = !time.Now().Before(v.late), time.Since(v.at)
	}
	return s
}
