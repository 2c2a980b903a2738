package retrip

import (
	"fmt"
	"sync/atomic"
)

// A Quota is the budget that retries are paid from. When most requests fail it
// runs dry, and then requests fail at once instead of adding load to a server
// that is already sick. First attempts never need it.
//
// Take takes n tokens and reports true, or takes nothing and reports false.
// Give returns n tokens: those of a retry that succeeded or was called off, or
// one for a first attempt that succeeded. Both are called at the same time
// from many goroutines; neither may block.
//
// A Quota may also have a method Tokens() int, which is what events show, and
// a method Full() bool: only keys whose quota is full can be forgotten to make
// room for others.
type Quota interface {
	Take(n int) bool
	Give(n int)
}

// Bucket is the AWS SDKs' retry quota: it starts full, a retry takes tokens
// out and a success puts tokens back, never above the capacity. It has no
// clock; only successes refill it. Several strategies may share one Bucket.
//
// All methods are safe for concurrent use and take no lock. The zero Bucket
// has no capacity and refuses every retry that costs something.
type Bucket struct {
	capacity int64
	tokens   atomic.Int64
}

// NewBucket returns a full bucket. A capacity of 0 refuses every retry that
// costs something; a negative one is reported by Transport.Validate.
func NewBucket(capacity int) *Bucket {
	b := &Bucket{capacity: int64(capacity)}
	b.tokens.Store(b.capacity)
	return b
}

// Take takes n tokens if there are as many, and nothing otherwise. A retry
// that costs nothing is always allowed.
func (b *Bucket) Take(n int) bool {
	if n <= 0 {
		return true
	}
	for {
		have := b.tokens.Load()
		if have < int64(n) {
			return false
		}
		if b.tokens.CompareAndSwap(have, have-int64(n)) {
			return true
		}
	}
}

// Give puts n tokens back, up to the capacity. Giving to a full bucket only
// reads it, so requests that succeed do not contend with each other.
func (b *Bucket) Give(n int) {
	if n <= 0 {
		return
	}
	for {
		have := b.tokens.Load()
		if have >= b.capacity {
			return
		}
		if b.tokens.CompareAndSwap(have, have+min(int64(n), b.capacity-have)) {
			return
		}
	}
}

// Tokens returns how many tokens are left.
func (b *Bucket) Tokens() int { return int(b.tokens.Load()) }

// Capacity returns how many tokens a full bucket holds.
func (b *Bucket) Capacity() int { return int(b.capacity) }

// Full reports whether no token is missing.
func (b *Bucket) Full() bool { return b.tokens.Load() >= b.capacity }

// String returns, for example, "486 of 500 tokens".
func (b *Bucket) String() string {
	return fmt.Sprintf("%d of %d tokens", b.Tokens(), b.Capacity())
}

func (b *Bucket) check() error {
	if b.capacity < 0 {
		return fmt.Errorf("has a capacity of %d: use 0 or more", b.capacity)
	}
	return nil
}
