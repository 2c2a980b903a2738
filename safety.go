package retrip

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/retrip-go/retrip/internal/replay"
)

// repeatable reports whether a request may be sent twice although the first
// time may have had its effect: RFC 9110 9.2.2 for the methods, with QUERY
// from its own RFC. The keys are those net/http itself takes for a promise;
// amz-sdk-invocation-id is an AWS SDK's mark on operations made to be repeated.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "QUERY":
		return true
	}
	for _, promise := range [...]string{"Idempotency-Key", "X-Idempotency-Key", "Amz-Sdk-Invocation-Id"} {
		if _, made := req.Header[promise]; made {
			return true
		}
	}
	return false
}

// unprocessed reports whether the outcome proves that the server did nothing:
// then any request may be sent again.
func unprocessed(o *outcome, v verdict) bool {
	if o.Response != nil {
		switch o.Response.StatusCode {
		case http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return v.proves || v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4
	}
	var (
		op     *net.OpError
		stream http2StreamError
	)
	switch {
	case o.sent != replay.Fine:
		return false // the error may be the body's own, and says nothing about this server
	case v.proves:
		return true
	case errors.As(o.Err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return true // no connection, so no request
	case errors.As(o.Err, &stream) && stream.Code == refusedStream:
		return true // RFC 9113 8.7: refused before any processing
	}
	return handshakeFailed(o.Err)
}

// handshakeFailed reports whether a TLS handshake broke off. The types that
// tell it are private: crypto/tls wraps its alert, a uint8, in a net.OpError
// (crypto/tls/conn.go), and net/http's handshake timeout is a timeout with
// exactly this text (net/http/transport.go, tlsHandshakeTimeoutError).
func handshakeFailed(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return slices.Contains(handshakeAlerts, alertOf(op))
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() &&
			err.Error() == "net/http: TLS handshake timeout" {
			return true
		}
	}
	return false
}

// alertOf is the TLS alert that op tells of, or 0, which ends no handshake.
func alertOf(op *net.OpError) uint8 {
	if alert := reflect.ValueOf(op.Err); alert.Kind() == reflect.Uint8 {
		return uint8(alert.Uint())
	}
	return 0
}

// handshakeAlerts are the alerts of RFC 8446 6.2 that only a handshake sends.
// Others, such as internal_error, may also break off a request under way.
var handshakeAlerts = []uint8{
	40,                         // handshake_failure
	42, 43, 44, 45, 46, 48, 49, // certificates: bad, unsupported, revoked, expired, unknown, unknown_ca, access_denied
	70, 71, // protocol_version, insufficient_security
	86,            // inappropriate_fallback
	109,           // missing_extension
	112,           // unrecognized_name
	115, 116, 120, // unknown_psk_identity, certificate_required, no_application_protocol
}

// http2StreamError has the shape of net/http's HTTP/2 stream error, which
// errors.As fills in for any struct of this shape (net/http/h2_error.go).
type http2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

const refusedStream = 0x7 // RFC 9113 section 7

func (e http2StreamError) Error() string {
	return fmt.Sprintf("HTTP/2 stream %d: error %d", e.StreamID, e.Code)
}

// IdempotencyKeyTransport is an http.RoundTripper that gives each POST, PATCH or
// other request that is not idempotent an Idempotency-Key before it hands it to
// Base. Put it around a Transport, which then retries such requests with the same
// key. The key is random (at least 128 bits). A request that has a key, or another mark
// that makes it repeatable, stays as it is.
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
