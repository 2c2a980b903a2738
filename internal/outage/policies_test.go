package outage

import (
	"context"
	"math"
	"sync"

	"github.com/retrip-go/retrip"
)

// A policy is a quota, or what takes its place.
type policy struct {
	name  string
	apply func(*retrip.Strategy)
}

func withQuota(name string, make func() retrip.Quota) policy {
	return policy{name, func(s *retrip.Strategy) { s.Quota = make() }}
}

var (
	none      = policy{"no retries", func(s *retrip.Strategy) { s.MaxAttempts = 1 }}
	unlimited = policy{"unlimited", func(s *retrip.Strategy) { s.Quota = nil }}
	bucket    = withQuota("AWS bucket, 500/5", func() retrip.Quota { return retrip.NewBucket(500) })
	bucket14  = policy{"AWS bucket of 2026, 500/14", func(s *retrip.Strategy) { s.Quota, s.Cost = retrip.NewBucket(500), 14 }}
	throttle  = withQuota("gRPC throttling, 10/0.1", func() retrip.Quota { return &grpcThrottle{tokens: 10} })
	gate      = withQuota("**gate**", func() retrip.Quota { return new(retrip.Gate) })
	policies  = []policy{none, unlimited, bucket, bucket14, throttle, gate}
)

// grpcThrottle is the retry throttling of gRPC (proposal A6) with the usual
// maxTokens 10 and tokenRatio 0.1: each failure takes a token, each success adds a
// tenth, and retries are made while more than half of the tokens are left.
type grpcThrottle struct {
	mu     sync.Mutex
	tokens float64
}

func (q *grpcThrottle) Answered(class retrip.Class, _ int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if class == retrip.Success {
		q.tokens = math.Min(10, q.tokens+0.1)
	}
}

func (q *grpcThrottle) Failed(retrip.Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = math.Max(0, q.tokens-1)
}

func (q *grpcThrottle) Take(context.Context, retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens > 5
}

func (q *grpcThrottle) Return(int) {}
