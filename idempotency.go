package retrip

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/retrip-go/retrip/internal/replay"
)

// IdempotencyKeyTransport is an http.RoundTripper that gives each POST, PATCH or
// other request that is not idempotent an Idempotency-Key before it hands it to
// Base. Put it around a Transport, which then retries such requests with the same
// key. The key is random (at least 128 bits). A request that has a key, or another
// mark that makes it repeatable, stays as it is.
//
// The settings must not change after the first use. It is safe for concurrent use.
type IdempotencyKeyTransport struct {
	// Base sends the requests. nil is a Transport with its defaults.
	Base http.RoundTripper

	// Hosts are the hosts whose service honours keys, such as "api.stripe.com",
	// spelled as HostKey does. Requests to others get no key; the target of a
	// redirect is looked at anew, so no other host ever sees one. Without Hosts,
	// RoundTrip returns an error and sends nothing.
	Hosts []string

	once sync.Once
	base http.RoundTripper
}

// RoundTrip sends req, or a copy of it that has a key.
func (t *IdempotencyKeyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Unwrap()
	if len(t.Hosts) == 0 {
		if req != nil && req.Body != nil {
			replay.Close(req.Body)
		}
		return nil, errors.New("retrip: IdempotencyKeyTransport.Hosts is empty: name the hosts whose service honours the key")
	}
	if req == nil || req.URL == nil || req.Header == nil || req.Method == http.MethodConnect ||
		repeatable(req) || hasKey(req.Header) || !slices.Contains(t.Hosts, HostKey(req)) {
		return base.RoundTrip(req)
	}
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	out.Header.Set("Idempotency-Key", rand.Text())
	resp, err := base.RoundTrip(out)
	if resp != nil && resp.Request == out {
		resp.Request = req
	}
	return resp, err
}

// Unwrap returns Base, or the Transport that stands in for a nil Base.
func (t *IdempotencyKeyTransport) Unwrap() http.RoundTripper {
	t.once.Do(func() {
		if t.base = t.Base; t.base == nil {
			t.base = new(Transport)
		}
	})
	return t.base
}

// CloseIdleConnections closes those of Base, if it knows how to.
func (t *IdempotencyKeyTransport) CloseIdleConnections() { closeIdle(t.Unwrap()) }

// hasKey also sees a key whose name is not in canonical form.
func hasKey(h http.Header) bool {
	for name := range h {
		if strings.EqualFold(name, "Idempotency-Key") || strings.EqualFold(name, "X-Idempotency-Key") {
			return true
		}
	}
	return false
}
