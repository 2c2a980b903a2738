package retrip

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"

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
		return handshakeAlerts[alertOf(op)] != 0
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

// handshakeAlerts are the alerts of RFC 8446 6.2 that only a handshake sends, and
// whether our settings are bound to bring them again. handshake_failure and
// unrecognized_name are also sent by servers while they are set up; others, such as
// internal_error, may also break off a request under way.
var handshakeAlerts = map[uint8]alertCause{
	40:  byChance,   // handshake_failure
	42:  bySettings, // bad_certificate
	43:  bySettings, // unsupported_certificate
	44:  bySettings, // certificate_revoked
	45:  bySettings, // certificate_expired
	46:  bySettings, // certificate_unknown
	48:  bySettings, // unknown_ca
	49:  bySettings, // access_denied
	70:  bySettings, // protocol_version
	71:  bySettings, // insufficient_security
	86:  byChance,   // inappropriate_fallback
	109: byChance,   // missing_extension
	112: byChance,   // unrecognized_name
	115: byChance,   // unknown_psk_identity
	116: bySettings, // certificate_required
	120: bySettings, // no_application_protocol
}

type alertCause uint8

const (
	byChance alertCause = iota + 1
	bySettings
)

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
