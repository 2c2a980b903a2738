package retrip

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
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
// then any request may be sent again. proves tells that the classifier says so,
// and bodysOwn that an error may have come out of the body that was sent, where
// it says nothing about this server.
func unprocessed(a Attempt, class Class, proves, bodysOwn bool) bool {
	if a.Response != nil {
		switch a.Response.StatusCode {
		case http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return proves || class == ClockSkewed || class == Throttled && a.Response.StatusCode/100 == 4
	}
	var (
		op     *net.OpError
		stream http2StreamError
	)
	switch {
	case bodysOwn:
		return false
	case proves:
		return true
	case errors.As(a.Err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return true // no connection, so no request
	case errors.As(a.Err, &stream) && stream.Code == refusedStream:
		return true // RFC 9113 8.7: refused before any processing
	}
	return handshakeFailed(a.Err)
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
