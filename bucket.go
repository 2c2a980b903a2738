package retrip

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A Quota stops retries when most attempts fail: then requests fail at once
// instead of adding load to a server that is already sick. First attempts never
// need it. All methods are called from many goroutines at once.
type Quota interface {
	// Answered hears of each attempt that got an answer other than a transient or
	// throttling one, which is evidence that the server is well: a success, but
	// also a 404. cost is what Take took for the attempt, 0 for a first one. It
	// must not block.
	Answered(class Class, cost int)

	// Failed hears of each transient or throttled failure, also of a request's
	// last. It must not block. Neither method hears of an attempt that the caller
	// cancelled or that failed for good without an answer: these say nothing about
	// the server.
	Failed(Failure)

	// Take is asked for a retry, after everything else has allowed it, and after
	// Failed heard of the same failure. It takes f.Cost and reports true, or takes
	// nothing and reports false. It may wait, until ctx ends at the latest, if its
	// documentation says so. ctx is the request's.
	Take(ctx context.Context, f Failure) bool

	// Return gets back the cost of a retry that was not sent after all, which is
	// neither a success nor a failure.
	Return(cost int)
}

// A Failure is what a Quota hears of an attempt that failed.
type Failure struct {
	// Class is Transient or Throttled; Take is also asked after ClockSkewed.
	Class Class
	// Timeout tells that the attempt failed with a timeout.
	Timeout bool
	// Attempt is the number of the attempt, from 1, and MaxAttempts how many the
	// request may take.
	Attempt, MaxAttempts int
	// Hint tells that the failure came with a wait that the server asked for and
	// that Strategy.MaxRetryAfter allows.
	Hint bool
	// Hinted is how many of the request's failures up to this one had a Hint.
	Hinted int
	// Cost is how many tokens a retry costs by the strategy's settings, 0 or more.
	// A quota that does not count tokens may ignore it.
	Cost int
	// Sent and Done are when the attempt began and ended. Sent is zero unless
	// something else had to read the clock; see Attempt.
	Sent, Done time.Time
}

// A RestingQuota is a Quota that can say that it is as good as new. Only a key
// whose quota is Full can be forgotten to make room for others. Bucket and Gate
// can say so.
type RestingQuota interface {
	Quota
	Full() bool
}

// A MeteredQuota is a Quota that counts tokens and can say how many, for events
// and Stats. Tokens is what it has now, and Capacity what it has when it is full,
// both 0 or more.
type MeteredQuota interface {
	RestingQuota
	Tokens() int
	Capacity() int
}

// A DoubtingQuota is a Quota that counts failures, as a Gate does, and can say how
// many speak against the server, for events and Stats. Shut tells that it would refuse
// the retry of a request that may take so many attempts and fails for the first time.
type DoubtingQuota interface {
	RestingQuota
	Doubt() float64
	Shut(maxAttempts int) bool
}

// Bucket is the AWS SDKs' retry quota, counted in tokens: it starts full, a retry
// takes tokens out (Strategy.Cost) and a success puts tokens back, never above the
// capacity. It has no clock; only successes refill it. Several strategies may
// share one Bucket.
//
// All methods are safe for concurrent use and take no lock. The zero Bucket
// has no capacity and refuses every retry that costs something.
type Bucket struct {
	capacity int64
	tokens   atomic.Int64
}

// NewBucket returns a bucket that is full with capacity tokens. A capacity of 0
// refuses every retry that costs something; a negative one is reported by
// Transport.Validate.
func NewBucket(capacity int) *Bucket {
	b := &Bucket{capacity: int64(capacity)}
	b.tokens.Store(b.capacity)
	return b
}

// Answered puts tokens back after a success, as the AWS SDKs do: what its retry
// took, and at least 1. Other answers earn nothing.
func (b *Bucket) Answered(class Class, cost int) {
	if class == Success {
		b.give(max(cost, 1))
	}
}

// Failed does nothing: only retries cost.
func (b *Bucket) Failed(Failure) {}

// Take takes f.Cost tokens if there are as many, and nothing otherwise. It does
// not wait. A retry that costs nothing is always allowed.
func (b *Bucket) Take(_ context.Context, f Failure) bool { return b.take(f.Cost) }

// Return puts the cost of a retry that was not sent back.
func (b *Bucket) Return(cost int) { b.give(cost) }

func (b *Bucket) take(n int) bool {
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

// give puts n tokens back, up to the capacity. A full bucket is only read, so
// requests that succeed do not contend with each other.
func (b *Bucket) give(n int) {
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
