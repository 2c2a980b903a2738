package retrip

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const defaultMaxKeys = 1024 // see Transport.MaxKeys

// An entry is what a Transport keeps for one key.
type entry struct {
	key      string
	strategy *Strategy
	shared   bool // the strategy is not this key's alone
	err      error
	skew     skew
	used     atomic.Bool // since the hand last passed; written only when clear
}

// forgettable reports whether a new entry would be as good as this one, so that
// nobody gains by having it dropped. (Date has whole seconds, so that a measured
// skew is never quite 0.)
func (e *entry) forgettable() bool {
	return e.err != nil || e.skew.offset().Abs() <= skewThreshold && (e.shared || e.strategy.asNew())
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
type keyTable struct {
	max      int
	entries  sync.Map // string → *entry
	overflow atomic.Pointer[entry]

	mu   sync.Mutex
	ring []*entry // all entries, for the clock hand
	hand int
}

// find returns the entry of a key, made by create if there is none. Create is
// called outside the lock; if two make the same entry, the second is dropped.
func (t *keyTable) find(key string, create func(key string) *entry) *entry {
	if found, ok := t.entries.Load(key); ok {
		e := found.(*entry)
		if !e.used.Load() {
			e.used.Store(true)
		}
		return e
	}
	if key != "" && t.makeRoom() {
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

// makeRoom reports whether there is room for another entry, dropping one if
// need be and possible.
func (t *keyTable) makeRoom() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) < t.max {
		return true
	}
	victim := t.victim()
	if victim < 0 {
		return false
	}
	t.entries.Delete(t.ring[victim].key)
	last := len(t.ring) - 1
	t.ring[victim] = t.ring[last]
	t.ring = t.ring[:last]
	return true
}

// insert returns the entry of e's key, or nil if the room for it was taken in
// the meantime.
func (t *keyTable) insert(e *entry) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.entries.Load(e.key); ok {
		return found.(*entry)
	}
	if len(t.ring) == t.max {
		return nil
	}
	e.used.Store(true)
	t.ring = append(t.ring, e)
	t.entries.Store(e.key, e)
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
func HostKey(req *http.Request) string {
	host := req.URL.Host
	switch req.URL.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return strings.ToLower(host) // itself if it is in lower case already
}
