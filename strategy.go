package retrip

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Strategy decides for one destination what a failure means, how long to wait
// and whether a retry may be sent. Its parts can be replaced one by one; the
// checks that keep a request from being corrupted, duplicated or late are the
// Transport's and stay.
//
// A part of your own may be a fmt.Stringer, which is printed, and a Validator.
//
// Take one from a mode (Standard, Legacy, Adaptive, Gated, …), change what you want
// to change, and don't change it once a request has used it. The zero Strategy is not
// valid: it has no attempts and no Backoff. A Strategy may serve many requests,
// Transports and goroutines at once; all of them then share its quota. Print it to see
// every setting. A setting outside its range is an error of Transport.Validate and
// of every request.
type Strategy struct {
	// MaxAttempts is how often a request is sent at most, the first time
	// included. 1 means no retry; less is an error.
	MaxAttempts int

	// RetryNonIdempotent says that all requests may be sent again whatever their method,
	// as AWS SDKs do with AWS's operations. The modes leave it false: then a
	// request that is neither idempotent by its method, nor carries a key, nor
	// is declared so by WithIdempotent, is repeated only if the outcome proves
	// that it was not processed.
	RetryNonIdempotent bool

	// MaxRetryAfter is the longest wait a server may ask for, and the most all the
	// waits it asks for may add up to in one request. A longer one ends the request
	// (ErrWaitOverCap), which then returns the response at once: retrying early adds
	// load. 0 accepts no wait above our own backoff; less than 0 is an error. The
	// modes say 60 s: our choice, the cap of Azure's azcore.
	MaxRetryAfter time.Duration

	// MaxLimiterWait is how long an attempt may wait for the Limiter. An attempt that
	// would wait longer is not sent (ErrWaitOverCap). 0 leaves it to the context's
	// deadline, as the AWS SDKs do; less than 0 is an error.
	MaxLimiterWait time.Duration

	// Classifiers are asked in order what an outcome means; the first opinion
	// wins. Put a rule of your own in front: slices.Insert(s.Classifiers, 0, …).
	// Without an opinion, an outcome below status 400 is a Success, others Permanent.
	Classifiers []Classifier

	// Hints are asked in order how long the server asks us to wait; the first
	// answer wins. The retry waits for the longer of it and the Backoff. With none,
	// only the Backoff counts.
	Hints []HintReader

	// Backoff computes the waits, ThrottleBackoff those after a Throttled outcome; if
	// that is nil, Backoff does both. A nil Backoff is an error.
	Backoff, ThrottleBackoff Backoff

	// Quota stops retries when most attempts fail: a Bucket, a Gate, or your own. nil
	// stops none.
	Quota Quota
	// Cost and ThrottleCost are how many tokens a retry takes from the Quota, the
	// latter after a Throttled outcome; 0 is free. TimeoutCost is what it takes after
	// a timeout; 0 means Cost, as in all AWS SDKs since 2026. Less than 0 is an error.
	Cost, ThrottleCost, TimeoutCost int

	// MinSkew is how much the clocks must differ for a ClockSkewed outcome to be
	// retried: by less, something else is wrong. 0 means by more than 4 minutes, as
	// in aws-sdk-go-v2.
	MinSkew time.Duration

	// LongPoll tells which requests wait for work on the server's side: if the
	// quota refuses them a retry, they wait as long as that would have before they
	// return the answer, so that a loop around them does not spin. nil is none.
	LongPoll func(*http.Request) bool

	// Limiter delays attempts, first ones too, once the server throttles. nil
	// delays nothing.
	Limiter *Limiter

	// Rand is the source of jitter: numbers from 0 up to but not including 1, from
	// any goroutine. nil is math/rand/v2. Tests pin it. See Retry.Rand.
	Rand func() float64
}

// A Validator is a part of a Strategy that can tell what is wrong with its own
// settings, for example "waits -1s: use 0 or more". Transport.Validate asks it.
type Validator interface {
	Validate() error
}

// Clone returns a strategy with the same settings and fresh state: a full
// Bucket of the same capacity, a new Gate, a new Limiter. A Quota of another type
// is shared with s, since only its owner knows how to copy it.
func (s *Strategy) Clone() *Strategy {
	c := *s
	c.Classifiers = slices.Clone(s.Classifiers)
	c.Hints = slices.Clone(s.Hints)
	switch q := s.Quota.(type) {
	case *Bucket:
		if q != nil {
			c.Quota = NewBucket(q.Capacity())
		}
	case *Gate:
		if q != nil {
			c.Quota = new(Gate)
		}
	}
	if s.Limiter != nil {
		c.Limiter = s.Limiter.fresh()
	}
	return &c
}

// String lists every setting, a line each.
func (s *Strategy) String() string {
	if s == nil {
		return "<nil>"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MaxAttempts: %d\nRetryNonIdempotent: %v\nMaxRetryAfter: %v\nMaxLimiterWait: %v\n",
		s.MaxAttempts, s.RetryNonIdempotent, s.MaxRetryAfter, s.MaxLimiterWait)
	if s.MinSkew != 0 {
		fmt.Fprintf(&b, "MinSkew: %v\n", s.MinSkew)
	}
	for _, c := range s.Classifiers {
		fmt.Fprintf(&b, "Classifier: %s\n", describe(c))
	}
	for _, w := range s.Hints {
		fmt.Fprintf(&b, "Hint: %s\n", describe(w))
	}
	fmt.Fprintf(&b, "Backoff: %s\nThrottleBackoff: %s\nQuota: %s\nCost: %d\nThrottleCost: %d\nTimeoutCost: %d\nLongPoll: %v\nLimiter: %v",
		describe(s.Backoff), describe(s.ThrottleBackoff), describe(s.Quota), s.Cost, s.ThrottleCost, s.TimeoutCost,
		s.LongPoll != nil, s.Limiter != nil)
	return b.String()
}

// describe prints a part as its String method has it, or as its type and
// fields: FullJitter{Base:100ms Cap:20s}.
func describe(part any) string {
	if isNil(part) {
		return "nil"
	}
	if part, ok := part.(fmt.Stringer); ok {
		return fmt.Sprint(part) // which prints a panic of its String, too
	}
	if t := reflect.TypeOf(part); t.Kind() == reflect.Struct {
		return fmt.Sprintf("%s%+v", t.Name(), part)
	}
	return fmt.Sprintf("%T", part)
}

// A policy is a validated strategy, ready for use.
type policy struct {
	*Strategy
	Quota         Quota    // hides the Strategy's: keys may share a Strategy, each with its own quota
	err           error    // why it can't be used, or nil
	sharedLimiter *Limiter // unless each request has one of its own
	// The classifiers that may have an opinion on a response below status 400:
	// usually none, so that a success skips classification.
	onSuccess   []Classifier
	hintReaders []headerReader
}

// newPolicy validates a strategy, which errors call name.
func newPolicy(s *Strategy, name string) policy {
	p := policy{Strategy: s, err: s.check(name)}
	if p.err != nil {
		return p
	}
	if p.onSuccess, p.err = ofSuccess(s.Classifiers, name); p.err != nil {
		return p
	}
	p.Quota, p.hintReaders = s.Quota, headerReaders(s.Hints)
	if l := s.Limiter; l != nil && !l.perRequest {
		p.sharedLimiter = l
	}
	return p
}

// ofSuccess leaves out the classifiers that have opinions on failures only.
func ofSuccess(all []Classifier, name string) (asked []Classifier, err error) {
	for i, c := range all {
		failuresOnly := false
		if rule, ok := c.(FailureClassifier); ok {
			err := guarded("has a method FailuresOnly that", func() error {
				failuresOnly = rule.FailuresOnly()
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("%s.Classifiers[%d] %w", name, i, err)
			}
		}
		if !failuresOnly {
			asked = append(asked, c)
		}
	}
	return asked, nil
}

// classify asks the classifiers. proves tells that the one that decided says
// that the request was not processed.
func (p *policy) classify(a *Attempt) (c Class, proves bool) {
	rest, asked := Permanent, p.Classifiers
	if a.Err == nil && a.Response.StatusCode < 400 {
		rest, asked = Success, p.onSuccess
	}
	for _, classifier := range asked {
		if r, ours := classifier.(*rule); ours {
			c = r.classify(a) // which saves copying the attempt for each rule
		} else {
			c = classifier.Classify(*a)
		}
		if c == NeedsBody && (a.Body != nil || a.Response == nil) {
			c = Unknown
		}
		if c != Unknown {
			u, ok := classifier.(UnprocessedClassifier)
			return c, ok && u.Unprocessed(*a)
		}
	}
	return rest, false
}

// listed is an error code if a classifier lists it, and otherwise empty: the
// server may send any text.
func (p *policy) listed(code string) string {
	if code != "" && slices.ContainsFunc(p.Classifiers, func(c Classifier) bool { return lists(c, code) }) {
		return code
	}
	return ""
}

// delay is the backoff before a retry.
func (s *Strategy) delay(r Retry) (time.Duration, bool) {
	if s.Rand != nil {
		r.Rand = s.Rand()
	} else {
		r.Rand = rand.Float64()
	}
	backoff := s.Backoff
	if r.Class == Throttled && s.ThrottleBackoff != nil {
		backoff = s.ThrottleBackoff
	}
	d, ok := backoff.Delay(r)
	return max(d, 0), ok
}

// hint is what the server asks for, if it asks.
func (p *policy) hint(a *Attempt) (h Hint, ok bool) {
	if a.Response == nil {
		return Hint{}, false
	}
	for i := range p.hintReaders {
		reader := &p.hintReaders[i]
		if reader.header != "" && headerValue(a.Response.Header, reader.header) == "" {
			continue
		}
		if h, ok := reader.ReadHint(*a); ok {
			h.Wait = max(h.Wait, 0)
			return h, true
		}
	}
	return Hint{}, false
}

// beside is the wait that the hint asks for where the backoff would be own.
func (h Hint) beside(own time.Duration) time.Duration {
	wait := h.Wait
	if h.MaxExcess > 0 {
		wait = min(wait, plus(own, h.MaxExcess))
	}
	if h.Additive {
		wait = plus(wait, own)
	}
	return wait
}

func (s *Strategy) costOf(a *Attempt, c Class) int {
	switch {
	case c == Throttled:
		return s.ThrottleCost
	case s.TimeoutCost > 0 && isTimeout(a.Err):
		return s.TimeoutCost
	default:
		return s.Cost
	}
}

func isTimeout(err error) bool {
	if own, ok := err.(*Error); ok {
		return own.Timeout() // whatever failed before
	}
	return anyOf(err, func(err error) bool { // a url.Error knows only what it wraps itself
		timeout, ok := err.(interface{ Timeout() bool })
		return ok && timeout.Timeout()
	})
}

// asNew reports whether a fresh Clone would behave the same, or would once the
// quota is forgotten, which is right for one that has rested.
func (p *policy) asNew(rested bool) bool {
	if p.Quota != nil && !rested {
		if q, ok := p.Quota.(RestingQuota); !ok || !q.Full() {
			return false
		}
	}
	return p.Limiter == nil || p.Limiter.asNew()
}

// tokens is what the quota has left, or -1 if it does not say.
func (p *policy) tokens() int {
	if q, ok := p.Quota.(MeteredQuota); ok {
		return q.Tokens()
	}
	return -1
}

// doubt is what the quota counts against the server, or -1 if it does not say, and
// whether that shuts it.
func (p *policy) doubt() (doubt float64, shut bool) {
	if q, ok := p.Quota.(DoubtingQuota); ok {
		return q.Doubt(), q.Shut(p.MaxAttempts)
	}
	return -1, false
}

// check finds settings that make no sense.
func (s *Strategy) check(name string) error {
	if s == nil {
		return fmt.Errorf("%s is nil: use Standard() or another mode", name)
	}
	var errs []error
	report := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s.%s %s", name, field, fmt.Sprintf(format, args...)))
	}
	part := func(field string, part any) {
		if err := checkPart(part); err != nil {
			report(field, "%v", err)
		}
	}
	if s.MaxAttempts < 1 {
		report("MaxAttempts", "is %d: use 1 for no retries, or more", s.MaxAttempts)
	}
	if s.MaxRetryAfter < 0 {
		report("MaxRetryAfter", "is %v: use 0 or more", s.MaxRetryAfter)
	}
	if s.MaxLimiterWait < 0 {
		report("MaxLimiterWait", "is %v: use 0 for no limit, or more", s.MaxLimiterWait)
	}
	if s.MinSkew < 0 {
		report("MinSkew", "is %v: use 0 for more than 4 minutes, or more", s.MinSkew)
	}
	if s.Cost < 0 {
		report("Cost", "is %d: use 0 for free retries, or more", s.Cost)
	}
	if s.ThrottleCost < 0 {
		report("ThrottleCost", "is %d: use 0 for free retries, or more", s.ThrottleCost)
	}
	if s.TimeoutCost < 0 {
		report("TimeoutCost", "is %d: use 0 for the same as Cost, or more", s.TimeoutCost)
	}
	for i, c := range s.Classifiers {
		part(fmt.Sprintf("Classifiers[%d]", i), c)
	}
	for i, w := range s.Hints {
		part(fmt.Sprintf("Hints[%d]", i), w)
	}
	part("Backoff", s.Backoff)
	if s.ThrottleBackoff != nil {
		part("ThrottleBackoff", s.ThrottleBackoff)
	}
	if s.Quota != nil {
		part("Quota", s.Quota)
	}
	return errors.Join(errs...)
}

// checkPart asks a part of a strategy what is wrong with it.
func checkPart(part any) error {
	if isNil(part) {
		return errors.New("is nil: set it, or take a strategy from Standard() or another mode")
	}
	if own, ok := part.(interface{ check() error }); ok { // or a type around one of ours
		if err := own.check(); err != nil {
			return err
		}
	}
	if users, ok := part.(Validator); ok {
		return guarded("has a method Validate that", users.Validate)
	}
	return nil
}

// isNil reports whether an interface holds nothing, or a nil pointer or func.
func isNil(part any) bool {
	v := reflect.ValueOf(part)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
