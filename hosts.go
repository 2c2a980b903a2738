package retrip

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultMaxKeys = 1 << 15   // see Transport.MaxKeys
	longestKey     = 1 << 10   // our choice: names of hosts end at 253 bytes
	keyMemory      = time.Hour // our choice: see Transport.MaxKeys
	candidates     = 16        // our choice: in how many buckets drop looks
	sampled        = 64        // our choice: see keyTable.find and tellTime
)

// An entry is what a Transport keeps for one key. What a success looks at comes
// first and lies together: with many hosts, fetching that memory takes most
// of the time.
type entry struct {
	hash   uint64 // of the key
	key    string
	next   atomic.Pointer[entry] // with the same bucket
	inUse  atomic.Uint32         // until which minute; 0 before the second request
	pins   atomic.Int32          // requests under way that have failed; negative once it is dropped
	bucket Bucket                // the policy's quota, without Transport.Strategy and PerKey
	policy policy
	shared bool         // the policy is not this key's alone
	failed atomic.Int64 // when it last failed or, before that, was made
	skew   skew
	counts atomic.Pointer[counters] // nil without Transport.KeepStats (stats.go)
}

// forgettable reports whether an entry may be dropped: a new one would be as good,
// or its last failure is long ago. A key that was asked for more than once keeps
// its place for as long, so that its first failure finds a quota of its own. (Date
// has whole seconds, so that a measured skew is never quite 0.)
func (e *entry) forgettable(now time.Duration) bool {
	switch {
	case e.policy.err != nil:
		return true
	case e.inUse.Load() > uint32(now/time.Minute):
		return false
	}
	rested := now-time.Duration(e.failed.Load()) >= keyMemory
	return (rested || e.skew.offset().Abs() <= skewThreshold) && (e.shared || e.policy.asNew(rested))
}

// setSkew keeps a measured skew, but not for keys that share the empty one:
// each may have a clock of its own.
func (e *entry) setSkew(offset time.Duration) {
	if e.key != "" {
		e.skew.store(offset)
	}
}

// keyTable maps keys to entries, at most max of them. A redirect, or a URL in a
// document, can name any number of made-up hosts. So an entry is dropped for another
// only if nothing is lost with it, or if its key has not failed for keyMemory. While
// there is none, further keys share the overflow entry.
//
// It is a hash table with chains that are read without a lock. (A map behind a
// sync.RWMutex takes twice as long for one host, a sync.Map for 100,000.) A
// reader may miss an entry while the table grows, and finds it under the lock.
type keyTable struct {
	max      int
	choosy   bool // a new key needs nothing of its own before it fails
	seed     maphash.Seed
	start    time.Time                               // from which entries count time
	buckets  atomic.Pointer[[]atomic.Pointer[entry]] // a power of two of them, or nil
	size     atomic.Int64                            // how many entries
	inUse    atomic.Uint32                           // what keys get that are asked for; see tellTime
	overflow atomic.Pointer[entry]
	mu       sync.Mutex
	hand     int // the bucket where room was last looked for
}

// find returns the entry of a key, made by create if there is none. Create is
// called outside the lock; if two make the same entry, the second is dropped.
//
// If the table is full and choosy, a request that has not failed seldom looks for
// room: so a crawl allocates nothing, and a host that is asked often gets an entry.
func (t *keyTable) find(key string, failed bool, create func(key string) *entry) *entry {
	full := t.full() // before get: a full table does not grow
	e := t.get(key)
	if e == nil && key != "" && len(key) <= longestKey &&
		(failed || !t.choosy || !full || rand.Uint32N(sampled) == 0) {
		var room bool
		if e, room = t.place(key, nil); room {
			key = strings.Clone(key) // not a piece of a URL that may be long
			e, _ = t.place(key, create(key))
		}
	}
	if e == nil && t.overflow.Load() == nil {
		t.overflow.CompareAndSwap(nil, create(""))
	}
	return cmp.Or(e, t.overflow.Load())
}

// get returns the entry of a key, or nil if there is none.
func (t *keyTable) get(key string) *entry {
	buckets := t.buckets.Load()
	if buckets == nil {
		return nil
	}
	hash := maphash.String(t.seed, key)
	e := bucket(*buckets, hash).Load()
	for e != nil && (e.hash != hash || e.key != key) {
		e = e.next.Load()
	}
	if e != nil {
		if t.full() {
			t.tellTime()
		}
		if inUse := t.inUse.Load(); e.inUse.Load() != inUse {
			e.inUse.Store(inUse)
		}
	}
	return e
}

func (t *keyTable) full() bool { return t.size.Load() >= int64(t.max) }

// tellTime lets one request in many read the clock for when keys were in use, where
// no key may be new for hours. Only a full table drops entries, so only there the
// time must be right.
func (t *keyTable) tellTime() {
	if rand.Uint32N(sampled) == 0 {
		t.inUse.Store(inUseUntil(time.Since(t.start)))
	}
}

// inUseUntil is the minute until which a key that is asked for now is in use.
func inUseUntil(now time.Duration) uint32 { return uint32((now + keyMemory) / time.Minute) }

func bucket(buckets []atomic.Pointer[entry], hash uint64) *atomic.Pointer[entry] {
	return &buckets[hash&uint64(len(buckets)-1)]
}

// place returns the entry of a key, which is made if there was none and there is
// room. Without made it only reports whether there is.
func (t *keyTable) place(key string, made *entry) (e *entry, room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.start)
	t.inUse.Store(inUseUntil(now))
	if e := t.get(key); e != nil {
		return e, false // made in the meantime, or missed while the table grew
	}
	if t.full() && !t.drop(now) || made == nil {
		return nil, !t.full()
	}
	made.hash = maphash.String(t.seed, key)
	made.failed.Store(int64(now))
	t.grow()
	link(*t.buckets.Load(), made)
	t.size.Add(1)
	return made, true
}

// drop drops an entry if it soon finds one that may be.
func (t *keyTable) drop(now time.Duration) bool {
	buckets := *t.buckets.Load()
	for range min(len(buckets), candidates) {
		t.hand = (t.hand + 1) % len(buckets)
		at := &buckets[t.hand]
		for e := at.Load(); e != nil; e = at.Load() {
			if e.forgettable(now) && e.pins.CompareAndSwap(0, math.MinInt32) {
				at.Store(e.next.Load())
				t.size.Add(-1)
				return true
			}
			at = &e.next
		}
	}
	return false
}

// grow makes buckets for another entry.
func (t *keyTable) grow() {
	old, size := t.buckets.Load(), int(t.size.Load())
	if old != nil && size < len(*old)/2 {
		return
	}
	buckets := make([]atomic.Pointer[entry], max(16, 4*size))
	for _, e := range t.all() {
		link(buckets, e)
	}
	t.buckets.Store(&buckets)
}

func link(buckets []atomic.Pointer[entry], e *entry) {
	first := bucket(buckets, e.hash)
	e.next.Store(first.Load())
	first.Store(e)
}

// all lists the entries, under the lock.
func (t *keyTable) all() (all []*entry) {
	if buckets := t.buckets.Load(); buckets != nil {
		for i := range *buckets {
			for e := (*buckets)[i].Load(); e != nil; e = e.next.Load() {
				all = append(all, e)
			}
		}
	}
	return all
}

// pin notes a failure that may be retried, and keeps the entry from being
// dropped until the request has ended. If it was dropped before, or the key had
// none of its own, the request goes on with the one that its key has now: so all
// failures of a key count against one quota.
func (r *route) pin(o *outcome) {
	t, e := r.t, r.entry
	for !r.pinned && e != &t.single {
		if e.key != "" && e.pins.Add(1) > 0 {
			r.pinned = true
		} else if e = t.keys.find(r.key, true, t.newEntry); e.key == "" {
			break
		}
	}
	e.failed.Store(int64(o.Done.Sub(t.keys.start)))
	if e == r.entry {
		return
	}
	if r.policy == &r.entry.policy && e.policy.err == nil {
		r.policy, r.limiter = &e.policy, e.policy.sharedLimiter
	}
	if r.entry = e; t.Prepare != nil {
		r.noteSkew(o) // in the entry that is kept
	}
}

// HostKey returns the key of a request unless Transport.Key says otherwise: the
// URL's host in lower case, without the scheme's default port. A Key that
// divides a host further can begin with it.
//
// A server has one key however its URL spells the port (:080), an IP address
// ([::1], [0::1]) or the end of its name (a dot there speaks to the resolver).
// Names that are not ASCII are as in the URL: which of them are one server only
// golang.org/x/net/idna knows. Write them in its form (xn--…).
func HostKey(req *http.Request) string {
	host, port := cutPort(req.URL.Host)
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = addressKey(host)
	} else if host = lowerASCII(host); !strings.ContainsAny(host, "[:") { // else no name
		host = strings.TrimRight(host, ".")
	}
	if port == "" || port == "80" && req.URL.Scheme == "http" || port == "443" && req.URL.Scheme == "https" {
		return host
	}
	if whole := req.URL.Host; whole[:len(whole)-len(port)-1] == host {
		return whole // as most are
	}
	return host + ":" + port
}

// cutPort divides a host from its port, which loses its leading zeros; a host
// that has none, or a strange one, stays whole.
func cutPort(whole string) (host, port string) {
	colon := strings.LastIndexByte(whole, ':')
	if colon < 0 || strings.IndexByte(whole[:colon], ':') >= 0 && whole[colon-1] != ']' {
		return whole, ""
	}
	host, port = whole[:colon], whole[colon+1:]
	if strings.Trim(port, "0123456789") != "" {
		return whole, ""
	}
	for len(port) > 1 && port[0] == '0' {
		port = port[1:]
	}
	return host, port
}

// addressKey is the shortest form of an IP address in brackets, which stay if
// it needs them. The name of a zone is an interface's, and keeps its case.
func addressKey(host string) string {
	inside := host[1 : len(host)-1]
	address, err := netip.ParseAddr(inside)
	if err != nil {
		return lowerASCII(host)
	}
	address = address.Unmap() // a dial makes no difference
	var buf [64]byte
	short := address.AppendTo(buf[:0])
	switch {
	case address.Is4():
		return string(short)
	case string(short) == inside:
		return host
	}
	return "[" + string(short) + "]"
}

// lowerASCII makes A to Z small, and returns the host itself if it has none of
// them. Other letters stay: of İ, strings.ToLower makes an i, while net/http
// makes xn--… of it and so calls another host.
func lowerASCII(host string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, host)
}

// entryOf finds what is kept for the request's key.
func (t *Transport) entryOf(req *http.Request) (e *entry, key string) {
	if t.Key != nil {
		key = t.Key(req)
		return t.keys.find(key, false, t.newEntry), key
	}
	// A host that is a key as it stands is its own, which most are: this saves
	// looking at each of its letters.
	if host := req.URL.Host; !strings.HasSuffix(host, ":80") && !strings.HasSuffix(host, ":443") {
		if e := t.keys.get(host); e != nil {
			return e, host
		}
	}
	key = HostKey(req)
	return t.keys.find(key, false, t.newEntry), key
}

const (
	// skewThreshold is the difference of clocks that a skew error must come
	// with to be believed: aws-sdk-go-v2, aws/retry, strictly more than 4 min.
	skewThreshold = 4 * time.Minute
	// maxTrustedTrip is the longest exchange whose middle says anything about
	// the server's clock: aws-sdk-go-v2, 15 minutes.
	maxTrustedTrip = 15 * time.Minute
	// maxSkew is the largest difference taken for a wrong clock. Our choice: by
	// more than a day, it is rather the server's that is wrong.
	maxSkew = 24 * time.Hour
)

// skew is the offset of a server's clock from ours, positive if its clock is
// ahead. Concurrent requests each keep the offset they were signed with; what
// is here is for the next.
type skew struct{ ns atomic.Int64 }

func (s *skew) offset() time.Duration      { return time.Duration(s.ns.Load()) }
func (s *skew) store(offset time.Duration) { s.ns.Store(int64(offset)) }

// measureSkew compares the Date of a response with the middle of the exchange.
// It trusts only a server that has proved who it is, and no reply out of a
// cache, whose Date is old.
func measureSkew(a Attempt) (offset time.Duration, ok bool) {
	if a.Response == nil || a.Response.TLS == nil || a.Response.Header.Get("Age") != "" {
		return 0, false
	}
	date, err := http.ParseTime(a.Response.Header.Get("Date"))
	trip := a.Done.Sub(a.Sent)
	if err != nil || trip > maxTrustedTrip {
		return 0, false
	}
	offset = date.Sub(a.Sent.Add(trip / 2))
	return offset, offset.Abs() <= maxSkew
}

// explainsRefusal reports whether an attempt signed with one offset was
// refused because the true offset is another one, by the least difference or more.
func explainsRefusal(signed, measured, least time.Duration) bool {
	return (measured - signed).Abs() >= cmp.Or(least, skewThreshold+1)
}
