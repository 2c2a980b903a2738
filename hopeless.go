package retrip

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/retrip-go/retrip/internal/replay"
)

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
		length   *replay.LengthError
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
