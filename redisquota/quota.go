package redisquota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip"
)

// A Quota is the retry quota of one dependency. It is a retrip.Quota: a gate of this
// process, and the fleet's verdict beside it. Get one from Fleet.Quota. All methods
// are safe for concurrent use.
type Quota struct {
	gate     retrip.Gate
	fleet    *Fleet
	key      string
	redisKey string

	listed  atomic.Bool             // there is something to report
	since   atomic.Int64            // when that began, of Fleet.clock
	failed  atomic.Int64            // attempts
	adds    atomic.Int64            // to doubt, in quarters
	timeout atomic.Bool             // one of them had one
	verdict atomic.Pointer[verdict] // the last, or nil
	asking  atomic.Pointer[chan struct{}]
	counts  quotaCounts

	_       [64]byte // answers are on a cache line of their own
	answers atomic.Int64
	_       [64]byte
}

// Answers are counted one by one up to exactAnswers in a report. Of further ones, one
// in so many is picked by chance and counts for all, so that processors seldom wait for
// each other's memory. Our choice: the standard error of 350 answers is 13 %, that of
// 10 000 is 3 %.
const (
	exactAnswers = 64
	sampled      = 8
)

var (
	_ retrip.RestingQuota  = (*Quota)(nil)
	_ retrip.DoubtingQuota = (*Quota)(nil)
)

// A verdict is what Redis said of a dependency.
type verdict struct {
	at    time.Time
	doubt int64 // in quarters of a failure
	limit int64
	late  time.Time // when the first second is over
}

// refuses reports whether a request that added own itself gets no retry.
func (v *verdict) refuses(own int64, now time.Time) bool {
	return v.doubt-own >= v.limit && !now.Before(v.late)
}

// The rule of retrip.Gate: a failure counts 4 quarters, one with an obeyed hint 1, and
// those of a request no more than 8. One with a timeout may end the first second early.
const (
	plainQuarters   = 4
	hintQuarters    = 1
	requestQuarters = 8
	// mostQuarters is what one report adds at most: the most that a gate's doubt comes
	// to once its first second is over. A process that fails alone, however often it
	// sends, then adds less than a hundred healthy ones take away.
	mostQuarters = 32
)

func counted(plain, hinted int) int64 {
	plain, hinted = min(max(plain, 0), requestQuarters), min(max(hinted, 0), requestQuarters) // no overflow
	return int64(min(plainQuarters*plain+hintQuarters*hinted, requestQuarters))
}

// own is what the request has added with this failure, and added by it alone.
func own(f retrip.Failure) (own, added int64) {
	plain, hinted := f.Attempt-f.Hinted, f.Hinted
	own = counted(plain, hinted)
	if f.Hint {
		return own, own - min(own, counted(plain, hinted-1))
	}
	return own, own - min(own, counted(plain-1, hinted))
}

// Answered counts an answer. It does not talk to Redis.
func (q *Quota) Answered(class retrip.Class, cost int) {
	q.gate.Answered(class, cost)
	switch {
	case q.answers.Load() < exactAnswers:
		q.answers.Add(1)
	case rand.Uint32()%sampled == 0:
		q.answers.Add(sampled)
	}
	q.news()
}

// Failed counts a failure, unless this process's gate is shut: one that fails alone
// must not stop the others. If the fleet's verdict is old, it asks for a new one
// without waiting.
func (q *Quota) Failed(f retrip.Failure) {
	shut := q.gate.Shut(f.MaxAttempts)
	q.gate.Failed(f)
	if shut {
		return
	}
	_, added := own(f)
	q.adds.Add(added)
	if f.Timeout {
		q.timeout.Store(true)
	}
	q.failed.Add(1)
	q.news()
	if now := time.Now(); !q.recent(q.verdict.Load(), now) && !q.fleet.blind(now) {
		q.ask()
	}
}

// Take reports whether a retry may follow: if the process's own gate allows it and the
// fleet does not forbid it. Where the fleet's verdict is old, it waits up to 20 ms for
// the new one, and then lets the gate decide alone.
func (q *Quota) Take(ctx context.Context, f retrip.Failure) bool {
	if !q.gate.Take(ctx, f) {
		return false
	}
	now := time.Now()
	v := q.verdict.Load()
	if !q.recent(v, now) {
		v = q.await(ctx, now)
	}
	if mine, _ := own(f); v != nil && v.refuses(mine, time.Now()) {
		q.counts.refused.Add(1)
		q.fleet.counts.refused.Add(1)
		return false
	}
	return true
}

// Return does nothing: a retry takes nothing.
func (q *Quota) Return(int) {}

// Full reports whether there is no doubt, neither here nor, as far as is known, in the
// fleet.
func (q *Quota) Full() bool {
	v := q.verdict.Load()
	return q.gate.Full() && (!q.valid(v, time.Now()) || v.doubt == 0)
}

// Doubt returns this process's doubt; see retrip.Gate.
func (q *Quota) Doubt() float64 { return q.gate.Doubt() }

// Shut reports whether a first failure of a request that may take so many attempts
// would get no retry, by this process's gate or by the fleet's last verdict.
func (q *Quota) Shut(maxAttempts int) bool {
	v, now := q.verdict.Load(), time.Now()
	return q.gate.Shut(maxAttempts) || q.valid(v, now) && v.refuses(0, now)
}

// String returns, for example, "fleet quota with doubt 1.25".
func (q *Quota) String() string { return fmt.Sprintf("fleet quota with doubt %v", q.Doubt()) }

// recent reports whether a verdict decides without asking, valid whether it decides
// where Redis does not answer. Without a bound, a fleet that was shut when Redis went
// down would stay shut.
func (q *Quota) recent(v *verdict, now time.Time) bool {
	return v != nil && now.Sub(v.at) <= q.fleet.interval
}

func (q *Quota) valid(v *verdict, now time.Time) bool {
	return v != nil && now.Sub(v.at) <= 2*q.fleet.interval+blindTime
}

// news tells the reporter that there is something to report.
func (q *Quota) news() {
	if !q.listed.Load() && q.listed.CompareAndSwap(false, true) {
		q.since.Store(q.fleet.clock(time.Now()))
		q.fleet.list(q)
	}
}

// ask has the verdict fetched, once at a time.
func (q *Quota) ask() {
	done := make(chan struct{})
	if q.asking.CompareAndSwap(nil, &done) {
		q.fleet.ask(q, done)
	}
}

// await waits for the verdict that is being asked for. Nil means that the process's
// own gate decides.
func (q *Quota) await(ctx context.Context, now time.Time) *verdict {
	if asking := q.asking.Load(); asking != nil && !q.fleet.blind(now) {
		enough := time.NewTimer(mostWait)
		defer enough.Stop()
		select {
		case <-*asking:
		case <-ctx.Done():
		case <-enough.C:
			q.fleet.goBlind()
			q.fleet.counts.blind.Add(1)
		}
	}
	if v := q.verdict.Load(); q.valid(v, time.Now()) {
		return v
	}
	return nil
}

// report sends what was counted, and takes the verdict. What can't be sent is lost: it
// is evidence of a moment, not a debt.
func (q *Quota) report(ctx context.Context) {
	now := q.fleet.clock(time.Now())
	v, err := q.fleet.eval(ctx, q.redisKey, evidence{
		answers: q.answers.Swap(0), failures: q.failed.Swap(0), adds: min(q.adds.Swap(0), mostQuarters), timeout: q.timeout.Swap(false),
		covers: now - q.since.Swap(now),
	})
	q.counts.reports.Add(1)
	if err != nil {
		if q.fleet.ctx.Err() == nil {
			q.fleet.goBlind()
			q.fleet.counts.fail(err, time.Now())
		}
		return
	}
	q.verdict.Store(&v)
}

// evidence is what a process saw since its last report.
type evidence struct {
	answers, failures int64
	adds              int64 // of the failures to doubt, in quarters
	timeout           bool  // one of them had one
	covers            int64 // the milliseconds since the first
}

func (e evidence) args() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	timedOut := "0"
	if e.timeout {
		timedOut = "1"
	}
	return []string{number(e.answers), number(e.failures), number(e.adds), timedOut, number(max(e.covers, 1))}
}

// eval runs the script.
func (f *Fleet) eval(ctx context.Context, key string, e evidence) (verdict, error) {
	begun := time.Now()
	reply, err := f.client.Eval(ctx, Script, key, e.args()...)
	now := time.Now()
	f.counts.latency(now.Sub(begun))
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script returned %d numbers, not 3: is another script in its place?", len(reply))
	}
	if err != nil {
		return verdict{}, explain(err)
	}
	left := time.Duration(reply[2]) * time.Millisecond
	return verdict{at: now, doubt: reply[0], limit: reply[1], late: now.Add(left)}, nil
}
