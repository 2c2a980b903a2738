package retrip

import (
	"fmt"
	"net/http"
	"slices"
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
	// refused for that with a 4xx, or with an error code that CodeIs lists, was not
	// processed: it is sent again even if it is not idempotent.
	Throttled
	// ClockSkewed means that the server refused the request's time stamp, and so
	// did not process it. It is worth a retry only if the clocks are seen to
	// differ and Transport.Prepare can sign with a corrected time.
	ClockSkewed
	// Permanent failures are not retried.
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

// Attempt is one attempt and its outcome, as classifiers and hint readers see
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
	// its error came. Sent is zero unless something had to read the clock:
	// Prepare, Observe, a trace, AttemptTimeout or a limiter for each request; so is
	// Done, below status 400.
	Sent, Done time.Time
}

// A Classifier says what an outcome means, or Unknown if it has no opinion.
// A strategy asks its classifiers in order and takes the first opinion, also
// for successes. A Success without a response, and a value that is no Class, count
// as Permanent. Classify is called from many goroutines at once.
type Classifier interface {
	Classify(Attempt) Class
}

// ClassifierFunc makes a Classifier of a function, which must be safe for
// concurrent use.
type ClassifierFunc func(Attempt) Class

// Classify calls f.
func (f ClassifierFunc) Classify(a Attempt) Class { return f(a) }

// A FailureClassifier may say that it has opinions on failures only. If
// FailuresOnly returns true, it is not asked about responses below status 400.
// A success costs least where no classifier is asked.
type FailureClassifier interface {
	Classifier
	FailuresOnly() bool
}

// An UnprocessedClassifier may say that an outcome on which it had an opinion
// proves that the server did not process the request. Such a request may be sent
// again even if it is not idempotent. See Unprocessed.
type UnprocessedClassifier interface {
	Classifier
	Unprocessed(Attempt) bool
}

// On gives the outcomes for which the condition holds the class c.
// Transport.Validate reports NeedsBody and values that are no Class. The rule is
// asked about a response below status 400 only if StatusIs or StatusFrom names such
// a status.
//
// If c is Throttled, an error code that CodeIs lists proves that the request was
// not processed.
func On(c Class, when Condition) Classifier { return &rule{c, when} }

type rule struct {
	class Class
	when  Condition
}

func (r *rule) Classify(a Attempt) Class { return r.classify(&a) }

func (r *rule) classify(a *Attempt) Class {
	if r.FailuresOnly() && a.Response != nil && a.Response.StatusCode < 400 {
		return Unknown
	}
	if ok, _ := r.when.match(a); ok {
		return r.class
	}
	return Unknown
}

func (r *rule) FailuresOnly() bool { return !r.when.below400 }

func (r *rule) Unprocessed(a Attempt) bool {
	_, byCode := r.when.match(&a)
	return byCode && r.class == Throttled
}

func (r *rule) String() string { return fmt.Sprintf("%v: %v", r.class, r.when) }

func (r *rule) check() error {
	if err := r.when.check(); err != nil {
		return err
	}
	return r.class.check()
}

// Unprocessed returns a classifier like c, whose opinions also prove that the
// server did not process the request: a request that is not idempotent is sent
// again, too. Use it only where the server's documentation says so. The error
// of a request body never proves anything.
func Unprocessed(c Classifier) Classifier { return provenRule{c} }

type provenRule struct{ Classifier }

func (r provenRule) FailuresOnly() bool {
	f, ok := r.Classifier.(FailureClassifier)
	return ok && f.FailuresOnly()
}

func (r provenRule) Unprocessed(Attempt) bool { return true }
func (r provenRule) String() string           { return describe(r.Classifier) + " (not processed)" }
func (r provenRule) check() error             { return checkPart(r.Classifier) }

// lists reports whether a rule of On names an error code.
func lists(c Classifier, code string) bool {
	switch c := c.(type) {
	case *rule:
		return slices.Contains(c.when.codes, code)
	case provenRule:
		return lists(c.Classifier, code)
	}
	return false
}

// statusRules are the statuses of our modes.
var statusRules = []Classifier{
	On(Throttled, StatusIs(http.StatusTooManyRequests)),
	// RFC 9110 15.5.9: the client may repeat the request. RFC 8470 5.2: it may
	// repeat it once the handshake is over.
	On(Transient, StatusIs(http.StatusRequestTimeout, http.StatusTooEarly)),
	// These ask for another request, not for the same one again.
	On(Permanent, StatusIs(http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
		http.StatusNotExtended, http.StatusNetworkAuthenticationRequired)),
	On(Transient, StatusFrom(500)),
}
