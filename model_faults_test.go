package retrip

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// A modelFault is what happens to an attempt.
type modelFault struct {
	name   string
	early  bool          // it happens while the body is still being read,
	after  int           // namely after so many bytes, or a moment
	think  time.Duration // and this much later
	hang   bool          // or never
	dial   bool          // or before anything is sent
	err    error
	status int
	header string // "Name: value"
	hint   time.Duration
	class  Class
	proof  bool // that the request was not processed

	content []byte // of the answer
	endless bool
	stalls  bool
	breaks  bool

	both, neither bool // of a response and an error
	panics        bool // at once if early, otherwise once the body is read

	http2     bool // bodies are closed while they are read, and the base does not wait for that Read
	readsOn   bool // and if so, the base reads on in the body after it returned an error
	afterward int  // what the base does with the body after an early answer: 0 reads on, 1 stops, 2 closes it
	linger    time.Duration
	chunk     int
	pace      time.Duration
	ownError  bool          // what the base returns once its context has ended is an error of its own
	careless  bool          // the base does not notice that the attempt's time is over
	stale     time.Duration // the base then tries GetBody, unless 0
}

// newModelFault picks a fault.
func newModelFault(r *modelRequest, rng *rand.Rand) modelFault {
	coin := func() bool { return rng.IntN(2) == 0 }
	f := modelFault{
		after: rng.IntN(len(r.content) + 1), class: Transient,
		http2:     coin(),
		readsOn:   rng.IntN(4) == 0,
		afterward: rng.IntN(3),
		chunk:     1 + rng.IntN(5000),
		careless:  rng.IntN(4) == 0,
		ownError:  rng.IntN(4) == 0,
	}
	if coin() {
		f.think = modelTime(rng, time.Millisecond, 2*time.Second)
	}
	if coin() {
		f.linger = modelTime(rng, time.Millisecond, 5*time.Second)
	}
	if rng.IntN(3) == 0 {
		f.pace = modelTime(rng, 10*time.Microsecond, 10*time.Millisecond)
		f.chunk += len(r.content) / 10
	}
	if coin() {
		f.stale = modelTime(rng, time.Millisecond, 5*time.Second)
	}
	size := rng.IntN(3000)
	f.content = modelBytes[size : 2*size]
	if r.script.crowd && coin() {
		modelThrottle.set(&f, rng)
		return f
	}
	n := rng.IntN(modelFaultWeight)
	for _, row := range modelFaultRows {
		if n -= row.weight; n < 0 {
			row.set(&f, rng)
			break
		}
	}
	if f.hang && r.deadline == 0 && r.cancel == 0 && r.script.transport.AttemptTimeout == 0 {
		f.hang, f.name, f.status, f.proof = false, "early 425", 425, true // it would never end
	}
	return f
}

// A modelFaultRow is a kind of fault, and how often it is picked.
type modelFaultRow struct {
	weight int
	name   string
	when   modelMoment
	class  Class
	status int   // of the answer, or
	err    error // why there is none
	more   func(*modelFault, *rand.Rand)
}

// modelMoment says whether a fault happens while the body is still being read.
type modelMoment int

const (
	late modelMoment = iota
	early
	either
)

func (row *modelFaultRow) set(f *modelFault, rng *rand.Rand) {
	f.name, f.class, f.status, f.err = row.name, row.class, row.status, row.err
	f.early = row.when == early || row.when == either && rng.IntN(2) == 0
	if row.more != nil {
		row.more(f, rng)
	}
}

var modelThrottle = modelFaultRow{1, "429", either, Throttled, 429, nil, func(f *modelFault, rng *rand.Rand) {
	seconds := []int{0, 1, 3, 25, 45, 61}[rng.IntN(6)]
	f.proof, f.header, f.hint = true, "Retry-After: "+strconv.Itoa(seconds), time.Duration(seconds)*time.Second
}}

var modelFaultRows = []modelFaultRow{
	{8, "200", late, Success, 200, nil, nil},
	{2, "early 200", early, Success, 200, nil, nil},
	{6, "early 503", early, Transient, 503, nil, nil},
	{4, "503", late, Transient, 503, nil, nil},
	{2, "404", either, Permanent, 404, nil, nil},
	{1, "early 425", early, Transient, 425, nil, func(f *modelFault, _ *rand.Rand) { f.proof = true }},
	{2, modelThrottle.name, modelThrottle.when, modelThrottle.class, modelThrottle.status, nil, modelThrottle.more},
	{2, "absurd Retry-After", either, Transient, 503, nil, func(f *modelFault, rng *rand.Rand) {
		f.header = "Retry-After: " + []string{"-1", "1e400", "soon", "0x7", "", "Thu, 01 Jan 1970 00:00:00 GMT"}[rng.IntN(6)]
	}},
	{2, "Retry-After beyond all bounds", either, Transient, 503, nil, func(f *modelFault, rng *rand.Rand) {
		f.header = "Retry-After: " + []string{"9223372037", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"}[rng.IntN(3)]
		f.hint = time.Duration(1<<63 - 1)
	}},
	{2, "throttling code", either, Throttled, 400, nil, func(f *modelFault, _ *rand.Rand) {
		f.proof, f.header, f.content = true, "Content-Type: application/json", []byte(`{"__type":"ThrottlingException"}`)
	}},
	{1, "stalling code", either, Permanent, 400, nil, stallingCode},
	{1, "stalling code", either, Transient, 503, nil, stallingCode},
	{2, "stall", late, Success, 200, nil, func(f *modelFault, rng *rand.Rand) { f.think = modelTime(rng, time.Second, time.Minute) }},
	{2, "endless error", either, Transient, 503, nil, func(f *modelFault, rng *rand.Rand) {
		f.endless = true
		if rng.IntN(2) == 0 {
			f.header = "Content-Type: application/json"
		}
	}},
	{2, "stalled error", either, Transient, 503, nil, func(f *modelFault, _ *rand.Rand) { f.stalls = true }},
	{2, "broken error", either, Transient, 503, nil, func(f *modelFault, _ *rand.Rand) { f.breaks = true }},
	{2, "reset before the body is read", early, Transient, 0, errReset, func(f *modelFault, _ *rand.Rand) { f.after = 0 }},
	{2, "reset after the body is read", late, Transient, 0, errReset, nil},
	{2, "reset midway", early, Transient, 0, io.ErrUnexpectedEOF, nil},
	{2, "dial", early, Transient, 0, &net.OpError{Op: "dial", Net: "tcp", Err: errReset}, func(f *modelFault, _ *rand.Rand) {
		f.dial, f.proof = true, true
	}},
	{2, "refused stream", early, Transient, 0, http2StreamError{Code: refusedStream}, func(f *modelFault, _ *rand.Rand) { f.proof = true }},
	{2, "hang", early, Transient, 0, nil, func(f *modelFault, _ *rand.Rand) { f.hang = true }},
	{1, "both", either, Transient, 200, errReset, func(f *modelFault, _ *rand.Rand) { f.both = true }},
	{1, "neither", either, Permanent, 0, nil, func(f *modelFault, _ *rand.Rand) { f.neither = true }},
	{1, "panic", either, Unknown, 0, nil, func(f *modelFault, _ *rand.Rand) { f.panics = true }},
}

var modelFaultWeight = func() (sum int) {
	for _, row := range modelFaultRows {
		sum += row.weight
	}
	return sum
}()

func stallingCode(f *modelFault, _ *rand.Rand) {
	f.header, f.stalls, f.content = "Content-Type: application/json", true, []byte(`{"__type":"Thro`)
}
