package otelretrip

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/retrip-go/retrip"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// An address is the server that a request is sent to, in the semantic conventions' words.
type address struct {
	host string
	port int // 0 if it is not known
}

// addressOf returns the address of a URL. A host that is no name (URLs escape
// and redirects lie) is "_OTHER": exporters may refuse the whole batch for it.
func addressOf(u *url.URL) address {
	host := u.Hostname()
	const longest = 253 // RFC 1035 2.3.4, without dots at either end
	if host == "" || len(host) > longest || !utf8.ValidString(host) {
		return address{host: other}
	}
	a := address{host: lowerASCII(host)}
	switch port := u.Port(); {
	case port != "":
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			a.port = int(n)
		}
	case u.Scheme == "http":
		a.port = 80
	case u.Scheme == "https":
		a.port = 443
	}
	return a
}

func (a address) attributes() []attribute.KeyValue {
	if a.host == "" {
		return nil
	}
	attrs := []attribute.KeyValue{semconv.ServerAddress(a.host)}
	if a.port > 0 {
		attrs = append(attrs, semconv.ServerPort(a.port))
	}
	return attrs
}

// servers are those that metrics tell apart, and which of them a key is of.
type servers struct {
	known  table[address, *server]
	keys   table[string, *server]
	others *server // all further ones
	shared *server // of a state that belongs to no server
}

func newServers(limit int) *servers {
	return &servers{
		known:  table[address, *server]{max: limit},
		keys:   table[string, *server]{max: limit},
		others: newServer(address{host: other}),
		shared: newServer(address{}),
	}
}

// of returns the server that an event is about.
func (s *servers) of(e retrip.Event) *server {
	a := addressOf(e.Request.URL)
	found, ok := s.known.get(a)
	if !ok {
		found = s.others
		if !s.known.full() {
			a.host = strings.Clone(a.host) // not a piece of a longer URL
			if added, ok := s.known.add(a, newServer(a)); ok {
				found = added
			}
		}
	}
	if e.Key != "" {
		if _, known := s.keys.get(e.Key); !known && !s.keys.full() {
			s.keys.add(e.Key, found)
		}
	}
	return found
}

// ofKey returns the server whose requests have brought the key.
func (s *servers) ofKey(key string) *server {
	if key == "" {
		return s.shared
	}
	if found, ok := s.keys.get(key); ok {
		return found
	}
	return s.others
}

// A server has the attribute sets with which it is measured, made once each: a
// measurement must not allocate them.
type server struct {
	attrs    []attribute.KeyValue
	words    table[labels, *set] // in retrip's own words, of which there are few
	attempts table[labels, *set] // in a server's
}

const (
	allWords = 1000 // more than there are
	// maxAttemptSets bounds the methods, statuses and kinds of errors of a server.
	// Our choice: honest ones have a dozen, hostile ones could make up hundreds.
	maxAttemptSets = 32
)

func newServer(a address) *server {
	return &server{
		attrs:    a.attributes(),
		words:    table[labels, *set]{max: allWords},
		attempts: table[labels, *set]{max: maxAttemptSets},
	}
}

// labels are what a measurement says beside the server; what is zero it
// doesn't.
type labels struct {
	class             retrip.Class
	reason            retrip.Reason
	outcome, waitFrom string

	method    string
	status    int
	errorType string
}

// A set is an attribute set in the forms in which instruments take it.
type set struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

// with returns the attribute set of the server and l.
func (s *server) with(l labels) *set {
	if l.method != "" {
		if found, ok := s.attempts.get(l); ok {
			return found
		}
		if !s.attempts.full() {
			if added, ok := s.attempts.add(l, s.newSet(l)); ok {
				return added
			}
		}
		l = l.others()
	}
	if found, ok := s.words.get(l); ok {
		return found
	}
	added, _ := s.words.add(l, s.newSet(l)) // there is room for all
	return added
}

// others stands for the labels for which there is no room.
func (l labels) others() labels {
	if l.errorType != "" {
		return labels{method: other, errorType: other}
	}
	return labels{method: other}
}

func (s *server) newSet(l labels) *set {
	attrs := append([]attribute.KeyValue(nil), s.attrs...)
	text := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	if l.class != retrip.Unknown {
		text(classKey, l.class.String())
	}
	if l.reason != 0 {
		text(reasonKey, l.reason.String())
	}
	text(outcomeKey, l.outcome)
	text(waitFromKey, l.waitFrom)
	text(semconv.HTTPRequestMethodKey, l.method)
	if l.status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(l.status))
	}
	text(semconv.ErrorTypeKey, l.errorType)
	option := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return &set{
		add:     []metric.AddOption{option},
		record:  []metric.RecordOption{option},
		observe: []metric.ObserveOption{option},
	}
}

// A table is a map with at most max entries that is read without a lock: every
// request reads it, few write.
type table[K comparable, V any] struct {
	max     int
	mu      sync.Mutex
	entries atomic.Pointer[map[K]V]
}

func (t *table[K, V]) get(key K) (value V, ok bool) {
	if entries := t.entries.Load(); entries != nil {
		value, ok = (*entries)[key]
	}
	return value, ok
}

func (t *table[K, V]) full() bool {
	entries := t.entries.Load()
	return entries != nil && len(*entries) >= t.max
}

// add returns what the key has, which is value if it had nothing, or false if
// there is no room.
func (t *table[K, V]) add(key K, value V) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := t.entries.Load()
	if entries == nil {
		entries = new(map[K]V)
	}
	if found, ok := (*entries)[key]; ok || len(*entries) >= t.max {
		return found, ok
	}
	more := maps.Clone(*entries)
	if more == nil {
		more = map[K]V{}
	}
	more[key] = value
	t.entries.Store(&more)
	return value, true
}

// lowerASCII makes A to Z small and leaves other letters alone, which make
// another host (retrip.HostKey has the reason).
func lowerASCII(host string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, host)
}
