package retrip

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// See Transport.MaxKeys.
const (
	defaultMaxKeys = 1024
	longestKey     = 1 << 10 // our choice: names of hosts end at 253 bytes
)

// An entry is what a Transport keeps for one key. What a success looks at comes
// first and lies together: with many hosts, its memory is what the way costs.
type entry struct {
	hash   uint64 // of the key
	key    string
	next   atomic.Pointer[entry] // with the same bucket
	used   atomic.Bool           // since the hand last passed; written only when clear
	shared bool                  // the policy is not this key's alone
	policy policy
	skew   skew
	counts atomic.Pointer[counters] // nil without Transport.KeepStats (stats.go)
}

// forgettable reports whether a new entry would be as good as this one, so that
// nobody gains by having it dropped. (Date has whole seconds, so that a measured
// skew is never quite 0.)
func (e *entry) forgettable() bool {
	return e.policy.err != nil || e.skew.offset().Abs() <= skewThreshold && (e.shared || e.policy.asNew())
}

// setSkew keeps a measured skew, but not for keys that share the empty one:
// each may have a clock of its own.
func (e *entry) setSkew(offset time.Duration) {
	if e.key != "" {
		e.skew.store(offset)
	}
}

// keyTable maps keys to entries, at most max of them. Hosts can be made up by
// whoever controls a redirect or a URL in a document, so an entry that is not
// as new is never dropped for another: when there is no other, further keys
// share the overflow entry.
//
// It is a hash table with chains that are read without a lock. (A sync.Map
// takes twice as long over a thousand hosts: it finds the entry in three more
// places of memory.) Who reads while the table grows may miss an entry, and
// finds it under the lock.
type keyTable struct {
	max      int
	seed     maphash.Seed
	buckets  atomic.Pointer[[]atomic.Pointer[entry]] // a power of two of them, or nil
	overflow atomic.Pointer[entry]

	mu   sync.Mutex
	ring []*entry // all entries, for the clock hand
	hand int
}

// find returns the entry of a key, made by create if there is none. Create is
// called outside the lock; if two make the same entry, the second is dropped.
func (t *keyTable) find(key string, create func(key string) *entry) *entry {
	if e := t.get(key); e != nil {
		return e
	}
	found, room := t.makeRoom(key)
	if found != nil {
		return found
	}
	if room {
		key = strings.Clone(key) // not a piece of a URL that may be long
		if e := t.insert(create(key)); e != nil {
			return e
		}
	}
	if t.overflow.Load() == nil {
		t.overflow.CompareAndSwap(nil, create(""))
	}
	return t.overflow.Load()
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
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

func bucket(buckets []atomic.Pointer[entry], hash uint64) *atomic.Pointer[entry] {
	return &buckets[hash&uint64(len(buckets)-1)]
}

// grow makes room for another entry in the hash table, under the lock.
func (t *keyTable) grow() {
	if old := t.buckets.Load(); old != nil && len(t.ring) < len(*old) {
		return
	}
	buckets := make([]atomic.Pointer[entry], max(8, 2*len(t.ring)))
	for _, e := range t.ring {
		link(buckets, e)
	}
	t.buckets.Store(&buckets)
}

func link(buckets []atomic.Pointer[entry], e *entry) {
	first := bucket(buckets, e.hash)
	e.next.Store(first.Load())
	first.Store(e)
}

func unlink(buckets []atomic.Pointer[entry], e *entry) {
	at := bucket(buckets, e.hash)
	for at.Load() != e {
		at = &at.Load().next
	}
	at.Store(e.next.Load())
}

// makeRoom reports whether there is room for another entry, dropping one if
// need be and possible.
func (t *keyTable) makeRoom(key string) (found *entry, room bool) {
	if key == "" || len(key) > longestKey {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.get(key); e != nil {
		return e, false // made in the meantime, or missed while the table grew
	}
	if len(t.ring) < t.max {
		return nil, true
	}
	victim := t.victim()
	if victim < 0 {
		return nil, false
	}
	unlink(*t.buckets.Load(), t.ring[victim])
	last := len(t.ring) - 1
	t.ring[victim] = t.ring[last]
	t.ring = t.ring[:last]
	return nil, true
}

// insert returns the entry of e's key, or nil if the room for it was taken in
// the meantime.
func (t *keyTable) insert(e *entry) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.get(e.key); found != nil {
		return found
	}
	if len(t.ring) == t.max {
		return nil
	}
	t.grow()
	e.hash = maphash.String(t.seed, e.key)
	e.used.Store(true)
	link(*t.buckets.Load(), e)
	t.ring = append(t.ring, e)
	return e
}

// victim moves the hand to an entry that can be dropped, giving those in use a
// second chance. It looks at no more than the default size twice over, so that
// a flood of keys can't make each request walk through a huge table.
func (t *keyTable) victim() int {
	for range 2 * min(len(t.ring), defaultMaxKeys) {
		t.hand = (t.hand + 1) % len(t.ring)
		e := t.ring[t.hand]
		if e.used.Load() {
			e.used.Store(false)
		} else if e.forgettable() {
			return t.hand
		}
	}
	return -1
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
func (t *Transport) entryOf(req *http.Request) *entry {
	if t.Key != nil {
		return t.keys.find(t.Key(req), t.newEntry)
	}
	// A host that is a key as it stands is its own, which most are: this saves
	// looking at each of its letters.
	if host := req.URL.Host; !strings.HasSuffix(host, ":80") && !strings.HasSuffix(host, ":443") {
		if e := t.keys.get(host); e != nil {
			return e
		}
	}
	return t.keys.find(HostKey(req), t.newEntry)
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
