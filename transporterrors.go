package retrip

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/retrip-go/retrip/internal/replay"
)

// TransportErrors returns the rule of our modes for errors of the base: they are
// transient, except those that the same request is bound to meet again (bad
// certificates, unknown hosts, malformed messages). An error with a method that
// says whether a retry is worthwhile, as SDKs' errors have, is believed.
func TransportErrors() Classifier { return anyButHopeless }

// AnyError returns a classifier that takes every error of the base for
// transient, also a bad certificate, except where the request or the response
// is malformed. SDKs do so.
func AnyError() Classifier { return anyButMalformed }

var (
	anyButHopeless  = &transportErrors{hopeless, "errors but bad certificates, unknown hosts, malformed messages (transient)"}
	anyButMalformed = &transportErrors{malformed, "transient: any error but malformed messages"}
)

// transportErrors takes the errors for transient that are not permanent.
type transportErrors struct {
	permanent func(error) bool
	text      string
}

func (c *transportErrors) Classify(a Attempt) Class {
	switch {
	case a.Err == nil:
		return Unknown
	case c.permanent(a.Err):
		return Permanent
	default:
		return Transient
	}
}

func (c *transportErrors) FailuresOnly() bool { return true }
func (c *transportErrors) String() string     { return c.text }

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
	if worthless, says := marked(err); says {
		return worthless
	}
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &hostname),
		errors.As(err, &invalid), errors.As(err, &roots):
		return true
	case errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch): // TLS spoken to a server that speaks none
		return true
	case errors.As(err, &dns) && dns.IsNotFound:
		return true
	}
	return anyOf(err, gaveUp) || anyOf(err, refusedTLS) || anyOf(err, refusedByProxy) ||
		says(err, unfitTexts[:]) || malformed(err)
}

// malformed reports whether the request, the answer or the base itself is
// broken, so that not even a patient SDK would try again.
func malformed(err error) bool {
	var (
		network  net.UnknownNetworkError
		address  *net.AddrError
		contract *baseError
		length   *replay.LengthError
	)
	return errors.As(err, &network) || errors.As(err, &address) ||
		errors.As(err, &contract) || errors.As(err, &length) || says(err, malformedTexts[:])
}

// marked reports what SDKs' errors say of themselves.
func marked(err error) (worthless, says bool) {
	var (
		azure     interface{ NonRetriable() }        // azure-sdk-for-go, internal/errorinfo
		aws       interface{ RetryableError() bool } // aws-sdk-go-v2, aws/retry/retryable_error.go
		cancelled interface{ CanceledError() bool }  // the same
	)
	switch {
	case errors.As(err, &azure), errors.As(err, &cancelled) && cancelled.CanceledError():
		return true, true
	case errors.As(err, &aws):
		return !aws.RetryableError(), true
	}
	return false, false
}

// gaveUp reports whether a Transport further in gave up for a reason that
// another try from out here does not change. Where its attempts were spent, or
// a context between the two ended, the failure itself decides.
func gaveUp(err error) bool {
	inner, ok := err.(*Error)
	return ok && slices.Contains([]Reason{
		QuotaExhausted, NotRetryable, NotIdempotent, BodyNotReplayable, WaitOverCap, BackoffStopped, PrepareFailed,
	}, inner.Reason)
}

// refusedTLS reports whether the server ended the handshake for what our
// settings are bound to bring again.
func refusedTLS(err error) bool {
	op, ok := err.(*net.OpError)
	return ok && op.Op == "remote error" && handshakeAlerts[alertOf(op)] == bySettings
}

// refusedByProxy reports whether a proxy refused to CONNECT. net/http then
// makes an error of the text behind the status, or says that there is none
// (net/http/transport.go, dialConn); the text names the status if the proxy
// uses the standard one, and then means what that means.
func refusedByProxy(err error) bool {
	if reflect.TypeOf(err) != reflect.TypeOf(errRequestCancel) { // what errors.New makes
		return false
	}
	text := err.Error()
	for status := 201; status < 600; status++ {
		if known := http.StatusText(status); known != "" && strings.EqualFold(text, known) {
			p := policy{Strategy: &Strategy{Classifiers: statusRules}}
			c, _ := p.classify(&Attempt{Response: &http.Response{StatusCode: status}})
			return c != Transient && c != Throttled
		}
	}
	return text == "unknown status code"
}

// cancelRequested reports whether the caller called the CancelRequest of an
// http.Transport below (net/http/transport.go, errRequestCanceled and
// errRequestCanceledConn). A text that goes on tells of a Client.Timeout.
func cancelRequested(err error) bool {
	return anyOf(err, func(err error) bool {
		text := err.Error()
		return text == "net/http: request canceled" || text == "net/http: request canceled while waiting for connection"
	})
}

// anyOf reports whether is holds for err or an error that it wraps.
func anyOf(err error, is func(error) bool) bool {
	for err != nil && !is(err) {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return anyOf(err, is) })
		default:
			return false
		}
	}
	return err != nil
}

// says knows the errors that have no type of their own by their texts, also
// where an error around one has another text. A url.Error's own words are a
// URL, which may hold anything. Text decides nowhere else, but for the errors
// above and the one in handshakeFailed.
func says(err error, texts []string) bool {
	return anyOf(err, func(err error) bool {
		if _, around := err.(*url.Error); around {
			return false
		}
		text := err.Error()
		return slices.ContainsFunc(texts, func(known string) bool { return strings.Contains(text, known) })
	})
}

var malformedTexts = [...]string{
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
	"message cannot contain multiple Content-Length headers",
	"bad Content-Length",
	"invalid empty Content-Length",
	"unsupported transfer encoding",
	"too many transfer encodings",
	// net/http/transport.go, readLoop, and h2_bundle.go: more than
	// Transport.MaxResponseHeaderBytes.
	"net/http: server response headers exceeded",
	"http2: response header list larger than advertised limit",
	// net/http/h2_bundle.go, handleResponse.
	"malformed response from server",
	// net/http/request.go and transfer.go: what can't be written.
	"http: Request.Write on Request with no Host or URL set",
	"http: invalid Host header",
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
}

// unfitTexts tell that the base's settings and the server don't fit.
var unfitTexts = [...]string{
	// crypto/tls/handshake_client.go: versions, protocols, settings.
	"tls: server selected unsupported protocol version",
	"tls: no supported versions satisfy MinVersion and MaxVersion",
	"tls: server selected unadvertised ALPN protocol",
	"tls: either ServerName or InsecureSkipVerify must be specified",
	"tls: invalid NextProtos value",
	// net/http/transport.go, dialConn, and h2_bundle.go, which is
	// golang.org/x/net/http2.
	"http: Transport does not support unencrypted HTTP/2",
	"http2: unencrypted HTTP/2 not enabled",
	"http2: unsupported scheme",
	"http2: unexpected ALPN protocol",
	"http2: could not negotiate protocol mutually",
	"net/http: extended connect not supported by peer",
	"looked like an HTTP/1.1 header", // of a server that speaks no HTTP/2
	"HTTP_1_1_REQUIRED",              // RFC 9113 section 7
	// net/http/transport.go: functions of the user's that return nothing.
	"returned (nil, nil)",
	// golang.org/x/net/http/httpproxy/proxy.go, and net/http/socks_bundle.go.
	"invalid proxy address",
	"refusing to use HTTP_PROXY value in CGI environment",
	"no acceptable authentication methods",
	"username/password authentication failed",
}
