package retrip

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Gate is a retry quota that stops retries within a few requests when a server
// is down, lets them all through during a short interruption, and never refuses
// a request that is alone. The zero Gate is ready and has nothing to set. Gated
// returns a strategy with one; any other strategy takes one in a line:
//
//	s.Quota = new(retrip.Gate)
//
// A Gate keeps one number, its doubt that the server works:
//
//   - A failure adds 1, but no more than the first 2 of each request. A failure
//     with a hint that the strategy obeys (Failure.Hint) adds a quarter.
//   - An answer that is neither transient nor throttled takes 2 away. A 404
//     does, too: the server works.
//   - A retry is refused while the failures of other requests come to the limit:
//     the attempts a request may take and 1, at least 4 and at most 6. What a
//     request added itself never counts against it.
//   - Doubt stops at 8.
//   - For a second from the failure that ends a time without doubt, every retry
//     is allowed, and doubt has no bound. What this second adds must be taken
//     away again before doubt can fall below the limit. Timeouts, and failures
//     that took a second, end it early if they bring doubt to the limit. How long a
//     failure took is known if the Transport times attempts, for AttemptTimeout or
//     Observe.
//
// So retries go on for as long as about a third of the attempts are answered. A
// server that sheds half of its load without a Retry-After gets 1.7 attempts for
// each request, as with a Bucket. docs/quotas.md compares the two, and has where a
// Gate loses. Several strategies may share a Gate if they talk to the same server.
//
// All methods are safe for concurrent use and take no lock. An answer that finds
// no doubt reads one word and writes nothing.
type Gate struct {
	word atomic.Uint64 // a gateWord
}

// The rule is a sequential test (CUSUM) of whether the server works. Its constants
// follow from two demands. Where 30 % of the attempts fail by chance, no more than
// 5 % more requests may be lost than with unlimited retries. In an outage of 60 s, a
// thousand clients of 0.8 requests per second may send no more than 1.1 attempts for
// each. internal/outage measures both. Doubt is kept in quarters.
const (
	gateFailure = 4 // the unit
	// A hint shows that the server is there. With a quarter, 20 requests at once to
	// a server that takes 5 per second and tells the others to wait all get through;
	// with a whole, they do not. With 0, a server that tells everyone to wait for as
	// long as it is down would get all retries.
	gateHinted = 1
	// If an answer takes away 2 failures, doubt neither rises nor falls on average
	// where a third of the attempts are answered. A request adds no more than an
	// answer takes away, so that one which is saved leaves no doubt behind.
	gateAnswer  = 2 * gateFailure
	gateRequest = gateAnswer
	// Doubt that rises by 1 with probability p and falls by 2 otherwise reaches L
	// with probability of about tᴸ, where t = (√(1+4p/(1-p))-1)/2: 0.32 for p = 0.3.
	// That is 5 % of p³ at L = 6, of p⁴ at 7 and of p⁵ at 8. Of these, 2 are the
	// request's own: that leaves 4, 5 and 6 to others, the attempts and 1. It ends
	// at 6, because each more allows another retry of each client in an outage.
	gateLeastLimit = 4 * gateFailure
	gateMostLimit  = 6 * gateFailure
	// Four answers clear all doubt from 8. With less than the highest limit and
	// what one request adds, a request could be retried however long the server is
	// down: its own failures, which don't count against it, would be part of too few.
	gateMost = gateMostLimit + gateRequest
	// Our choice: a restart or a failover behind a load balancer takes part of a
	// second. The second costs slow clients next to nothing in an outage. With 3 s
	// they send 1.13 attempts for each request, not 1.09.
	gateGrace = 1000 // ms
)

// A gateWord is the state of a Gate in one word: from the lowest bit 20 bits of
// doubt, 20 bits of the most it may come to, the bit that the second is over, and
// 23 bits of the millisecond in which doubt arose. The latter wrap around after
// two hours, so that a client whose second failure comes just then may get another
// second. So may one whose clock is set.
type gateWord struct {
	doubt, most uint64
	late        bool
	since       uint64
}

const (
	gateDoubtBits = 20
	gateDoubtMask = 1<<gateDoubtBits - 1
	gateLateBit   = 1 << (2 * gateDoubtBits)
	gateSinceAt   = 2*gateDoubtBits + 1
	gateSinceMask = 1<<(64-gateSinceAt) - 1
)

func unpackGate(w uint64) gateWord {
	return gateWord{
		doubt: w & gateDoubtMask,
		most:  w >> gateDoubtBits & gateDoubtMask,
		late:  w&gateLateBit != 0,
		since: w >> gateSinceAt,
	}
}

func (g gateWord) pack() uint64 {
	w := g.doubt | g.most<<gateDoubtBits | g.since<<gateSinceAt
	if g.late {
		w |= gateLateBit
	}
	return w
}

// failed is the state after a failure at a time, of which adds counts. A slow one
// comes from a server that has too much to do, or from many requests that were
// under way when it went down: their number says nothing about the rate.
func (g gateWord) failed(now, adds, limit uint64, slow bool) gateWord {
	if g.doubt == 0 {
		if adds == 0 {
			return g
		}
		g = gateWord{most: gateMost, since: now}
	}
	g.late = g.late || (now-g.since)&gateSinceMask >= gateGrace ||
		slow && g.doubt+gateFailure >= limit || g.doubt+gateRequest > gateDoubtMask
	if !g.late {
		g.most = max(g.most, g.doubt+adds)
	}
	g.doubt = min(g.doubt+adds, g.most)
	return g
}

// refuses reports whether a request that added own itself gets no retry.
func (g gateWord) refuses(own, limit uint64) bool { return g.late && g.doubt >= limit+own }

// Answered takes doubt away.
func (g *Gate) Answered(Class, int) {
	for {
		w := g.word.Load()
		doubt := w & gateDoubtMask
		if doubt == 0 || g.word.CompareAndSwap(w, w-min(doubt, gateAnswer)) {
			return
		}
	}
}

// Failed adds doubt.
func (g *Gate) Failed(f Failure) {
	var (
		own   = gateOwn(f.Attempt-f.Hinted, f.Hinted)
		adds  = own - min(own, gateOwn(f.before()))
		limit = gateLimit(f.MaxAttempts)
		now   = uint64(f.Done.UnixMilli()) & gateSinceMask
		slow  = f.Timeout || !f.Sent.IsZero() && f.Done.Sub(f.Sent) >= gateGrace*time.Millisecond
	)
	for {
		old := g.word.Load()
		w := unpackGate(old).failed(now, adds, limit, slow).pack()
		if w == old || g.word.CompareAndSwap(old, w) {
			return
		}
	}
}

// Take reports whether a retry may follow a failure that Failed has heard of. It
// takes nothing and does not wait.
func (g *Gate) Take(_ context.Context, f Failure) bool {
	own := gateOwn(f.Attempt-f.Hinted, f.Hinted)
	return !unpackGate(g.word.Load()).refuses(own, gateLimit(f.MaxAttempts))
}

// Return does nothing: a retry takes nothing.
func (g *Gate) Return(int) {}

// Doubt returns the doubt, in failures: 0 while the server answers, 8 in an
// outage, and more where many requests failed in the first second.
func (g *Gate) Doubt() float64 {
	return float64(g.word.Load()&gateDoubtMask) / gateFailure
}

// Shut reports whether the Gate would refuse the retry of a request that may take
// that many attempts and fails now for the first time.
func (g *Gate) Shut(maxAttempts int) bool {
	return unpackGate(g.word.Load()).refuses(0, gateLimit(maxAttempts))
}

// Full reports whether there is no doubt.
func (g *Gate) Full() bool { return g.word.Load()&gateDoubtMask == 0 }

// String returns, for example, "gate with doubt 1.25".
func (g *Gate) String() string { return fmt.Sprintf("gate with doubt %v", g.Doubt()) }

// gateOwn is what a request has added by so many failures without and with a
// hint.
func gateOwn(plain, hinted int) uint64 {
	plain, hinted = min(max(plain, 0), gateRequest), min(max(hinted, 0), gateRequest)
	return uint64(min(gateFailure*plain+gateHinted*hinted, gateRequest))
}

// before is how many failures of the request had no hint, and how many had one,
// before this one.
func (f Failure) before() (plain, hinted int) {
	if f.Hint {
		return f.Attempt - f.Hinted, f.Hinted - 1
	}
	return f.Attempt - f.Hinted - 1, f.Hinted
}

func gateLimit(maxAttempts int) uint64 {
	attempts := min(max(maxAttempts, 0), gateMostLimit) // no overflow
	return uint64(min(max(gateFailure*(attempts+1), gateLeastLimit), gateMostLimit))
}
