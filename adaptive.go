package retrip

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// The numbers of the AWS SDKs' client rate limiter, the same in the SDKs for
// Go, Java, JavaScript, Python and Rust. Rates are attempts per second.
const (
	smoothing     = 0.8 // weight of the newest half second in the measured rate
	beta          = 0.7 // a throttle cuts the rate to this share
	cubicScale    = 0.4 // steepness of the way back up
	minRate       = 0.5
	minBurst      = 1.0
	maxOfMeasured = 2.0 // never allow more than twice what is in fact sent
	halfSeconds   = int64(time.Second / 2)
)

// Limiter is the adaptive mode's send-rate limiter: a token bucket whose rate
// follows the CUBIC curve of TCP congestion control, with the numbers of the AWS
// SDKs. It lets everything pass until the first throttling answer. From then on
// each throttle cuts the rate to 70 % of what was sent, each other answer raises
// it again, and attempts, first ones too, wait for their turn. The rate is at least
// 0.5 attempts per second, and at most the larger of that and twice what is sent.
//
// An attempt that has to wait joins a queue. Retries are served before first
// attempts, since they have waited already: in simulation that brings p99/p50
// of the waits from 3.6 to 2.6. Among each, the first to come is the first
// served. A place that is given up, or a permit that was not used, goes to the
// next in line.
//
// The limiter assumes that all attempts it sees compete for one resource, so
// give each host, and if need be each table or bucket, one of its own
// (Transport.Key). All methods are safe for concurrent use. The zero Limiter
// is ready, its clock starting at its first use.
type Limiter struct {
	perRequest bool // only a sign that each request wants one of its own

	begun   sync.Once
	start   time.Time   // the full second in which the limiter was made
	enabled atomic.Bool // since the first throttle, and from then on

	mu  sync.Mutex
	now time.Duration // the newest reading, since start; never goes back

	// The measured rate, taken at each half second that had attempts.
	attempts   int
	halfSecond int64
	measured   float64

	// Updates without the lock, before the first throttle.
	more    atomic.Int64 // attempts beyond those above
	pending atomic.Int64 // the time of the last
	settled atomic.Int64 // the half second after that of the last update under the lock, or 0

	// The token bucket. It fills from its second reading on.
	rate     float64
	burst    float64
	tokens   float64
	filled   time.Duration
	clocking bool

	// The cubic curve: where the last throttle happened.
	throttledAt   time.Duration
	throttledRate float64
	recovery      float64 // seconds from there until the rate is reached again

	// The attempts that wait. Only the head of the whole queue holds a timer,
	// unless Strategy.MaxLimiterWait bounds the wait.
	retries, firsts queue
}

// A queue is a list of places, the oldest first.
type queue struct {
	head, tail *place
	length     int
}

// A place is one attempt's position in a limiter's queue. Its wake channel
// gets a value when the place becomes the head of the queue, and while it is
// the head whenever the rate changes or a permit comes back.
type place struct {
	wake       chan struct{}
	expected   time.Duration // the wait, as it looked when the place was taken
	retry      bool
	prev, next *place
}

// LimiterState is a limiter's inner state at its last update, for display and
// for tests. Rates are attempts per second.
type LimiterState struct {
	Enabled  bool    // false until the first throttle
	Measured float64 // what was sent of late, measured each half second
	Rate     float64 // what may be sent
	Burst    float64 // the most attempts that can be saved up
	Tokens   float64 // attempts that may go at once, from 0 to Burst
	Waiting  int     // attempts in the queue
}

// NewLimiter returns a limiter whose clock starts now.
func NewLimiter() *Limiter { return newLimiter(time.Now()) }

func newLimiter(now time.Time) *Limiter {
	l := new(Limiter)
	l.begun.Do(func() { l.begin(now) })
	return l
}

// NewRequestLimiter returns a limiter that stands for one of its own for each
// request, made when a first attempt fails: it delays retries, never a first
// attempt, and remembers nothing from one request to the next. The AWS SDK for
// Java's adaptive mode was like that before 2.26.
func NewRequestLimiter() *Limiter { return &Limiter{perRequest: true} }

// fresh returns a limiter of the same kind without its state.
func (l *Limiter) fresh() *Limiter {
	if l.perRequest {
		return NewRequestLimiter()
	}
	return NewLimiter()
}

// State returns the limiter's state as of its last update.
func (l *Limiter) State() LimiterState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return LimiterState{
		Enabled: l.enabled.Load(), Measured: l.measured, Rate: l.rate,
		Burst: l.burst, Tokens: l.tokens, Waiting: l.retries.length + l.firsts.length,
	}
}

// throttleMemory is how long a limiter is kept for a throttle. Our choice: the
// curve is then ten million attempts per second above where the throttle was.
const throttleMemory = 5 * time.Minute

// asNew reports whether forgetting the limiter would lose nothing but a throttle
// of long ago and the measured rate, which two seconds of traffic restore.
func (l *Limiter) asNew() bool {
	if !l.enabled.Load() {
		return true // no attempt waits
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head() == nil && now-l.throttledAt >= throttleMemory
}

// begin sets the clock's zero to the full second of now: the published
// algorithm counts half seconds from there.
func (l *Limiter) begin(now time.Time) {
	l.start = now.Add(-time.Duration(now.Nanosecond()))
	l.now = now.Sub(l.start)
	l.throttledAt = l.now
}

func (l *Limiter) beginNow() { l.begin(time.Now()) }

// clock is the time since start, which the methods below take for now. It
// costs half of what time.Now does, because it leaves out the date.
func (l *Limiter) clock() time.Duration {
	l.begun.Do(l.beginNow)
	return time.Since(l.start)
}

// admit asks for a permit to send one attempt. It gives one at once (paid
// telling whether a token was taken for it), or else a place in the queue.
// There is no need to ask a limiter that is not enabled.
func (l *Limiter) admit(now time.Duration, retry bool) (paid bool, p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.enabled.Load() {
		return false, nil
	}
	l.refill(l.tick(now))
	if l.head() == nil && l.take() {
		return true, nil
	}
	p = &place{wake: make(chan struct{}, 1), expected: l.queued(retry), retry: retry}
	l.queueOf(p).push(p)
	return false, p
}

// turn asks again for the holder of p. It reports that the permit is granted
// and p left the queue, or how long to wait before asking once more: a
// negative wait means until woken.
func (l *Limiter) turn(p *place, now time.Duration) (granted bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head() != p {
		return false, -1
	}
	l.refill(l.tick(now))
	if l.take() {
		l.remove(p)
		return true, 0
	}
	return false, fillTime(1-l.tokens, l.rate)
}

// leave gives up a place in the queue.
func (l *Limiter) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(p)
}

// giveBack returns the token of a permit that was not used.
func (l *Limiter) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = min(l.tokens+1, l.burst)
	l.wakeHead()
}

// queueTime estimates how long a retry would wait for its permit.
func (l *Limiter) queueTime(now time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.enabled.Load() {
		return 0
	}
	l.refill(l.tick(now))
	return l.queued(true)
}

func (l *Limiter) queued(retry bool) time.Duration {
	ahead := l.retries.length
	if !retry {
		ahead += l.firsts.length
	}
	return fillTime(float64(ahead)+1-l.tokens, l.rate)
}

// update is told how each attempt ended: with a throttling answer or not.
//
// Before the first throttle, no attempt waits for the rate. So one update in each
// half second computes it, and the others are only counted, to be added later.
func (l *Limiter) update(now time.Duration, throttled bool) {
	if !throttled && !l.enabled.Load() && l.settled.Load() == int64(now)/halfSeconds+1 {
		l.more.Add(1)
		l.pending.Store(int64(now))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	t := l.tick(now)
	l.measure(t)
	if !l.enabled.Load() {
		l.settled.Store(int64(t)/halfSeconds + 1)
	}
	if !throttled {
		l.adjust(t, l.curve(t))
		return
	}
	used := l.measured
	if l.enabled.Load() {
		used = min(used, l.rate)
	}
	l.throttledFrom(used, t)
	l.enabled.Store(true)
	l.adjust(t, beta*used)
}

// settle makes up for updates that did not take the lock.
func (l *Limiter) settle() {
	if pending := time.Duration(l.pending.Load()); pending > l.now {
		t := l.tick(pending)
		l.adjust(t, l.curve(t))
	}
}

// adjust sets the rate to the target, but never above twice what is sent.
func (l *Limiter) adjust(t time.Duration, target float64) {
	target = min(target, maxOfMeasured*l.measured)
	l.refill(t)
	l.rate = max(target, minRate)
	l.burst = max(target, minBurst)
	l.tokens = min(l.tokens, l.burst)
	l.wakeHead()
}

// count is told of an attempt that its caller cancelled: it was sent, and says
// nothing about the server.
func (l *Limiter) count(now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.measure(l.tick(now))
}

// tick takes a reading. A clock that goes back stands still instead, so that no
// rate ever becomes negative.
func (l *Limiter) tick(now time.Duration) time.Duration {
	l.now = max(l.now, now)
	return l.now
}

// measure counts one attempt, and once per half second folds the count into
// the measured rate: 0.8·(attempts per second since the last time) + 0.2·old.
func (l *Limiter) measure(t time.Duration) {
	l.attempts++
	if h := int64(t) / halfSeconds; h > l.halfSecond {
		current := float64(l.attempts+int(l.more.Swap(0))) / (float64(h-l.halfSecond) / 2)
		l.measured = smoothing*current + (1-smoothing)*l.measured
		l.attempts, l.halfSecond = 0, h
	}
}

// curve is the rate allowed t after the last throttle:
//
//	0.4·(t − t0 − w)³ + r0,  w = ∛(r0·(1 − 0.7)/0.4)
//
// with r0 the rate at which the last throttle came, at time t0. It starts at
// 0.7·r0, is flat around r0, which it reaches after w seconds, and then probes
// for more, faster and faster.
func (l *Limiter) curve(t time.Duration) float64 {
	since := (t - l.throttledAt).Seconds() - l.recovery
	return cubicScale*since*since*since + l.throttledRate
}

// throttledFrom begins the curve anew after a throttle.
func (l *Limiter) throttledFrom(rate float64, t time.Duration) {
	l.throttledRate, l.throttledAt = rate, t
	l.recovery = math.Cbrt(rate * (1 - beta) / cubicScale)
}

// refill adds what the bucket gained since it was last filled.
func (l *Limiter) refill(t time.Duration) {
	if l.clocking {
		l.tokens = min(l.burst, l.tokens+(t-l.filled).Seconds()*l.rate)
	}
	l.filled, l.clocking = t, true
}

// take takes one token. A shortfall that takes less than a nanosecond to fill
// counts as filled: no timer could wait for it, so the asker would spin.
func (l *Limiter) take() bool {
	if fillTime(1-l.tokens, l.rate) > 0 {
		return false
	}
	l.tokens = max(0, l.tokens-1)
	return true
}

func (l *Limiter) remove(p *place) {
	wasHead := l.head() == p
	l.queueOf(p).remove(p)
	if wasHead {
		l.wakeHead()
	}
}

func (l *Limiter) wakeHead() {
	head := l.head()
	if head == nil {
		return
	}
	select {
	case head.wake <- struct{}{}:
	default: // a wake-up it has not seen yet will do
	}
}

// head is the place that is served next.
func (l *Limiter) head() *place {
	if l.retries.head != nil {
		return l.retries.head
	}
	return l.firsts.head
}

func (l *Limiter) queueOf(p *place) *queue {
	if p.retry {
		return &l.retries
	}
	return &l.firsts
}

func (q *queue) push(p *place) {
	if q.tail == nil {
		q.head = p
	} else {
		p.prev, q.tail.next = q.tail, p
	}
	q.tail = p
	q.length++
}

func (q *queue) remove(p *place) {
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
	q.length--
}

// fillTime is how long a bucket takes to gain n tokens at the given rate.
func fillTime(n, rate float64) time.Duration {
	if n <= 0 {
		return 0
	}
	ns := n / rate * float64(time.Second)
	if !(ns < math.MaxInt64) { // also when the rate is still zero
		return math.MaxInt64
	}
	return time.Duration(ns)
}
