package retrip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip/internal/replay"
)

// A modelScript is a Transport, its base and the requests it gets.
type modelScript struct {
	seed       uint64
	mode       Mode
	transport  *Transport // what the requests are made of
	ledger     *modelLedger
	strategies []*Strategy // one, or those of the keys, and that of the inner Transport
	max        int         // attempts, unless the request says otherwise
	small      bool        // the bucket may run dry
	crowd      bool        // all requests start almost at once, and the server throttles
	observed   bool        // by Observe, not by a Trace
	prepare    modelPrepare
	stack      *modelStack // nil: one Transport
	requests   []*modelRequest
	tally      modelTally

	mu     sync.Mutex
	wrongs []string
}

func (s *modelScript) String() string {
	t := s.transport
	return fmt.Sprintf("%v, %d keys, crowd %v, prepare %v, attempt timeout %v, replay buffer %d, stack %v",
		s.mode, t.MaxKeys, s.crowd, s.prepare, t.AttemptTimeout, t.ReplayBuffer, s.stack)
}

func (s *modelScript) wrong(r *modelRequest, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrongs) < 3 {
		s.wrongs = append(s.wrongs, fmt.Sprintf(format, args...)+" "+r.String())
	}
}

func newModelScript(seed uint64, file string) *modelScript {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &modelScript{seed: seed, mode: Mode(rng.IntN(len(modes))), small: rng.IntN(4) == 0, max: min(1+rng.IntN(6), 5)}
	if s.crowd = rng.IntN(6) == 0; s.crowd {
		s.mode, s.small = ModeAdaptive, false
	}
	s.ledger = newModelLedger(s.small, rng)
	if s.mode == ModeGated {
		s.ledger.gate = &modelGate{script: s}
	}
	newStrategy := s.strategyMaker(rng)
	t := &Transport{Base: s, ReplayBuffer: []int64{1, 100, 1 << 10, 5000, 9000}[rng.IntN(5)]}
	if s.crowd || rng.IntN(2) == 0 {
		t.Strategy = newStrategy("")
	} else {
		t.PerKey, t.MaxKeys = newStrategy, 1+rng.IntN(4)
	}
	if rng.IntN(2) == 0 {
		t.AttemptTimeout = modelTime(rng, 10*time.Millisecond, 10*time.Second)
	}
	if rng.IntN(2) == 0 {
		s.prepare = 1 + modelPrepare(rng.IntN(int(modelPrepares)-1))
		t.Prepare = s.prepareRequest
	}
	if s.observed = rng.IntN(2) == 0; s.observed {
		t.Observe = func(e Event) { r := modelRequestOf(e.Request); r.observe(&r.events, e) }
	}
	if !s.crowd && rng.IntN(4) == 0 {
		s.stack = newModelStack(s, rng)
		t.Base = s.stack
	}
	s.transport = t
	requests := 5 + rng.IntN(40)
	if s.crowd {
		requests += 30
	}
	for id := range requests {
		s.requests = append(s.requests, newModelRequest(s, id, rng, file))
	}
	return s
}

// strategyMaker returns what makes the strategies of a script, all alike.
func (s *modelScript) strategyMaker(rng *rand.Rand) func(string) *Strategy {
	noBackoff := rng.IntN(3) == 0
	maxAdmit := time.Duration(rng.IntN(2)) * modelTime(rng, time.Second, time.Minute)
	jitter := rand.New(rand.NewPCG(s.seed, 2))
	return func(string) *Strategy {
		p := s.mode.Strategy()
		p.MaxAttempts, p.Quota, p.MaxLimiterWait = s.max, s.ledger, maxAdmit
		p.Rand = func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return jitter.Float64()
		}
		if noBackoff {
			p.Backoff, p.ThrottleBackoff = Constant{}, nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.strategies = append(s.strategies, p)
		return p
	}
}

// modelTime is a random duration between two, all magnitudes alike, and not a
// round number, so that few things happen at the very same instant.
func modelTime(rng *rand.Rand, from, to time.Duration) time.Duration {
	for limit := 2 * from; ; limit *= 2 {
		if limit >= to || rng.IntN(4) == 0 {
			return from + time.Duration(rng.Int64N(int64(min(limit, to)-from)))
		}
	}
}

// A modelLedger is a bucket that counts what is taken and given; or a gate, of
// which it counts the failures and answers.
type modelLedger struct {
	*Bucket
	gate                  *modelGate // or nil
	taken, given, refused atomic.Int64
}

const modelTokens = 1 << 19

// newModelLedger returns a bucket that may run dry, or one that is never empty
// and never full.
func newModelLedger(small bool, rng *rand.Rand) *modelLedger {
	if small {
		return &modelLedger{Bucket: NewBucket(rng.IntN(60))}
	}
	l := &modelLedger{Bucket: NewBucket(2 * modelTokens)}
	l.Bucket.take(modelTokens)
	return l
}

func (l *modelLedger) Failed(f Failure) {
	if l.gate != nil {
		l.taken.Add(1)
		l.gate.Failed(f)
	}
}

func (l *modelLedger) Take(ctx context.Context, f Failure) bool {
	if l.gate != nil {
		return l.gate.Take(ctx, f)
	}
	if !l.Bucket.Take(ctx, f) {
		l.refused.Add(1)
		return false
	}
	l.taken.Add(int64(f.Cost))
	return true
}

func (l *modelLedger) Answered(class Class, cost int) {
	if l.gate != nil {
		l.given.Add(1)
		l.gate.Answered(class, cost)
		return
	}
	if class == Success {
		l.given.Add(int64(max(cost, 1)))
	}
	l.Bucket.Answered(class, cost)
}

func (l *modelLedger) Return(cost int) {
	if l.gate != nil {
		return
	}
	l.given.Add(int64(cost))
	l.Bucket.Return(cost)
}

// modelBody says what kind of a request body it is.
type modelBody int

const (
	bodyNone modelBody = iota
	bodyGetBody
	bodyGetBodyFails // midway, as a connection does
	bodyFile
	bodySmall
	bodyExact   // as long as the ReplayBuffer
	bodyOver    // longer than that
	bodySlow    // a Read takes a while, but less than replay.Grace
	bodySlower  // or longer
	bodyDuplex  // a pipe whose second half is written once the answer is there
	bodyFails   // midway
	bodyBlocked // midway, until it is closed
	bodyDeaf    // midway, for minutes, closed or not
	modelBodies
)

var modelBodyNames = [...]string{"none", "GetBody", "GetBody fails", "file", "small", "exact", "over", "slow", "slower", "duplex", "fails", "blocked", "deaf"}

func (k modelBody) String() string { return modelBodyNames[k] }

// A modelStep is where in a call the caller's context can be made to end.
type modelStep int

const (
	stepNone     modelStep = iota
	stepBefore             // before RoundTrip is called
	stepGetBody            // in the caller's GetBody
	stepPrepare            // in Prepare
	stepSend               // when the base is called
	stepRead               // in a Read of the caller's body
	stepReturn             // when the base returns
	stepAnswer             // in a Read of the answer: a peek, a discard or the caller's own
	stepObserved           // when the attempt is observed, just before the wait
	modelSteps
)

var modelStepNames = [...]string{"none", "before", "GetBody", "Prepare", "send", "Read", "return", "answer", "observed"}

func (s modelStep) String() string { return modelStepNames[s] }

// A modelRequest is a request, what will happen to it, and what did.
type modelRequest struct {
	script   *modelScript
	id       int
	method   string
	url      string
	keyed    bool
	declared bool
	max      int // attempts
	kind     modelBody
	content  []byte
	other    []byte // what Prepare may put in its place
	known    bool   // Content-Length is set
	file     string
	touched  time.Duration // when the file changes, or 0
	stop     int           // where the source stops
	chunk    int
	pace     time.Duration
	start    time.Duration
	deadline time.Duration // 0: none
	cancel   time.Duration // 0: never
	endAt    modelStep     // where ctx ends,
	endAfter int           // after so many times there,
	endBy    modelEnding   // and how
	ownMax   bool
	impolite bool          // the caller closes the response unread,
	dawdle   time.Duration // or reads it this much later
	faults   []modelFault

	ctx         context.Context
	end         func()
	attempts    atomic.Int32
	back        chan struct{} // closed when RoundTrip has returned
	began       time.Time
	returned    time.Time
	ended       bool // ctx had ended by then
	resp        *http.Response
	err         error
	panicked    any // what RoundTrip panicked with
	prepared    []time.Time
	refusedBy   error // what Prepare returned
	events      []Event
	inner       []Event // of the inner Transport
	refused     bool    // the last fetch for a token
	gateRefused bool    // the last retry, by the plain gate

	mu         sync.Mutex
	steps      [modelSteps]int // how often each was reached
	endedAt    time.Time       // when a step ended ctx
	deliveries []*modelDelivery
	sources    []*modelSource
	osFile     *os.File
}

type modelRequestKey struct{}

func modelRequestOf(req *http.Request) *modelRequest {
	return req.Context().Value(modelRequestKey{}).(*modelRequest)
}

func newModelRequest(s *modelScript, id int, rng *rand.Rand, file string) *modelRequest {
	r := &modelRequest{
		script: s, id: id, file: file, back: make(chan struct{}),
		method:   []string{"GET", "PUT", "PUT", "DELETE", "POST", "POST", "PATCH"}[rng.IntN(7)],
		url:      fmt.Sprintf("http://host%d.test/path", rng.IntN(6)),
		keyed:    rng.IntN(6) == 0,
		declared: rng.IntN(6) == 0,
		kind:     modelBody(rng.IntN(int(modelBodies))),
		known:    rng.IntN(2) == 0,
		chunk:    1 + rng.IntN(2000),
		start:    modelTime(rng, time.Millisecond, 20*time.Second),
		impolite: rng.IntN(4) == 0,
	}
	if s.crowd {
		r.start = modelTime(rng, time.Millisecond, time.Second)
	}
	r.chooseContent(int(s.transport.ReplayBuffer), rng)
	if r.max = s.max; rng.IntN(4) == 0 {
		r.ownMax, r.max = true, 2+rng.IntN(4)
	}
	if rng.IntN(4) == 0 {
		r.dawdle = modelTime(rng, time.Millisecond, 20*time.Second)
	}
	r.chooseEnd(rng)
	for range 5 {
		r.faults = append(r.faults, newModelFault(r, rng))
	}
	return r
}

// chooseContent chooses what the body is, by its kind.
func (r *modelRequest) chooseContent(buffer int, rng *rand.Rand) {
	size := rng.IntN(3 * buffer)
	switch r.kind {
	case bodyNone:
		size = 0
	case bodySmall:
		size = rng.IntN(buffer + 1)
	case bodyExact:
		size = buffer
	case bodyOver:
		size = buffer + 1 + rng.IntN(2*buffer)
	case bodyGetBodyFails, bodyFails, bodyBlocked, bodyDeaf, bodyDuplex:
		size++
		r.stop = rng.IntN(size)
	case bodySlow:
		size = rng.IntN(min(buffer, 1000) + 1)
		r.chunk = 1 + size/20
		r.pace = time.Millisecond + time.Duration(rng.Int64N(int64(replay.Grace-2*time.Millisecond)))
	case bodySlower:
		size = rng.IntN(min(buffer, 1000) + 1)
		r.chunk = 1 + size/4
		r.pace = modelTime(rng, replay.Grace, time.Second)
	}
	from := rng.IntN(len(modelBytes) - size)
	r.content = modelBytes[from : from+size]
	if r.kind == bodyFile {
		r.content = modelBytes[rng.IntN(modelFileSize+1):modelFileSize]
		if rng.IntN(3) == 0 {
			r.touched = modelTime(rng, time.Millisecond, 5*time.Second)
		}
	}
	from = rng.IntN(len(modelBytes) / 2)
	r.other = modelBytes[from : from+1+rng.IntN(5000)]
}

// chooseEnd chooses when the caller's context ends, if it does.
func (r *modelRequest) chooseEnd(rng *rand.Rand) {
	if rng.IntN(4) == 0 || r.script.crowd && rng.IntN(2) == 0 {
		r.deadline = modelTime(rng, time.Millisecond, 20*time.Second)
	}
	// A request that waits for a source that gives nothing must have an end.
	stuck := r.kind == bodyBlocked || r.kind == bodyDeaf
	if rng.IntN(8) == 0 || r.deadline == 0 && stuck {
		r.cancel = modelTime(rng, time.Millisecond, 20*time.Second)
	}
	if rng.IntN(5) > 0 {
		return
	}
	r.endAt, r.endAfter = 1+modelStep(rng.IntN(int(modelSteps)-1)), rng.IntN(3)
	if r.endAt == stepBefore || r.endAt == stepGetBody {
		r.endAfter = 0
	}
	r.endBy = modelEnding(rng.IntN(int(modelEndings)))
	if r.endBy == endDeadline {
		if stuck {
			r.endBy = endCancel
		} else {
			r.deadline, r.cancel = 0, 0 // see modelContext
		}
	}
}

func (r *modelRequest) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n\trequest %d: %s %s, body %v (%d bytes), key %v, declared %v, max %d, deadline %v, cancel %v, end at %v by %v, touched %v, took %v: %v, %v, panic %v",
		r.id, r.method, r.url, r.kind, len(r.content), r.keyed, r.declared, r.max, r.deadline, r.cancel, r.endAt, r.endBy, r.touched,
		r.returned.Sub(r.began), r.resp != nil, r.err, r.panicked)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.deliveries {
		fmt.Fprintf(&b, "\n\t\tdelivery %v", d)
	}
	for i, e := range append(r.events[:len(r.events):len(r.events)], r.inner...) {
		name := "event"
		if i >= len(r.events) {
			name = "inner event"
		}
		fmt.Fprintf(&b, "\n\t\t%s %d: %v %d %v, reason %v, final %v, wait %v from %s, sent %v",
			name, e.Attempt, e.Class, e.Status, e.Err, e.Reason, e.Final, e.Wait, e.WaitFrom, !e.Sent.IsZero())
	}
	return b.String()
}

func (r *modelRequest) wrong(format string, args ...any) { r.script.wrong(r, format, args...) }

// safe reports whether r may be delivered twice whatever happened to it.
func (r *modelRequest) safe() bool {
	return r.keyed || r.declared || r.method == "GET" || r.method == "PUT" || r.method == "DELETE"
}

// reopens reports whether the request has a GetBody.
func (r *modelRequest) reopens() bool { return r.kind == bodyGetBody || r.kind == bodyGetBodyFails }

// wrapped reports whether the base gets another body than the caller's own.
func (r *modelRequest) wrapped() bool {
	return (r.max > 1 || r.script.prepare != prepareNothing) && r.kind != bodyNone && !r.reopens()
}

// observe notes an event.
func (r *modelRequest) observe(events *[]Event, e Event) {
	*events = append(*events, e)
	r.at(stepObserved)
}

// at ends ctx if it is to end at this step.
func (r *modelRequest) at(step modelStep) {
	r.mu.Lock()
	r.steps[step]++
	now := step == r.endAt && r.steps[step] == r.endAfter+1
	if now {
		r.endedAt = time.Now()
	}
	r.mu.Unlock()
	if now {
		r.end()
	}
}

// A modelEnding is how the caller's context ends at a step.
type modelEnding int

const (
	endCancel modelEnding = iota
	endCause
	endDeadline // without a deadline that could be asked for
	modelEndings
)

func (e modelEnding) String() string { return [...]string{"cancel", "cause", "deadline"}[e] }

var errModelCause = errors.New("the caller's cause")

// A modelContext is a context of a type that package context does not know,
// which ends when its owner says so. Its parent never ends.
type modelContext struct {
	context.Context
	done chan struct{}
	err  atomic.Pointer[error]
}

func (c *modelContext) Done() <-chan struct{} { return c.done }

func (c *modelContext) Err() error {
	select {
	case <-c.done:
		return *c.err.Load()
	default:
		return nil
	}
}

func (c *modelContext) finish(err error) {
	if c.err.CompareAndSwap(nil, &err) {
		close(c.done)
	}
}

// newContext makes the request's context, and what ends it for good.
func (r *modelRequest) newContext() (context.Context, context.CancelFunc) {
	base := context.WithValue(context.Background(), modelRequestKey{}, r)
	if r.endAt != stepNone && r.endBy == endDeadline {
		ctx := &modelContext{Context: base, done: make(chan struct{})}
		r.end = func() { ctx.finish(context.DeadlineExceeded) }
		return ctx, func() { ctx.finish(context.Canceled) }
	}
	ctx, cancel := context.WithCancelCause(base)
	r.end = func() { cancel(nil) }
	if r.endBy == endCause {
		r.end = func() { cancel(errModelCause) }
	}
	finish := func() { cancel(nil) }
	if r.deadline > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, r.deadline)
		finish = func() { stop(); cancel(nil) }
	}
	if r.cancel > 0 {
		timer := time.AfterFunc(r.cancel, func() { cancel(nil) })
		before := finish
		finish = func() { timer.Stop(); before() }
	}
	return ctx, finish
}
