package retrip

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// WithIdempotencyKey returns a RoundTripper that gives each POST, PATCH or
// other request that is not idempotent an Idempotency-Key, and hands it on to
// next: put it around a Transport, which then retries such requests, with the
// same key each time. The key is random (128 bits). A request that has a key,
// or another of the marks that make it repeatable, stays as it is.
//
// Only requests to the hosts get one, which are named as HostKey does: those
// whose service honours keys (api.stripe.com, for example). A host that a
// redirect leads to is looked at anew, so no other ever sees a key. A nil next
// is a Transport with its defaults. Without hosts, RoundTrip returns an error
// and sends nothing.
func WithIdempotencyKey(next http.RoundTripper, hosts ...string) http.RoundTripper {
	if next == nil {
		next = new(Transport)
	}
	kept := make([]string, len(hosts))
	for i, host := range hosts {
		kept[i] = strings.Clone(host) // perhaps a piece of a long text
	}
	return &keyGiver{next, kept}
}

type keyGiver struct {
	next  http.RoundTripper
	hosts []string
}

func (k *keyGiver) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(k.hosts) == 0 {
		closeBody(req)
		return nil, errors.New("retrip: WithIdempotencyKey got no hosts: name those whose service honours the key")
	}
	if req == nil || req.URL == nil || req.Header == nil || req.Method == http.MethodConnect ||
		repeatable(req) || hasKey(req.Header) || !slices.Contains(k.hosts, HostKey(req)) {
		return k.next.RoundTrip(req)
	}
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	out.Header.Set("Idempotency-Key", rand.Text())
	resp, err := k.next.RoundTrip(out)
	if resp != nil && resp.Request == out {
		resp.Request = req
	}
	return resp, err
}

// hasKey also sees a key whose name is not in canonical form.
func hasKey(h http.Header) bool {
	for name := range h {
		if strings.EqualFold(name, "Idempotency-Key") || strings.EqualFold(name, "X-Idempotency-Key") {
			return true
		}
	}
	return false
}

// Unwrap returns next.
func (k *keyGiver) Unwrap() http.RoundTripper { return k.next }

// CloseIdleConnections closes those of next, if it knows how to.
func (k *keyGiver) CloseIdleConnections() {
	if next, ok := k.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
