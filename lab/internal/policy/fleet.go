package policy

import (
	"context"
	"sync"
	"time"

	"github.com/retrip-go/retrip"
)

// A fleet is what the members of a fleet tell each other: one doubt for all. It
// models a small script at a shared store, to which each member reports what it
// counted, once a tick. The limit grows with the fleet's traffic.
type fleet struct {
	mu              sync.Mutex
	doubt           float64
	current, before float64 // requests in this window of ten seconds and the one before
	window          int64
	tick            time.Duration
	lost            time.Time // when the store fails, if it does
}

func newFleet(tick time.Duration, lost time.Time) *fleet {
	return &fleet{tick: tick, lost: lost}
}

// report takes counts and says whether the fleet allows retries. up is false if
// the store does not answer.
func (f *fleet) report(now time.Time, answers, failures float64) (open, up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lost.IsZero() && !now.Before(f.lost) {
		return true, false
	}
	if w := now.Unix() / 10; w != f.window {
		if w != f.window+1 {
			f.current = 0
		}
		f.before, f.current, f.window = f.current, 0, w
	}
	f.current += answers + failures
	limit := 6 + 0.01*max(f.before, f.current)
	f.doubt = max(0, min(limit+2, f.doubt+failures-2*answers))
	return f.doubt < limit, true
}

// A member is the quota of one process: a gate of its own, and the fleet's veto. It
// only takes retries away. Without the fleet, the gate decides alone.
type member struct {
	retrip.Gate
	fleet *fleet

	mu                sync.Mutex
	answers, failures float64
	open              bool
	heard             time.Time // when the verdict came
}

func (m *member) Began(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.heard) >= m.fleet.tick && m.answers+m.failures > 0 {
		m.report(now)
	}
}

func (m *member) report(now time.Time) {
	open, up := m.fleet.report(now, m.answers, m.failures)
	m.open, m.heard = open || !up, now
	m.answers, m.failures = 0, 0
}

func (m *member) Answered(class retrip.Class, cost int) {
	m.Gate.Answered(class, cost)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers++
}

// Failed counts the failure, unless the process is in full doubt: it has said
// enough, and must not close the retries of the others.
func (m *member) Failed(f retrip.Failure) {
	full := m.Gate.Doubt() >= 8
	m.Gate.Failed(f)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !full {
		m.failures++
	}
}

// Take asks the gate, and the fleet if its verdict is older than a tick.
func (m *member) Take(ctx context.Context, f retrip.Failure) bool {
	if !m.Gate.Take(ctx, f) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Done.Sub(m.heard) >= m.fleet.tick {
		m.report(f.Done)
	}
	return m.open
}

// Level is the gate's, or 0 while the fleet forbids retries.
func (m *member) Level() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open && !m.heard.IsZero() {
		return 0
	}
	return max(0, 1-m.Gate.Doubt()/8)
}
