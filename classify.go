package retrip

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Class is what the outcome of an attempt means.
type Class uint8

const (
	// Unknown is a classifier's way to have no opinion. An outcome on which no
	// classifier has one is a Success below status 400 and Permanent otherwise.
	Unknown Class = iota
	// Success needs no retry. Redirects count: they are the client's business.
	Success
	// Transient failures may be gone at the next attempt.
	Transient
	// Throttled means that the server asks for fewer requests. A request that was
	// refused for that with a 4xx, or with an error code, was not processed: it
	// is sent again even if it is not idempotent.
	Throttled
	// ClockSkewed means that the server refused the request's time stamp, and so
	// did not process it. It is worth a retry only if the clocks are seen to
	// differ and Transport.Prepare can sign with a corrected time.
	ClockSkewed
	// Permanent failures would only be repeated by a repetition.
	Permanent
	// NeedsBody asks for Attempt.Body, and then to be asked once more. RoundTrip
	// waits until 64 KiB or all of it have come, so a classifier must not answer
	// so for a response that is a stream. One that answers so again has no
	// opinion.
	NeedsBody
)

var classNames = [...]string{"unknown", "success", "transient", "throttled", "clock-skewed", "permanent", "needs body"}

// String returns the class's name, such as "clock-skewed".
func (c Class) String() string { return nameOf(classNames[:], c) }

func (c Class) check() error {
	if c > Permanent {
		return fmt.Errorf("has the class %v, which does not exist: use one of Success to Permanent", c)
	}
	return nil
}

// Attempt is one attempt and its outcome, as classifiers and wait readers see
// it. They must not modify, read or close what it points to: the caller still
// gets the response.
type Attempt struct {
	// Number is 1 for the first attempt.
	Number int
	// Request is the caller's request.
	Request *http.Request
	// Response is the answer, or nil if there was none.
	Response *http.Response
	// Err is why there was no answer, or nil.
	Err error
	// Code is the error code found in the headers or the body of a 4xx or 5xx,
	// such as "ThrottlingException", or empty. To find it in a body, up to 64 KiB
	// of JSON or XML are read ahead, for up to 250 ms.
	Code string
	// Body is the beginning of the answer's body, up to 64 KiB and with gzip
	// undone, if it was looked at: always for 4xx and 5xx in JSON or XML, unless
	// the headers name the code, otherwise if a classifier asks (NeedsBody). It
	// is nil if it was not, and empty if nothing came in time. It must not be
	// modified.
	Body []byte
	// Sent and Done are when the attempt began and when its response headers or
	// its error came. Sent is zero unless something had to read the clock: a
	// limiter, Prepare, Observe, a trace or AttemptTimeout; so is Done, below
	// status 400.
	Sent, Done time.Time
}

// A Classifier says what an outcome means, or Unknown if it has no opinion.
// A strategy asks its classifiers in order and takes the first opinion, also
// for successes. Classify is called from many goroutines at once.
//
// A Classifier may also have a method FailuresOnly() bool. If that returns true,
// it is not asked about responses below status 400: where nobody is, a request
// that succeeds at once costs least.
type Classifier interface {
	Classify(Attempt) Class
}

// ClassifierFunc makes a Classifier of a function.
type ClassifierFunc func(Attempt) Class

// Classify calls f.
func (f ClassifierFunc) Classify(a Attempt) Class { return f(a) }

// OnStatus gives the responses with one of the statuses the class c.
func OnStatus(c Class, statuses ...int) Classifier {
	return statusRule{c, slices.Clone(statuses)}
}

// OnCode gives the responses with one of the error codes the class c. Codes
// are compared exactly.
func OnCode(c Class, codes ...string) Classifier {
	return newCodeRule(c, codes...)
}

// OnHeader gives the 4xx and 5xx responses whose first header of the name has
// the value the class c. An empty value stands for any, also an empty one.
// Upper and lower case are the same.
func OnHeader(c Class, name, value string) Classifier {
	return headerRule{c, http.CanonicalHeaderKey(name), value}
}

// OnError gives the errors that match target, by errors.Is, the class c.
func OnError(c Class, target error) Classifier {
	return errorRule{c, fmt.Sprintf("errors.Is %v", target), func(err error) bool { return errors.Is(err, target) }}
}

// OnErrorType gives the errors that have an E in their tree, by errors.As, the
// class c.
func OnErrorType[E error](c Class) Classifier {
	return errorRule{c, fmt.Sprintf("errors.As %T", *new(E)), func(err error) bool { return errors.As(err, new(E)) }}
}

type statusRule struct {
	class    Class
	statuses []int
}

func (r statusRule) Classify(a Attempt) Class {
	if a.Response != nil && slices.Contains(r.statuses, a.Response.StatusCode) {
		return r.class
	}
	return Unknown
}

func (r statusRule) String() string { return fmt.Sprintf("%v: status %v", r.class, r.statuses) }
func (r statusRule) check() error   { return r.class.check() }
func (r statusRule) FailuresOnly() bool {
	return !slices.ContainsFunc(r.statuses, func(status int) bool { return status < 400 })
}

// codeRule is a type of its own because its verdicts weigh more: they prove
// what happened to the request, and its codes are safe to show.
type codeRule struct {
	class  Class
	status int // that the response must have, or 0
	codes  map[string]struct{}
}

func newCodeRule(c Class, codes ...string) *codeRule {
	set := make(map[string]struct{}, len(codes))
	for _, code := range codes {
		if code != "" { // no code is no code, whoever lists it
			set[code] = struct{}{}
		}
	}
	return &codeRule{class: c, codes: set}
}

func (r *codeRule) Classify(a Attempt) Class {
	if a.Code == "" || r.status != 0 && a.Response.StatusCode != r.status {
		return Unknown
	}
	if _, listed := r.codes[a.Code]; listed {
		return r.class
	}
	return Unknown
}

func (r *codeRule) String() string {
	if r.status != 0 {
		return fmt.Sprintf("%v: %d codes with status %d", r.class, len(r.codes), r.status)
	}
	return fmt.Sprintf("%v: %d codes", r.class, len(r.codes))
}
func (r *codeRule) check() error       { return r.class.check() }
func (r *codeRule) FailuresOnly() bool { return true }

type headerRule struct {
	class       Class
	name, value string
}

func (r headerRule) Classify(a Attempt) Class {
	if a.Response == nil || a.Response.StatusCode < 400 {
		return Unknown
	}
	if values := a.Response.Header[r.name]; len(values) > 0 && (r.value == "" || strings.EqualFold(values[0], r.value)) {
		return r.class
	}
	return Unknown
}

func (r headerRule) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%v: header %s: %s", r.class, r.name, r.value), ": ")
}

func (r headerRule) check() error {
	if r.name == "" {
		return errors.New("has no header name")
	}
	return r.class.check()
}

func (r headerRule) FailuresOnly() bool { return true }

type errorRule struct {
	class Class
	what  string
	match func(error) bool
}

func (r errorRule) Classify(a Attempt) Class {
	if a.Err != nil && r.match(a.Err) {
		return r.class
	}
	return Unknown
}

func (r errorRule) String() string { return fmt.Sprintf("%v: %s", r.class, r.what) }
func (r errorRule) check() error   { return r.class.check() }

func (r errorRule) FailuresOnly() bool { return true }

// The error codes that the AWS SDKs and Tools Reference Guide ("Retry
// behavior", 2026) lists for the standard and adaptive modes.
var (
	throttlingCodes = newCodeRule(Throttled,
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException",
		"TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "RequestThrottled", "SlowDown", "PriorRequestNotComplete",
		"EC2ThrottledException")
	transientCodes = newCodeRule(Transient,
		"RequestTimeout", "RequestTimeoutException", "InternalError", "IDPCommunicationError")
	// The codes of aws-sdk-go-v2 (aws/retry, 2026 rules): each may mean a wrong
	// clock, none does unless the clocks are seen to differ.
	clockSkewCodes = newCodeRule(ClockSkewed,
		"InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure",
		"RequestTimeTooSkewed", "AccessDeniedException")
)

// statusClasses reads the status by what RFC 9110 and its relatives say of it.
type statusClasses struct{}

func (statusClasses) Classify(a Attempt) Class {
	if a.Response == nil {
		return Unknown
	}
	switch status := a.Response.StatusCode; status {
	case http.StatusTooManyRequests:
		return Throttled
	case http.StatusRequestTimeout, // RFC 9110 15.5.9: the client may repeat the request
		http.StatusTooEarly: // RFC 8470 5.2: the client may repeat it once the handshake is over
		return Transient
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
		http.StatusNotExtended, http.StatusNetworkAuthenticationRequired:
		return Permanent // these ask for another request, not for the same one again
	default:
		return byRange(status)
	}
}

func (statusClasses) String() string {
	return "statuses 5xx but 501 505 510 511, 408, 425 (transient), 429 (throttled)"
}

func byRange(status int) Class {
	switch {
	case status < 400:
		return Success
	case status >= 500:
		return Transient
	default:
		return Permanent
	}
}

// transportErrors takes every error of the base for transient except those
// that the same request is bound to meet again.
type transportErrors struct{}

func (transportErrors) Classify(a Attempt) Class {
	switch {
	case a.Err == nil:
		return Unknown
	case hopeless(a.Err):
		return Permanent
	default:
		return Transient
	}
}

func (transportErrors) FailuresOnly() bool { return true }

func (transportErrors) String() string {
	return "errors but bad certificates, unknown hosts, malformed messages (transient)"
}

func hopeless(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
		roots       x509.SystemRootsError
		notTLS      tls.RecordHeaderError
		dns         *net.DNSError
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &hostname),
		errors.As(err, &invalid), errors.As(err, &roots):
		return true
	case errors.As(err, &notTLS): // TLS spoken to a server that speaks none
		return true
	case errors.As(err, &dns) && dns.IsNotFound:
		return true
	}
	return malformed(err)
}

// malformed reports whether the request, the answer or the base itself is
// broken, so that not even a patient SDK would try again.
func malformed(err error) bool {
	var (
		network  net.UnknownNetworkError
		address  *net.AddrError
		contract *baseError
		length   *bodyLengthError
	)
	return errors.As(err, &network) || errors.As(err, &address) ||
		errors.As(err, &contract) || errors.As(err, &length) || hopelessText(err)
}

// hopelessText knows the errors of net/http that have no type of their own.
// Text decides nowhere else, but for the one in handshakeFailed.
func hopelessText(err error) bool {
	text := err.Error()
	for _, known := range [...]string{
		// net/http/transport.go, Transport.roundTrip: the request itself is malformed.
		"unsupported protocol scheme",
		"net/http: invalid header field name",
		"net/http: invalid header field value",
		"net/http: invalid trailer field",
		"net/http: invalid method",
		"http: no Host in request URL",
		"http: nil Request.URL",
		"http: nil Request.Header",
		// net/http/response.go, ReadResponse, and transfer.go: the answer is not HTTP.
		"malformed HTTP response",
		"malformed HTTP status code",
		"malformed HTTP version",
		// net/http/request.go and transfer.go: what can't be written.
		"net/http: can't write control character in Request.URL",
		"invalid Trailer key",
		// The same over HTTP/2, net/http/internal/httpcommon: Host, :path, trailers,
		// and headers that only HTTP/1 knows, such as Upgrade.
		"http2: invalid ",
		"http2: request header list larger than peer's advertised limit",
		// net/http/transfer.go and h2_bundle.go: the body is not as long as the
		// request says.
		"http: ContentLength=",
		"http: Request.ContentLength=",
		"http2: request body larger than specified content length",
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
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
	case hasBody(a.Request) && a.Request.GetBody != nil && !isInMemory(a.Request.Body):
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
