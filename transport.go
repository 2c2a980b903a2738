package retrip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-cleanhttp"
	"github.com/retrip-go/retrip/internal/replay"
)

// Transport is an http.RoundTripper that retries failed requests over any other
// RoundTripper. It honours the RoundTripper contract: the caller's request is not
// modified, its body is always closed, a response is never turned into an error
// (unless the caller cancels the wait for a retry, or Prepare fails), redirects
// and cookies stay the client's.
//
// The zero Transport works: standard mode, one strategy with its own quota for
// each host. All fields are optional; don't change them, or copy the
// Transport, after its first use. A setting outside its range, such as a negative
// number, is an error of Validate and of every request. A Transport is safe for
// concurrent use; make one and keep it, since its quotas and connections live in it.
type Transport struct {
	// Base sends the attempts. nil is a pooled go-cleanhttp transport of this
	// Transport's own, which is not shared. Its response bodies must allow a Close
	// during a Read, as net/http's do. A nil pointer is an error.
	Base http.RoundTripper

	// Strategy, if set, decides for all requests, which then share one quota.
	// Otherwise each key has a strategy of its own, made by PerKey when a request
	// first needs it; nil means Standard. To set both is an error.
	//
	// PerKey is called outside locks, and again if two requests need a new key at
	// once or a key was forgotten. It is asked for the empty key when it is first
	// needed: for the strategy that keys beyond MaxKeys share. A strategy that is
	// nil or not valid is an error of the requests of its key.
	Strategy *Strategy
	PerKey   func(key string) *Strategy

	// Key names the state a request belongs to. nil is HostKey. All requests with
	// the empty key share the strategy of the keys beyond MaxKeys. It is not called
	// where nothing is kept per key. Key, PerKey, Prepare and Observe are called
	// from many goroutines at once.
	Key func(*http.Request) string

	// MaxKeys bounds the keys with a state of their own. Less than 0 is an error. 0
	// means 32768, our choice: enough for a large crawl, and 10 MB with the zero
	// Transport, where a host takes 300 bytes. KeepStats adds 650, and a long name its
	// length, of up to 1 KiB.
	//
	// Beyond it a key is forgotten if another needs its place and nothing is lost
	// with it: its quota is full, its limiter has met no throttle for five minutes,
	// and it was asked for only once. Any other key is forgotten when it has had no
	// request for an hour, even if its quota never recovered. While none such is
	// found, further keys share one strategy, as keys of more than 1 KiB always
	// do. With the zero Transport a host beyond MaxKeys seldom takes a place before
	// it fails.
	//
	// So new host names cannot bypass the quota: within an hour, a dead server gets
	// no more retries than a full quota pays for (100 in standard mode) under one
	// name, and MaxKeys+1 times as many under any number of names.
	MaxKeys int

	// AttemptTimeout bounds each attempt, from the end of Prepare to the response
	// headers; 0 means no bound, and less is an error. An attempt that exceeds it fails with an
	// *AttemptTimeoutError, which is worth a retry, unlike the caller's own
	// deadline (http.Client.Timeout), which bounds all attempts and waits. As with
	// that, closing the response ends the attempt: of a request to which the server
	// answered early, the rest is not sent. Over HTTP/2 all attempts share a
	// connection: if it is dead, only net/http's own pings find out
	// (http.HTTP2Config.SendPingTimeout).
	AttemptTimeout time.Duration

	// ReplayBuffer is how many bytes are kept of a request body that can't be
	// reopened (Request.GetBody) and is not a regular *os.File. 0 means 1 MiB, our
	// choice: above nearly every API's requests. Less is an error. A longer body is
	// streamed like any other, but sent only once (ErrBodyNotReplayable).
	ReplayBuffer int64

	// Prepare is called for every attempt, the first included, with a clone of
	// the request that it may change, to sign it for example. An error ends the
	// request (ErrPrepareFailed). To read the body it uses Request.GetBody; if it replaces Body, it
	// replaces GetBody too. It sees each hop of a redirect: look at the host
	// before adding a secret.
	Prepare func(*http.Request, PrepareInfo) error

	// Observe is told of each attempt; see Event. It is called in the
	// request's goroutine, which it delays, and if it panics, so does RoundTrip.
	Observe func(Event)

	// KeepStats counts what happens to requests, for Stats, Keys and Vars. Then
	// also a request that succeeds at once writes to memory that others read.
	KeepStats bool

	once    sync.Once
	base    http.RoundTripper
	invalid error
	single  entry  // of Strategy, and of requests that bring one of their own
	common  policy // of the keys' strategies, without Strategy and PerKey
	clocked bool   // every attempt is timed
	keys    keyTable

	total counters
}

// PrepareInfo tells Prepare about the attempt it prepares.
type PrepareInfo struct {
	// Number is 1 for the first attempt.
	Number int
	// Skew is how far the server's clock is ahead of ours, negative if it is behind:
	// sign with time.Now().Add(Skew). It is 0 until measured, which takes a response
	// over TLS with a Date, and then kept for the key.
	Skew time.Duration
	// Last is the class of the attempt before, Unknown for the first.
	Last Class
}

// RoundTrip sends req, and sends it again as its strategy decides. It returns
// the last response, whatever its status. Without one, it returns an *Error, or
// the base's own error if retrip neither retried nor declined to; see Error. A
// request or Transport that is not valid is an error before anything is sent.
//
// The steps have the numbers of the documentation.
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var (
		r    route   // fixed for this request
		p    permit  // held until the next attempt is sent
		o    outcome // of the attempt under way
		past history // what later attempts need of earlier ones
	)
	p.body.Begin(req) // first, so that a panic in Key or PerKey still closes it
	defer func() { r.cleanUp(&p, &o, resp) }()

	// 1. Resolve: which strategy and which state, and can the body be sent again?
	if err := r.resolve(t, req, &p.body); err != nil {
		return nil, err
	}
	o.Request = req
	for {
		// 2. Admit: wait for the send-rate limiter, where there is one. (attempt.go)
		refused := r.admit(&p, &o)
		if refused == nil {
			// 3. Send: hand the base a request with a body of its own. (attempt.go)
			refused = r.send(&p, &o, past.class)
		}
		if refused != nil {
			return r.stop(&p, &o, refused, &past)
		}
		// 4. Classify: what does the outcome mean? The limiter and the quota hear of
		// it. (decide.go)
		v := r.classify(&o)
		r.report(&o, v, &past)
		if v.class == Success {
			r.observe(&o, v, decision{})
			return o.Response, nil
		}
		// 5. Decide whether a retry follows, and secure what it needs. (decide.go)
		d := r.decide(&p, &o, v, &past)
		if d.reason == 0 {
			d = r.secure(&p, &o, v, d, &past)
		}
		// 6. Observe. (event.go)
		r.observe(&o, v, d)
		if d.reason != 0 {
			return r.conclude(&p, &o, v, d, &past)
		}
		// 7. Wait, while the response is read to its end. It is kept until the retry
		// is sent. (finish.go)
		r.remember(&past, &o, v, d)
		ended := o.Done // before take clears it
		p.answer = r.keep(o.take(), d)
		if err := r.wait(d, ended, p.answer.reading); err != nil {
			return r.stop(&p, &o, &refusal{reason: Cancelled, err: err}, &past)
		}
	}
}

// A route is what is fixed for one request: by resolve, and completed at the first
// failure by resolveFailure.
type route struct {
	t          *Transport
	req        *http.Request
	ctx        context.Context
	key        string  // if something is kept per key
	entry      *entry  // the state of its key
	pinned     bool    // that stays until the request has ended
	policy     *policy // the strategy
	limiter    *Limiter
	attempts   int  // how many it may take
	idempotent bool // by WithIdempotent
	clocked    bool // every attempt is timed
	trace      *Trace
	record     *[]Event
	begun      time.Time // when the first attempt was about to be admitted, if that is timed
}

// resolve finds out, once for the whole request, what its attempts have in
// common.
func (r *route) resolve(t *Transport, req *http.Request, body *replay.Body) error {
	t.setUp()
	r.t, r.req = t, req
	switch {
	case t.invalid != nil:
		return t.invalid
	case req == nil:
		return errors.New("retrip: the request is nil: build one with http.NewRequestWithContext")
	case req.URL == nil:
		return errors.New("retrip: Request.URL is nil: build the request with http.NewRequestWithContext")
	case req.Header == nil:
		return errors.New("retrip: Request.Header is nil: build the request with http.NewRequestWithContext")
	}
	r.ctx = req.Context()
	if o := overridesOf(r.ctx); o != nil {
		if o.noAttempts != nil {
			return o.noAttempts
		}
		r.policy, r.attempts, r.idempotent, r.trace = o.policy, o.maxAttempts, o.idempotent, o.trace
		if o.isRetry(req) {
			r.attempts = 1 // a transport further out is retrying it already
		}
	}
	r.entry = &t.single
	if t.Prepare != nil || t.Strategy == nil && r.policy == nil { // something is kept per key
		r.entry, r.key = t.entryOf(req)
	}
	if r.policy == nil {
		r.policy = &r.entry.policy
	}
	if r.policy.err != nil {
		return r.policy.err
	}
	if r.attempts == 0 {
		r.attempts = r.policy.MaxAttempts
	}
	if body.Opaque() && (r.attempts > 1 || t.Prepare != nil) {
		body.Keep(cmp.Or(t.ReplayBuffer, defaultReplayBuffer))
	}
	if r.trace != nil {
		r.record = r.trace.begin()
	}
	r.limiter = r.policy.sharedLimiter
	r.clocked = t.clocked || r.trace != nil || r.limiter != r.policy.Limiter
	return nil
}

// resolveFailure completes the route at the first failure with what a request that
// succeeds at once does not need.
func (r *route) resolveFailure() {
	if outerAttempt(r.req) > 1 {
		r.attempts = 1 // a retrier further out has taken over already
	}
	if r.limiter == nil && r.policy.Limiter != nil { // one for each request
		r.limiter = newLimiter(r.begun)
	}
}

// Validate reports every setting of the Transport that makes no sense, each
// with its name and what to do. It asks PerKey for the strategy of the empty
// key. A Transport that is not valid sends nothing: RoundTrip returns the same
// error, for a PerKey when it first has to do with a key.
func (t *Transport) Validate() error {
	err := t.check()
	if t.PerKey != nil && t.Strategy == nil {
		err = errors.Join(err, guarded("retrip: Transport.PerKey", func() error { return t.newEntry("").policy.err }))
	}
	return err
}

// guarded makes an error of what code of the user's raises, which is called
// name in it.
func guarded(name string, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%s panicked: %v", name, value)
		}
	}()
	return do()
}

func (t *Transport) check() error {
	var errs []error
	report := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("retrip: Transport."+format, args...))
	}
	if t.Base != nil && isNil(t.Base) {
		report("Base is a nil %T: leave the field nil, or set the transport to wrap", t.Base)
	}
	if t.Base == http.RoundTripper(t) {
		report("Base is the Transport itself: leave it nil, or set the transport to wrap")
	}
	if t.Strategy != nil {
		if t.PerKey != nil {
			report("Strategy and PerKey are both set: leave one nil")
		}
		if err := newPolicy(t.Strategy, "Strategy").err; err != nil {
			report("%w", err)
		}
	}
	if t.MaxKeys < 0 {
		report("MaxKeys is %d: use 0 for %d, or more", t.MaxKeys, defaultMaxKeys)
	}
	if t.AttemptTimeout < 0 {
		report("AttemptTimeout is %v: use 0 for none, or more", t.AttemptTimeout)
	}
	if t.ReplayBuffer < 0 {
		report("ReplayBuffer is %d: use 0 for %d, or more", t.ReplayBuffer, defaultReplayBuffer)
	}
	return errors.Join(errs...)
}

// Unwrap returns the transport that sends the attempts: Base, or the one that
// stands in for a nil Base. To call it is to use the Transport.
func (t *Transport) Unwrap() http.RoundTripper {
	t.setUp()
	return t.base
}

// CloseIdleConnections closes the base's idle connections, if it knows how to.
// http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	t.setUp()
	if t.invalid == nil { // a Base that is not valid may be nil, or the Transport itself
		closeIdle(t.base)
	}
}

func closeIdle(base http.RoundTripper) {
	if base, ok := base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// errNotRead stays if code of the user's ends the goroutine that reads the
// settings (runtime.Goexit): they are read only once.
var errNotRead = errors.New("retrip: the Transport's settings could not be checked: a Validate method ended its goroutine (runtime.Goexit)")

// setUp reads the settings, once.
func (t *Transport) setUp() { t.once.Do(t.readSettings) }

func (t *Transport) readSettings() {
	t.base = t.Base
	if t.base == nil {
		t.base = cleanhttp.DefaultPooledTransport()
	}
	t.invalid = errNotRead
	t.invalid = t.check()
	if t.Strategy != nil {
		t.single.policy = newPolicy(t.Strategy, "retrip: Transport.Strategy")
	} else if t.PerKey == nil {
		t.common = newPolicy(Standard(), "retrip.Standard")
	}
	t.clocked = t.Prepare != nil || t.Observe != nil || t.AttemptTimeout > 0
	t.keys.seed, t.keys.start = maphash.MakeSeed(), time.Now()
	t.keys.max = cmp.Or(t.MaxKeys, defaultMaxKeys)
	t.keys.choosy = t.Strategy == nil && t.PerKey == nil && t.Prepare == nil
}

// newEntry makes the state of a key.
func (t *Transport) newEntry(key string) *entry {
	switch {
	case t.Strategy != nil:
		return &entry{key: key, policy: t.single.policy, shared: true}
	case t.PerKey != nil:
		return &entry{key: key, policy: newPolicy(t.PerKey(key), fmt.Sprintf("retrip: Transport.PerKey(%q)", key))}
	default: // all but the quota is common to all keys
		e := &entry{key: key, policy: t.common}
		e.bucket.capacity = quotaCapacity
		e.bucket.tokens.Store(quotaCapacity)
		e.policy.Quota = &e.bucket
		return e
	}
}

const defaultReplayBuffer = 1 << 20 // see Transport.ReplayBuffer

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }
