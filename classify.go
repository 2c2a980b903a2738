package retrip

import (
	"fmt"
	"net/http"
	"time"

	"github.com/retrip-go/retrip/internal/errorcode"
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

// The error codes of the modes.
var (
	throttlingCodes = newCodeRule(Throttled, errorcode.Throttling()...)
	transientCodes  = newCodeRule(Transient, errorcode.Transient()...)
	clockSkewCodes  = newCodeRule(ClockSkewed, errorcode.ClockSkew()...)
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
