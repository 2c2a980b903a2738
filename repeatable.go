package retrip

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"

	"github.com/retrip-go/retrip/internal/replay"
)

// hasBody reports whether a request carries a body at all.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// closeBody closes the body of a request that is not sent.
func closeBody(req *http.Request) {
	if req != nil {
		replay.Close(req.Body)
	}
}

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
// then any request may be sent again. byCode tells that an error code decided.
func unprocessed(a Attempt, class Class, byCode bool) bool {
	if a.Response != nil {
		switch a.Response.StatusCode {
		case http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return class == ClockSkewed || class == Throttled && (byCode || a.Response.StatusCode/100 == 4)
	}
	var (
		op     *net.OpError
		stream http2StreamError
	)
	switch {
	case hasBody(a.Request) && a.Request.GetBody != nil && !replay.InMemory(a.Request.Body):
		return false // the error may be the body's own, from wherever it comes
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
		alert := reflect.ValueOf(op.Err)
		return alert.Kind() == reflect.Uint8 && slices.Contains(handshakeAlerts, uint8(alert.Uint()))
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() &&
			err.Error() == "net/http: TLS handshake timeout" {
			return true
		}
	}
	return false
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
