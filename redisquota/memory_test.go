package redisquota_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// memory is a Client with the script's logic in Go, for simulations in virtual time.
// TestScriptAgreesWithItsModel holds the two together.
type memory struct {
	mu     sync.Mutex
	hashes map[string]*hash
	evals  atomic.Int64
	down   atomic.Bool  // connections are refused
	takes  atomic.Int64 // nanoseconds of each run, with the way there and back
}

type hash struct {
	d, m    int64
	late    bool
	since   int64
	w, n, b int64
}

func newMemory() *memory { return &memory{hashes: map[string]*hash{}} }

var errDown = errors.New("connection refused")

// What can happen to a server.
func (m *memory) kill() { m.down.Store(true) }
func (m *memory) hang() { m.takes.Store(int64(time.Hour)) }
func (m *memory) slow() { m.takes.Store(int64(200 * time.Millisecond)) }
func (m *memory) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.hashes)
}

// failOver takes two seconds, and the new primary has nothing of the old one.
func (m *memory) failOver() {
	m.kill()
	time.AfterFunc(2*time.Second, func() {
		m.flush()
		m.down.Store(false)
	})
}

func (m *memory) Eval(ctx context.Context, _, key string, args ...string) ([]int64, error) {
	m.evals.Add(1)
	if takes := time.Duration(m.takes.Load()); takes > 0 {
		answer := time.NewTimer(takes)
		defer answer.Stop()
		select {
		case <-answer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if m.down.Load() {
		return nil, errDown
	}
	var n [5]int64
	for i, arg := range args {
		n[i], _ = strconv.ParseInt(arg, 10, 64)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.eval(key, time.Now().UnixMilli(), n), nil
}

// eval runs the script at a time in milliseconds.
func (m *memory) eval(key string, now int64, args [5]int64) []int64 {
	answers, failures, adds, timeout, covers := args[0], args[1], args[2], args[3] == 1, args[4]
	h := m.hashes[key]
	if h == nil {
		h = &hash{since: now, w: now / 10_000}
		m.hashes[key] = h
	}
	if w := now / 10_000; w != h.w {
		b := int64(0)
		if w == h.w+1 {
			b = h.n
		}
		h.w, h.n, h.b = w, 0, b
	}
	h.n += answers + failures
	limit := 24 + 4*(max(h.n, h.b)/100)
	part := min(1, float64(max(0, now-h.since))/float64(covers))
	h.d = max(0, h.d-int64(float64(8*answers)*part))
	if adds > 0 {
		if h.d == 0 {
			h.m, h.late, h.since = 0, false, now
		}
		h.late = h.late || now-h.since >= 1000 || now < h.since || timeout && h.d+adds >= limit
		h.m = max(h.m, limit+8)
		if !h.late {
			h.m = max(h.m, h.d+adds)
		}
		h.d = min(h.d+adds, h.m)
	}
	h.late = h.late || now-h.since >= 1000
	left := max(0, 1000-(now-h.since))
	if h.late {
		left = 0
	}
	return []int64{h.d, limit, left}
}
