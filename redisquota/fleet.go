package redisquota

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Script is the Lua script that a Client runs. It reads and writes one key. A client
// with a cache of scripts of its own makes an entry of it once.
//
//go:embed script.lua
var Script string

// scriptVersion is part of every key: a release that changes the script changes it,
// and both can run side by side.
const scriptVersion = "1"

const (
	// defaultInterval is our choice. With half a second, 1000 processes send an outage
	// of 60 s 1.03 attempts for each request, with 2 s 1.06. A busy process runs up to
	// three scripts a second for each dependency.
	defaultInterval = 500 * time.Millisecond
	leastInterval   = 50 * time.Millisecond
	mostInterval    = 10 * time.Second
	// mostWait is how long a retry waits for a verdict. Our choice: below it, a wait
	// does not show beside a backoff.
	mostWait = 20 * time.Millisecond
	// blindTime is how long no retry waits after one that waited in vain. Our choice.
	blindTime = time.Second
	// evalTime bounds one run of the script, which may give a verdict after the retry
	// that asked has gone on. Our choice.
	evalTime = 250 * time.Millisecond
)

// A Client runs the script in Redis. Eval runs it with one key and arguments, by its
// digest where the server knows it (EVALSHA), and returns the numbers that it
// returned. It must return soon after ctx ends. It is called from several goroutines
// at once. DialRueidis and Rueidis make one of rueidis; examples/fleet/goredis
// makes one of go-redis.
type Client interface {
	Eval(ctx context.Context, script, key string, args ...string) ([]int64, error)
}

// Options are the settings of a Fleet. The zero Options work.
type Options struct {
	// Prefix begins every key, so that environments can share a server: "production",
	// "staging". Empty means "retrip". It has 1 to 64 letters, digits and any of
	// ".:_-"; another one is an error of New.
	Prefix string
	// Interval is how often a process in trouble reports, with half of it more or less
	// by chance, and how old a verdict may be before a failure asks for a new one. 0
	// means 500 ms. Below 50 ms and above 10 s it is an error of New.
	Interval time.Duration
}

// A Fleet connects the quotas of one process with those of the others. Make one for
// each server and Prefix. All methods are safe for concurrent use.
type Fleet struct {
	client   Client
	prefix   string
	interval time.Duration
	begun    time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	news   chan struct{} // wakes the reporter

	mu     sync.Mutex
	quotas map[string]weak.Pointer[Quota]
	fresh  []*Quota // with something to report

	blindUntil atomic.Int64 // of clock
	counts     fleetCounts
}

var prefixes = regexp.MustCompile(`^[A-Za-z0-9.:_-]{1,64}$`)

// New returns a Fleet and starts its one goroutine, which Close ends. It does not
// talk to Redis, which may be down: requests then go on with each quota's own gate,
// and Stats tells. Check asks Redis whether everything is right. An error names the
// setting that makes no sense.
func New(client Client, o Options) (*Fleet, error) {
	if o.Prefix == "" {
		o.Prefix = "retrip"
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	switch v := reflect.ValueOf(client); {
	case client == nil, v.Kind() == reflect.Pointer && v.IsNil():
		return nil, errors.New("redisquota: the client is nil: use DialRueidis, Rueidis or a Client of your own")
	case !prefixes.MatchString(o.Prefix):
		return nil, fmt.Errorf("redisquota: Options.Prefix is %.80q: use 1 to 64 letters, digits and any of .:_-", o.Prefix)
	case o.Interval < leastInterval || o.Interval > mostInterval:
		return nil, fmt.Errorf("redisquota: Options.Interval is %v: use 0 for %v, or %v to %v", o.Interval, defaultInterval, leastInterval, mostInterval)
	}
	f := &Fleet{
		client: client, prefix: o.Prefix, interval: o.Interval, begun: time.Now(),
		news: make(chan struct{}, 1), quotas: map[string]weak.Pointer[Quota]{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Go(f.run)
	return f, nil
}

// Close ends the reports and waits for what is under way. Quotas then decide by their
// own gates alone. It returns nil, and may be called more than once.
func (f *Fleet) Close() error {
	f.mu.Lock() // an ask that has begun is waited for, and none begins from now on
	f.cancel()
	f.mu.Unlock()
	f.wg.Wait()
	return nil
}

// Check runs the script once for a key that no quota uses. An error says what is wrong
// and what to do. It is for the start of a program, which need not wait
// for it.
func (f *Fleet) Check(ctx context.Context) error {
	_, err := f.eval(ctx, f.prefix+":check", evidence{})
	return err
}

// Quota returns the quota of a dependency, for PerKey: two calls with one key return
// the same one, for as long as something uses it. Its first answer and its first
// failure tell the fleet of it.
func (f *Fleet) Quota(key string) *Quota {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.quotas[key].Value(); q != nil {
		return q
	}
	q := &Quota{fleet: f, key: strings.Clone(key)}
	q.redisKey = f.redisKey(key)
	f.quotas[q.key] = weak.Make(q)
	return q
}

// redisKey hides the key's name, which may hold a host or a secret, and bounds its
// length. The braces keep all that is ever kept for a dependency on one node.
func (f *Fleet) redisKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return f.prefix + ":" + scriptVersion + ":{" + hex.EncodeToString(sum[:16]) + "}"
}

// run reports, once an interval, as long as there is news.
func (f *Fleet) run() {
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.news:
		}
		// Half an interval more or less, so that processes that saw the same failure do
		// not report at once.
		pause := time.NewTimer(f.interval/2 + rand.N(f.interval))
		select {
		case <-f.ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		f.report()
	}
}

// report sends what has been counted.
func (f *Fleet) report() {
	f.mu.Lock()
	listed := f.fresh
	f.fresh = nil
	for key, q := range f.quotas {
		if q.Value() == nil {
			delete(f.quotas, key)
		}
	}
	f.mu.Unlock()
	for i, q := range listed {
		q.listed.Store(false) // what is counted from now on lists it again
		ctx, cancel := context.WithTimeout(f.ctx, evalTime)
		q.report(ctx)
		hangs := ctx.Err() != nil
		cancel()
		if hangs { // the others next time, or they would all be late
			f.list(listed[i+1:]...)
			return
		}
	}
}

// list puts quotas on the list of those with news.
func (f *Fleet) list(quotas ...*Quota) {
	if len(quotas) == 0 {
		return
	}
	f.mu.Lock()
	f.fresh = append(f.fresh, quotas...)
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// ask reports q on the side, at once, unless the Fleet is closed.
func (f *Fleet) ask(q *Quota, done chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		q.asking.Store(nil)
		close(done)
		return
	}
	f.wg.Go(func() {
		defer close(done)
		defer q.asking.Store(nil)
		ctx, cancel := context.WithTimeout(f.ctx, evalTime)
		defer cancel()
		q.report(ctx)
	})
}

// clock returns the milliseconds since New, whatever becomes of the system's clock.
func (f *Fleet) clock(now time.Time) int64 { return now.Sub(f.begun).Milliseconds() }

// blind reports whether Redis did not answer a moment ago.
func (f *Fleet) blind(now time.Time) bool { return f.clock(now) < f.blindUntil.Load() }

// goBlind lets nobody wait for Redis for a while.
func (f *Fleet) goBlind() { f.blindUntil.Store(f.clock(time.Now().Add(blindTime))) }
