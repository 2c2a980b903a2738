// Package lanes counts without making processors wait for each other's memory.
package lanes

import (
	"sync"
	"sync/atomic"
)

// count is how many processors can count without sharing memory. Our choice: more
// would cost each counter more memory than it saves time.
const count = 8

// A Counter counts. The zero Counter is at 0. It is safe for concurrent use, and
// must not be copied.
type Counter struct {
	lanes [count]struct {
		atomic.Int64
		_ [56]byte // the rest of a cache line
	}
}

var (
	numbers [count]int
	given   atomic.Uint32
	// pool gives each processor a lane: what a sync.Pool gets was mostly put in on
	// the same one.
	pool = sync.Pool{New: func() any { return &numbers[given.Add(1)%count] }}
)

func init() {
	for i := range numbers {
		numbers[i] = i
	}
}

// Add adds n.
func (c *Counter) Add(n int64) {
	lane := pool.Get().(*int)
	c.lanes[*lane].Add(n)
	pool.Put(lane)
}

// Load returns the sum.
func (c *Counter) Load() (sum int64) {
	for i := range c.lanes {
		sum += c.lanes[i].Load()
	}
	return sum
}

// Take returns the sum, and takes it away.
func (c *Counter) Take() (sum int64) {
	for i := range c.lanes {
		if c.lanes[i].Load() != 0 {
			sum += c.lanes[i].Swap(0)
		}
	}
	return sum
}
