package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip/internal/testkit"
)

// FuzzTransport makes a Transport, its strategies, its base and up to three
// requests out of bytes, with fields in and out of range, and checks the
// RoundTripper contract and that Validate and RoundTrip agree.
//
//	go test -run '^$' -fuzz FuzzTransport -fuzztime 5m -parallel 2
func FuzzTransport(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		seed := make([]byte, 40+rng.IntN(200))
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		synctest.Test(t, func(t *testing.T) {
			z := &fuzzer{t: t, in: input}
			z.play()
		})
	})
}

// fuzzSeeds are inputs by hand. 15 makes mostly pick an odd value, by the next
// byte; the picks are in the order of newTransport, newStrategy and newRequest.
var fuzzSeeds = []string{
	"", // the first choice everywhere, which is valid
	strings.Repeat("\x01", 100),
	strings.Repeat("\x02", 100),
	strings.Repeat("\x03", 100),
	strings.Repeat("\x0f", 100),
	strings.Repeat("\x0f\x00", 60),
	strings.Repeat("\x04\x00", 60),
	strings.Repeat("\x05\x01\x00", 50),
	strings.Repeat("\xff", 100),
	"\x00\x00\x0f\x00",                     // a nil Strategy
	"\x00\x00\x0f\x01",                     // one that is all zero
	"\x00\x01\x0f\x00",                     // a PerKey that returns nil
	"\x0f\x00",                             // Strategy and PerKey
	"\x00\x00\x00\x00\x00\x0f\x00",         // a Base that is a nil pointer
	"\x00\x00\x00\x00\x00\x0f\x01",         // the Transport itself
	"\x00\x00\x00\x00\x00\x0f\x02",         // a nil function
	"\x00\x00\x00\x00\x00\x00\x00\x00\x0f", // MaxKeys below 0
}

// A fuzzer plays one input.
type fuzzer struct {
	t  *testing.T
	in []byte

	transport *Transport
	strategy  *Strategy // the Transport's, or that of all its keys; nil where PerKey gives nil
	cost      int       // what the quota was asked for last
	takes     int       // how often it said yes, and
	gives     []int     // what it got, in this request
	limiters  []*Limiter
	refused   bool // by Prepare, which then always does
	cuts      bool // Prepare cuts the body
}

// A fuzzRequest is one request and what became of it.
type fuzzRequest struct {
	z       *fuzzer
	req     *http.Request
	ctx     context.Context
	cancel  context.CancelFunc
	trace   *Trace
	broken  bool      // the request or its context makes no sense
	own     *Strategy // from the context
	max     int       // attempts
	content string
	sources []*testkit.Body
	answers []*testkit.Body
	texts   []string // of the answers
	got     []byte   // what was read of the last one
	calls   int

	resp     *http.Response
	err      error
	panicked any
	ended    bool // ctx had ended when the base returned last
	took     time.Duration
	endedIn  atomic.Int64 // how long ctx lived, once it has ended
}

// n is the next byte of the input, below a limit; 0 after its end.
func (z *fuzzer) n(limit int) int {
	if len(z.in) == 0 {
		return 0
	}
	b := z.in[0]
	z.in = z.in[1:]
	return int(b) % limit
}

// one picks one of several values. The first is the harmless one.
func one[T any](z *fuzzer, values ...T) T { return values[z.n(len(values))] }

// mostly picks one of the usual values, and for one byte in sixteen an odd one.
func mostly[T any](z *fuzzer, usual []T, odd ...T) T {
	if z.n(16) == 15 {
		return one(z, odd...)
	}
	return one(z, usual...)
}

// odd reports true for one value in several of the next byte.
func (z *fuzzer) odd(of int) bool { return z.n(of) == of-1 }

func (z *fuzzer) duration() time.Duration {
	return mostly(z, []time.Duration{0, time.Nanosecond, time.Millisecond, time.Second, time.Minute, 300 * time.Hour, math.MaxInt64}, -1, math.MinInt64)
}

func (z *fuzzer) int() int {
	return mostly(z, []int{5, 0, 1, 2, 14, 1000, math.MaxInt}, -1, math.MinInt)
}

func (z *fuzzer) play() {
	z.newTransport()
	before := fmt.Sprint(z.strategy)
	invalid := z.transport.Validate()
	for range 1 + z.n(3) {
		z.cost, z.takes, z.gives = 0, 0, nil
		r := z.newRequest()
		r.play()
		r.check(invalid)
		r.cancel()
		if again := z.transport.Validate(); fmt.Sprint(again) != fmt.Sprint(invalid) {
			z.t.Errorf("Validate said %v, and now %v", invalid, again)
		}
	}
	z.inspect()
	if z.strategy != nil && z.strategy.Quota == nil && fmt.Sprint(z.strategy) != before {
		z.t.Errorf("the strategy was changed")
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	for _, l := range z.limiters {
		if s := l.State(); s.Waiting != 0 || s.Tokens < 0 || s.Tokens > max(s.Burst, 0) {
			z.t.Errorf("the limiter is not at rest: %+v", s)
		}
	}
}

// newTransport makes the Transport with all of its public fields.
func (z *fuzzer) newTransport() {
	t := &Transport{}
	z.transport = t
	kind := mostly(z, []int{0, 2, 1}, 3)
	z.strategy = z.newStrategy()
	perKey := func(string) *Strategy { return z.strategy }
	switch kind {
	case 0:
		t.Strategy = z.strategy
	case 1:
		z.strategy = Standard()
	case 2:
		t.PerKey = perKey
	case 3:
		t.Strategy, t.PerKey = z.strategy, perKey
	}
	if kind == 0 && z.strategy == nil || kind == 3 && z.strategy == nil {
		t.PerKey = nil
		z.strategy = Standard() // what a Transport with neither uses
	}
	t.Base = mostly[http.RoundTripper](z, []http.RoundTripper{step(z.serve), fuzzBase{z.serve}}, (*http.Transport)(nil), t, step(nil))
	t.Key = one[func(*http.Request) string](z, nil, HostKey, func(*http.Request) string { return "" },
		func(*http.Request) string { return strings.Repeat("k", 2000) })
	t.MaxKeys = mostly(z, []int{0, 1, 3, math.MaxInt}, -1, math.MinInt)
	t.AttemptTimeout = mostly(z, []time.Duration{0, 0, time.Second, time.Nanosecond, time.Hour, math.MaxInt64}, -1, math.MinInt64)
	t.ReplayBuffer = mostly(z, []int64{0, 1, 4, 100, math.MaxInt64}, -1, math.MinInt64)
	t.Prepare = mostly(z, []func(*http.Request, PrepareInfo) error{nil, nil, fuzzPrepareHeader, z.prepareBody, fuzzPrepareNothing},
		func(*http.Request, PrepareInfo) error { z.refused = true; return errFuzzPrepare })
	t.Observe = one[func(Event)](z, nil, func(e Event) { _ = e.ErrorKind() })
}

// A fuzzBase is a base that is no pointer and no function.
type fuzzBase struct {
	serve func(*http.Request) (*http.Response, error)
}

func (b fuzzBase) RoundTrip(req *http.Request) (*http.Response, error) { return b.serve(req) }

var errFuzzPrepare = errors.New("not prepared")

func fuzzPrepareHeader(req *http.Request, p PrepareInfo) error {
	req.Header.Set("Prepared", fmt.Sprint(p.Number, p.Last, p.Skew))
	req.URL.Path += "/prepared"
	return nil
}

// prepareBody replaces the body but not its GetBody, as it should not.
func (z *fuzzer) prepareBody(req *http.Request, _ PrepareInfo) error {
	if z.cuts = true; hasBody(req) {
		req.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(req.Body, 3), req.Body}
		req.ContentLength = -1
	}
	return nil
}

// fuzzPrepareNothing leaves nothing of the request.
func fuzzPrepareNothing(req *http.Request, _ PrepareInfo) error {
	req.URL, req.Header, req.Body, req.GetBody = nil, nil, nil, nil
	return nil
}

// adaptiveByRequest repeats every request and has a limiter for each.
func adaptiveByRequest() *Strategy {
	s := Standard()
	s.RetryNonIdempotent, s.Limiter = true, NewRequestLimiter()
	return s
}

// newStrategy makes a strategy with all of its public fields, or nil.
func (z *fuzzer) newStrategy() *Strategy {
	s := mostly(z, []func() *Strategy{Standard, Legacy, Adaptive, adaptiveByRequest},
		func() *Strategy { return nil }, func() *Strategy { return &Strategy{} })()
	if s == nil || z.n(4) == 0 {
		return z.known(s)
	}
	s.MaxAttempts = mostly(z, []int{3, 1, 2, 5, math.MaxInt}, 0, -1, math.MinInt)
	s.RetryNonIdempotent = z.odd(2)
	if z.odd(3) {
		s.MaxRetryAfter, s.MaxLimiterWait = z.duration(), z.duration()
	}
	if z.odd(3) {
		s.Cost, s.ThrottleCost, s.TimeoutCost = z.int(), z.int(), z.int()
	}
	for range z.n(3) {
		s.Classifiers = append([]Classifier{z.newClassifier()}, s.Classifiers...)
	}
	for range z.n(3) {
		s.Hints = append([]HintReader{z.newWaitReader()}, s.Hints...)
	}
	if z.odd(2) {
		s.Backoff, s.ThrottleBackoff = z.newBackoff(), z.newBackoff()
	}
	s.Quota = mostly[Quota](z, []Quota{s.Quota, s.Quota, nil, NewBucket(z.n(30)), new(Bucket)}, (*Bucket)(nil), NewBucket(-1))
	s.LongPoll = one[func(*http.Request) bool](z, nil, func(*http.Request) bool { return true })
	s.Limiter = one(z, s.Limiter, NewLimiter(), new(Limiter), NewRequestLimiter(), nil)
	s.Rand = one[func() float64](z, nil, func() float64 { return 1 }, math.NaN, func() float64 { return -1 },
		func() float64 { return math.Inf(1) }, func() float64 { return 1e300 })
	return z.known(s)
}

// known notes what a strategy gives out, to see it come back.
func (z *fuzzer) known(s *Strategy) *Strategy {
	if s == nil {
		return nil
	}
	if s.Limiter != nil {
		z.limiters = append(z.limiters, s.Limiter)
	}
	if b, ok := s.Quota.(*Bucket); ok && b != nil && b.check() == nil {
		s.Quota = &fuzzQuota{b, z}
	}
	return s
}

// A fuzzQuota is a bucket that notes what is taken and given.
type fuzzQuota struct {
	*Bucket
	z *fuzzer
}

func (q *fuzzQuota) Take(ctx context.Context, f Failure) bool {
	if !q.Bucket.Take(ctx, f) {
		return false
	}
	q.z.cost = f.Cost
	q.z.takes++
	return true
}

func (q *fuzzQuota) Answered(class Class, cost int) {
	if class == Success {
		q.z.gives = append(q.z.gives, max(cost, 1))
	}
	q.Bucket.Answered(class, cost)
}

func (q *fuzzQuota) Return(cost int) {
	q.z.gives = append(q.z.gives, cost)
	q.Bucket.Return(cost)
}

func (z *fuzzer) newClassifier() Classifier {
	class := Class(mostly(z, []int{1, 2, 3, 4, 5, 0, 6}, 7, 255))
	status := one(z, 503, 200, 404, 0, -1, 99999)
	needsBody := ClassifierFunc(func(a Attempt) Class {
		if a.Body == nil {
			return NeedsBody
		}
		return class
	})
	return mostly[Classifier](z, []Classifier{ClassifierFunc(func(Attempt) Class { return class }), needsBody, On(Transient, StatusIs(status))},
		nil, ClassifierFunc(nil), On(class, StatusIs(status)), On(class, CodeIs("", "X")))
}

func (z *fuzzer) newWaitReader() HintReader {
	hint := Hint{Wait: z.duration(), From: "fuzz", MaxExcess: z.duration(), Additive: z.odd(2)}
	header := HintHeader{Name: "Retry-After", Format: HintFormat(mostly(z, []int{0, 1, 2, 3, 4}, 5, 255)), MaxExcess: hint.MaxExcess, Additive: hint.Additive}
	return mostly[HintReader](z, []HintReader{header, HintReaderFunc(func(Attempt) (Hint, bool) { return hint, true })},
		nil, HintReaderFunc(nil), (*HintHeader)(nil), HintHeader{})
}

func (z *fuzzer) newBackoff() Backoff {
	base, limit := z.duration(), z.duration()
	return mostly[Backoff](z, []Backoff{Constant{Wait: base}, FullJitter{base, 0}, EqualJitter{base, 0}, DecorrelatedJitter{base, 0},
		Exponential{base, 0}, CapAfterJitter{base, 0}, BackoffFunc(func(r Retry) (time.Duration, bool) { return base, r.Index < 2 })},
		nil, BackoffFunc(nil), (*Constant)(nil), Constant{base, limit}, FullJitter{base, limit}, CapAfterJitter{base, limit})
}

// newRequest makes a request, its context and its body.
func (z *fuzzer) newRequest() *fuzzRequest {
	r := &fuzzRequest{z: z}
	r.newContext()
	method := one(z, "GET", "POST", "PUT", "", "HEAD", "CONNECT", "BAD METHOD", "PATCH")
	target := one(z, "http://example.com/path?q=1", "https://EXAMPLE.com:443", "http://%zz", "//", "/path", "ftp://x", "http://[::1]:80/")
	u, err := url.Parse(target)
	if err != nil {
		u = &url.URL{Opaque: target}
	}
	req := (&http.Request{Method: method, URL: u, Header: http.Header{}, Host: one(z, "", "other.test")}).WithContext(r.ctx)
	r.req = req
	if z.odd(4) {
		req.Header.Set(one(z, "Idempotency-Key", "Amz-Sdk-Request", "X-Envoy-Attempt-Count", "X-Stainless-Retry-Count"),
			one(z, "key", "attempt=2; max=3", "2", "-1", "99999999999"))
	}
	if z.odd(20) {
		done := make(chan struct{})
		close(done)
		//lint:ignore SA1019 http.Client.Timeout still uses it over other transports
		req.Cancel = done
	}
	r.newBody()
	switch mostly(z, []int{0}, 1, 2, 3) {
	case 1:
		r.req, r.broken = nil, true
		r.sources = nil
	case 2:
		req.URL, r.broken = nil, true
	case 3:
		req.Header, r.broken = nil, true
	}
	return r
}

// newContext makes the context, which ends within an hour whatever happens.
func (r *fuzzRequest) newContext() {
	z := r.z
	ctx, cancel := context.WithCancelCause(context.Background())
	life, cause := mostly(z, []time.Duration{time.Hour, time.Second, 30 * time.Second}, 0), one(z, nil, errModelCause)
	timer := time.AfterFunc(life, func() { cancel(cause) })
	r.cancel = func() { timer.Stop(); cancel(nil) }
	if z.odd(4) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, mostly(z, []time.Duration{time.Minute, time.Second}, 0, -time.Hour))
		before := r.cancel
		r.cancel = func() { stop(); before() }
	}
	s := z.strategy
	if z.odd(6) {
		s = z.newStrategy()
		ctx = WithStrategy(ctx, s)
		r.own, r.broken = s, s == nil || s.check("") != nil
	}
	if s != nil {
		r.max = s.MaxAttempts
	}
	if z.odd(6) {
		r.max = mostly(z, []int{2, 1, 10, math.MaxInt}, 0, -1, math.MinInt)
		r.broken = r.broken || r.max < 1
		ctx = WithMaxAttempts(ctx, r.max)
	}
	if z.odd(4) {
		ctx = WithIdempotent(ctx)
	}
	if z.odd(2) {
		ctx, r.trace = WithTrace(ctx)
	}
	r.ctx = context.WithValue(ctx, fuzzKey{}, r)
}

type fuzzKey struct{}

// newBody makes the body, whose length the request may get wrong.
func (r *fuzzRequest) newBody() {
	z, req := r.z, r.req
	kind := z.n(8)
	if kind == 0 {
		return
	}
	r.content = strings.Repeat("0123456789", z.n(30))
	open := func() io.ReadCloser {
		body := &testkit.Body{ReadCloser: io.NopCloser(strings.NewReader(r.content))}
		r.sources = append(r.sources, body)
		return body
	}
	req.ContentLength = one(z, -1, int64(len(r.content)), 0, 3, 1e6)
	switch kind {
	case 1:
		req.Body, r.content = http.NoBody, ""
	case 2:
		req.Body = (*os.File)(nil)
	case 3, 4:
		req.Body = open()
		req.GetBody = func() (io.ReadCloser, error) { return open(), nil }
	case 5:
		req.Body = open()
		req.GetBody = one(z, func() (io.ReadCloser, error) { return nil, nil },
			func() (io.ReadCloser, error) { return nil, errModelSource })
	case 6:
		req.GetBody = func() (io.ReadCloser, error) { return open(), nil } // without a Body
	default:
		req.Body = open()
	}
}

// serve is the base: it closes the body, and answers as the input says.
func (z *fuzzer) serve(req *http.Request) (*http.Response, error) {
	r := req.Context().Value(fuzzKey{}).(*fuzzRequest)
	if r.calls++; r.calls > 40 {
		r.cancel() // a strategy may allow attempts without end
	}
	// What ends the context from here on may come too late for the error to tell.
	defer func() { r.ended = r.ctx.Err() != nil }()
	if z.odd(30) {
		panic(r)
	}
	if req.Body != nil {
		if z.odd(2) {
			got, err := io.ReadAll(req.Body)
			if !strings.HasPrefix(r.content, string(got)) || err == nil && len(got) < len(r.content) && !z.cuts {
				z.t.Errorf("attempt %d reads %d bytes, which are not the body: %v", r.calls, len(got), err)
			}
		}
		_ = req.Body.Close()
	}
	if wait := one(z, 0, 0, 0, time.Millisecond, time.Minute); wait > 0 {
		select {
		case <-time.After(wait):
		case <-req.Context().Done():
		}
	}
	switch z.n(10) {
	case 1:
		return nil, errReset
	case 2:
		return nil, context.Cause(req.Context())
	case 3:
		return nil, errModelDial
	case 4:
		return r.answer(req), errReset
	case 5:
		return nil, nil
	}
	return r.answer(req), nil
}

// answer makes a response, of which some break the contract.
func (r *fuzzRequest) answer(req *http.Request) *http.Response {
	z := r.z
	resp := &http.Response{StatusCode: one(z, 503, 200, 429, 404, 101, 308, 0, -1, 1000, 503, 429, 400), Request: req, ContentLength: -1}
	if z.odd(8) {
		return resp // without Header and Body
	}
	resp.Header = http.Header{}
	if z.odd(3) {
		resp.Header.Set(one(z, "Retry-After", "Retry-After-Ms", "X-Amz-Retry-After", "Date"),
			one(z, "0", "1", "1e9", "-1", "NaN", "9999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "\x00"))
	}
	text := one(z, "", `{"__type":"ThrottlingException"}`, "<Error><Code>SlowDown</Code></Error>", strings.Repeat("x", 100<<10), "{", "\x1f\x8b\x08")
	resp.Header.Set("Content-Type", one(z, "text/plain", "application/json", "application/xml", ""))
	if z.odd(6) {
		resp.Header.Set("Content-Encoding", "gzip")
	}
	body := &testkit.Body{ReadCloser: io.NopCloser(strings.NewReader(text))}
	r.answers, r.texts = append(r.answers, body), append(r.texts, text)
	resp.Body = body
	return resp
}

// play sends the request, and reads and closes the answer.
func (r *fuzzRequest) play() {
	var before http.Request
	var header http.Header
	var target string
	if r.req != nil {
		before, header, target = *r.req, r.req.Header.Clone(), fmt.Sprint(r.req.URL)
	}
	begun := time.Now()
	stop := context.AfterFunc(r.ctx, func() { r.endedIn.Store(int64(time.Since(begun))) })
	func() {
		defer func() { r.panicked, r.took = recover(), time.Since(begun) }()
		r.resp, r.err = r.z.transport.RoundTrip(r.req)
	}()
	if stop() {
		r.endedIn.Store(int64(r.took))
	}
	if r.req != nil {
		after := *r.req
		before.GetBody, after.GetBody = nil, nil
		if !reflect.DeepEqual(header, r.req.Header) || target != fmt.Sprint(r.req.URL) || !reflect.DeepEqual(before, after) {
			r.z.t.Errorf("the request was changed from %+v to %+v", before, after)
		}
	}
	if r.resp != nil && r.resp.Body != nil {
		r.got, _ = io.ReadAll(r.resp.Body)
		_ = r.resp.Body.Close()
	}
	time.Sleep(time.Second) // for what closes on the side
	synctest.Wait()
}
