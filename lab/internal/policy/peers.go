package policy

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/retrip-go/retrip"
)

// The quotas here follow the rules that other libraries and authors publish, each
// with its source. They are as safe for concurrent use as a Quota must be, so that
// real Transports can use them, too.

// unlimited allows every retry.
type unlimited struct{}

func (unlimited) Answered(retrip.Class, int)                { _ = 0 }
func (unlimited) Failed(retrip.Failure)                     { _ = 0 }
func (unlimited) Take(context.Context, retrip.Failure) bool { return true }
func (unlimited) Return(int)                                { _ = 0 }
func (unlimited) Level() float64                            { return 1 }

// throttle is gRPC's retry throttling (proposal A6): each failure takes a token,
// each success adds ratio, and retries are made while more than half are left.
type throttle struct {
	mu                 sync.Mutex
	tokens, max, ratio float64
}

func (q *throttle) Answered(class retrip.Class, _ int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if class == retrip.Success {
		q.tokens = math.Min(q.max, q.tokens+q.ratio)
	}
}

func (q *throttle) Failed(retrip.Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = math.Max(0, q.tokens-1)
}

func (q *throttle) Take(context.Context, retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens > q.max/2
}

func (q *throttle) Return(int) {}

func (q *throttle) Level() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, (q.tokens-q.max/2)/(q.max/2))
}

// deposits is Marc Brooker's token bucket ("Fixing retries with token buckets and
// circuit breakers", 2022): each request adds a part of a token, a retry takes one.
type deposits struct {
	mu                   sync.Mutex
	tokens, most, credit float64
}

func (q *deposits) Began(time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = math.Min(q.most, q.tokens+q.credit)
}

func (q *deposits) Answered(retrip.Class, int) {}
func (q *deposits) Failed(retrip.Failure)      {}

func (q *deposits) Take(context.Context, retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tokens < 1 {
		return false
	}
	q.tokens--
	return true
}

func (q *deposits) Return(int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = math.Min(q.most, q.tokens+1)
}

func (q *deposits) Level() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens / q.most
}

// windowed is the budget of Finagle, which Linkerd and tower have taken over: a
// part of the requests of the last ten seconds, and so many retries per second for
// nothing.
type windowed struct {
	mu          sync.Mutex
	free, share float64 // free per second
	slots       [10]float64
	second      int64
}

func (q *windowed) turn(now time.Time) *float64 {
	s := now.Unix()
	if s-q.second > 10 {
		q.second = s - 10
	}
	for q.second < s {
		q.second++
		q.slots[q.second%10] = 0
	}
	return &q.slots[q.second%10]
}

func (q *windowed) Began(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*q.turn(now) += q.share
}

func (q *windowed) Answered(retrip.Class, int) {}
func (q *windowed) Failed(retrip.Failure)      {}

func (q *windowed) Take(_ context.Context, f retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	slot := q.turn(f.Done)
	if q.balance() < 1 {
		return false
	}
	*slot--
	return true
}

func (q *windowed) balance() float64 {
	have := 10 * q.free
	for _, s := range q.slots {
		have += s
	}
	return have
}

func (q *windowed) Return(int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots[q.second%10]++
}

func (q *windowed) Level() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, min(1, q.balance()/max(1, 10*q.free)))
}

// envoy is Envoy's retry budget: retries under way, those that wait included, come
// to at most a part of the requests under way, but three are always allowed.
type envoy struct {
	mu              sync.Mutex
	active, retries float64
	share, least    float64
}

func (q *envoy) Began(time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active++
}

// Answered is told the cost of the attempt, which tells retries from first attempts.
func (q *envoy) Answered(_ retrip.Class, cost int) { q.end(cost > 0) }
func (q *envoy) Failed(f retrip.Failure)           { q.end(f.Attempt > 1) }
func (q *envoy) Return(int)                        { q.end(true) }

func (q *envoy) end(retry bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	if retry {
		q.retries--
	}
}

func (q *envoy) Take(context.Context, retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.retries >= math.Max(q.least, q.share*q.active) {
		return false
	}
	q.retries++
	q.active++
	return true
}

func (q *envoy) Level() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, 1-q.retries/math.Max(q.least, q.share*q.active))
}

// share is the per-client budget of the Google SRE book ("Handling Overload"): at
// most a part of the requests are retries. Its window is our choice, as the book has
// none: this minute and the one before.
type share struct {
	mu                sync.Mutex
	part              float64
	requests, retries [2]float64
	minute            int64
}

func (q *share) turn(now time.Time) {
	for m := now.Unix() / 60; q.minute < m; q.minute++ {
		if m-q.minute > 2 {
			q.minute = m - 2
		}
		q.requests = [2]float64{0, q.requests[0]}
		q.retries = [2]float64{0, q.retries[0]}
	}
}

func (q *share) Began(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(now)
	q.requests[0]++
}

func (q *share) Answered(retrip.Class, int) {}
func (q *share) Failed(retrip.Failure)      {}

func (q *share) Take(_ context.Context, f retrip.Failure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(f.Done)
	if q.left() <= 0 {
		return false
	}
	q.retries[0]++
	return true
}

func (q *share) left() float64 {
	return q.part*(q.requests[0]+q.requests[1]) - q.retries[0] - q.retries[1]
}

func (q *share) Return(int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries[0]--
}

func (q *share) Level() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.part * (q.requests[0] + q.requests[1])
	if all == 0 {
		return 0
	}
	return max(0, q.left()/all)
}
