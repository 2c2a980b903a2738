package retrip

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper that sends a request again when that is
// safe and worth it, over any other RoundTripper. It keeps the RoundTripper
// contract: the caller's request is not modified and its body always closed, a
// response is never turned into an error, redirects and cookies stay the
// client's business.
//
// The zero Transport works: standard mode, one strategy with its own quota for
// each host. All fields are optional; don't change them, or copy the
// Transport, after its first use. A Transport is safe for concurrent use; make
// one and keep it, since its quotas and connections live in it.
type Transport struct {
	// Base sends the attempts. nil is a pooled go-cleanhttp transport of this
	// Transport's own: nobody else's connections hang on it. Its response
	// bodies must allow a Close during a Read, as net/http's do.
	Base http.RoundTripper

	// Strategy, if set, decides for all requests. Otherwise each key has one of
	// its own, made by PerKey when a request first needs it; nil means Standard.
	//
	// PerKey is called outside locks, and again if two requests need a new key
	// at once or a key was forgotten. It is asked for the empty key when it is
	// first needed: for the strategy that keys beyond MaxKeys share.
	Strategy *Strategy
	PerKey   func(key string) *Strategy

	// Key names the state a request belongs to. nil is HostKey. All requests
	// with the empty key share the strategy of the keys beyond MaxKeys. Key,
	// PerKey, Prepare and Observe are called from many goroutines at once.
	Key func(*http.Request) string

	// MaxKeys bounds the keys with a state of their own; 0 means 1024, our
	// choice: who talks to more hosts at a time is a crawler. Beyond it a key is
	// forgotten only if its quota is full and its limiter has met no throttle
	// for five minutes, and if there is none, further keys share one strategy, as
	// keys of more than 1 KiB always do: nobody gets a fresh quota by inventing
	// hosts.
	MaxKeys int

	// AttemptTimeout bounds each attempt, from the end of Prepare to the response
	// headers; 0 means no bound. An attempt that exceeds it fails with an
	// *AttemptTimeoutError, which is worth a retry, unlike the caller's own
	// deadline (http.Client.Timeout), which bounds all attempts and waits. As with
	// that, closing the response ends the attempt: of a request to which the server
	// answered early, the rest is not sent. Over HTTP/2 all attempts share a
	// connection: if it is dead, only net/http's own pings find out
	// (http.HTTP2Config.SendPingTimeout).
	AttemptTimeout time.Duration

	// ReplayBuffer is how many bytes are kept of a request body that can't be
	// reopened (Request.GetBody) and is not a regular *os.File; 0 means 1 MiB,
	// our choice: above nearly every API's requests. A longer body is streamed
	// like any other, but sent only once.
	ReplayBuffer int64

	// Prepare is called for every attempt, the first included, with a clone of
	// the request that it may change, to sign it for example. An error ends the
	// call. To read the body it uses Request.GetBody; if it replaces Body, it
	// replaces GetBody too. It sees each hop of a redirect: look at the host
	// before adding a secret.
	Prepare func(*http.Request, PrepareInfo) error

	// Observe is told of each attempt; see Event. It is called in the
	// request's goroutine, which it delays, and if it panics, so does RoundTrip.
	Observe func(Event)

	once    sync.Once
	base    http.RoundTripper
	invalid error
	single  entry // of Strategy, and of requests that bring one of their own
	clocked bool  // every attempt is timed
	plain   bool  // nothing is to be done for every attempt (plain.go)
	keys    keyTable

	counting atomic.Bool // see Stats
	total    counters
}

// PrepareInfo tells Prepare about the attempt it prepares.
type PrepareInfo struct {
	// Number is 1 for the first attempt.
	Number int
	// Skew is how far the server's clock is ahead of ours: sign with
	// time.Now().Add(Skew). It is 0 until measured, which takes a response over
	// TLS with a Date, and then kept for the key.
	Skew time.Duration
	// Last is the class of the attempt before, Unknown for the first.
	Last Class
}

// RoundTrip sends req, and sends it again as its strategy decides. It returns
// the last attempt's response if there is one, whatever its status. Otherwise
// the error is an *Error, or the base's own if the first attempt failed in a
// way that is not worth a retry or because the caller cancelled it. A request
// or Transport that makes no sense is an error before anything is sent.
//
// A plain request that succeeds at once takes a shorter way. (plain.go)
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.setUp()
	e, sent, resp, err := t.sendPlain(req)
	if !sent {
		c := call{t: t, entry: e, attempt: Attempt{Request: req}}
		return c.travel()
	}
	if err == nil && resp != nil && resp.StatusCode < 400 {
		t.plainSuccess(e)
		return resp, nil
	}
	c := call{t: t, entry: e, policy: &e.policy, attempt: Attempt{Number: 1, Request: req}}
	c.attempt.Response, c.attempt.Err = keepContract(resp, err)
	c.bodyFailed, c.bodyUnknown = bodyFailed(req)
	return c.travel()
}

// travel takes a request through the numbered steps, which are those of the
// documentation, the events and the logs; it ends in end.go. A plain request has
// its first attempt behind it.
func (c *call) travel() (*http.Response, error) {
	defer c.panicked()

	// 1. Resolve: who decides for this request, and can its body be sent again?
	// (keys.go, body.go)
	if err := c.resolve(); err != nil {
		c.ended = true
		closeBody(c.attempt.Request)
		return nil, err
	}
	for sent := c.attempt.Number > 0; ; sent = false {
		if !sent {
			// 2. Admit: wait for a permit, where a limiter gives them out. (admit.go)
			if reason, err := c.admit(); reason != 0 {
				return c.stop(reason, err)
			}
			// 3. Send: hand the base a request with a body of its own. (send.go)
			if reason, err := c.send(); reason != 0 {
				return c.stop(reason, err)
			}
		}
		// 4. Judge: what does the outcome mean, and will a retry follow? (judge.go)
		retry := c.judge()
		// 5. Observe. (event.go)
		c.observe(true, !retry)
		if !retry {
			return c.conclude()
		}
		// 6. Discard: read the response to its end, but keep it until the retry can
		// be sent (discard.go), while we
		// 7. wait. (wait.go)
		c.keep()
		if err := c.wait(); err != nil {
			return c.stop(Cancelled, err)
		}
	}
}

// A call is one request on its way through RoundTrip. It lives on RoundTrip's
// stack: a request that succeeds at once must not allocate.
type call struct {
	t       *Transport
	policy  *policy
	limiter *Limiter
	entry   *entry
	trace   *Trace
	record  *[]Event
	replay  *replay       // nil if the body is none or can be reopened
	body    io.ReadCloser // opened for the coming attempt, not yet handed to the base

	clocked     bool
	idempotent  bool // says the context
	maxAttempts int

	// The attempt under way or just judged.
	attempt     Attempt // its Number is how many were sent
	paid        bool    // the limiter was paid for it, and it is not sent yet
	cost        int     // what the quota paid for it
	spent       bool    // it was sent
	tokens      int     // what the quota had before
	signed      time.Duration
	limiterWait time.Duration
	// An error may be that of the request's body, or nothing is known of that.
	bodyFailed, bodyUnknown bool
	verdict                 verdict
	reason                  Reason
	ended                   bool // by a return, not a panic

	// The wait for the next one.
	delay  time.Duration
	from   string
	kept   keptResponse  // the response that a retry follows
	own    time.Duration // the backoff's share
	hinted time.Duration // what servers asked for so far

	begun, failed time.Time // RoundTrip called; first attempt failed
	last          failure   // what became of the attempt before
	obstacle      error     // why the body can't be sent again
	limit         *attemptLimit
	ctx           context.Context
}

// A failure is what is kept of an attempt whose response is gone.
type failure struct {
	err    error
	status int
	code   string
}

// resolve finds out, once for the whole request, what its attempts have in
// common.
func (c *call) resolve() error {
	req := c.attempt.Request
	if c.policy == nil {
		if req != nil {
			c.body = req.Body // also if Key or PerKey panics
		}
		if err := c.resolvePolicy(); err != nil {
			return err
		}
	}
	c.ctx = req.Context()
	if c.maxAttempts == 0 {
		c.maxAttempts = c.policy.MaxAttempts
	}
	if c.attempt.Number == 0 && (c.maxAttempts > 1 || c.t.Prepare != nil) && hasBody(req) && req.GetBody == nil {
		c.replay = newReplay(req, cmp.Or(c.t.ReplayBuffer, defaultReplayBuffer))
		c.body = nil
	}
	if c.trace != nil {
		c.record = c.trace.begin()
	}
	c.limiter = c.policy.limiter
	c.clocked = c.t.clocked || c.trace != nil || c.limiter != c.policy.Limiter
	return nil
}

// resolvePolicy finds the policy: that of the context, that of the Transport,
// or that of the request's key.
func (c *call) resolvePolicy() error {
	t, req := c.t, c.attempt.Request
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
	if o := overridesOf(req.Context()); o != nil {
		if o.noAttempts != nil {
			return o.noAttempts
		}
		c.policy, c.maxAttempts, c.idempotent, c.trace = o.policy, o.maxAttempts, o.idempotent, o.trace
		if o.isRetry(req) {
			c.maxAttempts = 1 // a transport further out is retrying it already
		}
	}
	if c.entry == nil {
		c.entry = &t.single
		if t.Prepare != nil || t.Strategy == nil && c.policy == nil { // something is kept per key
			c.entry = t.entryOf(req)
		}
	}
	if c.policy == nil {
		c.policy = &c.entry.policy
	}
	return c.policy.err
}
