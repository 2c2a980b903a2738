package retrip

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Reason is why retrying stopped. It is an enumeration for events, metrics and
// switches; errors are told apart by the Err values of the same names. The zero
// Reason means that there was no cause to stop: a success, or a retry to come.
type Reason uint8

const (
	// AttemptsExhausted: the last attempt that Strategy.MaxAttempts or
	// WithMaxAttempts allows failed, or a retrier further out retries already.
	AttemptsExhausted Reason = iota + 1
	// QuotaExhausted: Strategy.Quota refused to pay for a retry.
	QuotaExhausted
	// NotRetryable: the outcome's class says that repeating can't help.
	NotRetryable
	// NotIdempotent: the first attempt may have had its effect, and the request
	// is neither idempotent nor declared to be so (WithIdempotent).
	NotIdempotent
	// BodyNotReplayable: the request body can't be sent once more, whole and
	// the same.
	BodyNotReplayable
	// WaitOverCap: the server asked for a longer wait than Strategy.MaxRetryAfter
	// allows, or the limiter for a longer one than Strategy.MaxLimiterWait.
	WaitOverCap
	// WaitOverDeadline: the wait would have outlived the context's deadline, be it
	// the backoff, the server's or the limiter's. The request ends at once, with
	// the last response or with an error that is also a timeout and a
	// context.DeadlineExceeded.
	WaitOverDeadline
	// Cancelled: the caller's context ended, or Request.Cancel was closed.
	Cancelled
	// BackoffStopped: the strategy's Backoff said to stop.
	BackoffStopped
	// PrepareFailed: Transport.Prepare returned an error.
	PrepareFailed
)

var reasonNames = [...]string{
	"none", "attempts exhausted", "quota exhausted", "not retryable", "not idempotent", "body not replayable",
	"wait over cap", "wait over deadline", "cancelled", "backoff stopped", "prepare failed",
}

// String returns the reason in words, such as "quota exhausted".
func (r Reason) String() string { return nameOf(reasonNames[:], r) }

// MarshalText returns the same words, for JSON and logs.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// The Err values say why retrying stopped: errors.Is(err, retrip.ErrQuotaExhausted).
// Each stands for the Reason of the same name.
var (
	ErrAttemptsExhausted = reasonError(AttemptsExhausted)
	ErrQuotaExhausted    = reasonError(QuotaExhausted)
	ErrNotRetryable      = reasonError(NotRetryable)
	ErrNotIdempotent     = reasonError(NotIdempotent)
	ErrBodyNotReplayable = reasonError(BodyNotReplayable)
	ErrWaitOverCap       = reasonError(WaitOverCap)
	ErrWaitOverDeadline  = reasonError(WaitOverDeadline)
	ErrCancelled         = reasonError(Cancelled)
	ErrBackoffStopped    = reasonError(BackoffStopped)
	ErrPrepareFailed     = reasonError(PrepareFailed)
)

func reasonError(r Reason) error { return stopped{r} }

// stopped is the error of a Reason.
type stopped struct{ reason Reason }

func (s stopped) Error() string { return s.reason.String() }

// Error is the error of a request that ended without a response after retrip
// retried, would have retried but for Reason, or could not send at all. A first attempt's error is returned as the base returned it if
// it is not worth a retry, if only one attempt was allowed, or if it comes of the
// request's own body or of the caller's own cancellation and says so.
//
// errors.Is finds the Err value of Reason, the last failure, and once the request's
// context has ended also the context's error and cause.
type Error struct {
	// Attempts is how many attempts were sent; 0 if none was.
	Attempts int
	// Reason is why there was no further one.
	Reason Reason
	// Err is what ended the request: the last attempt's error, the context's
	// cause, or what Prepare returned.
	Err error
	// Last is the error of the attempt that failed before, where Err is not an
	// attempt's own failure but, say, a cancellation; or nil.
	Last error
	// Status and Code are what that attempt got instead of an error: its
	// response's status, and the code if a classifier of the strategy lists it.
	Status int
	Code   string

	ctxErr error // the context's own error, beside its cause
}

// Error names the attempts, the reason and the last failure. It repeats
// neither URL nor header of the request; an error of the base may.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "retrip: %v after %d attempt", e.Reason, e.Attempts)
	if e.Attempts != 1 {
		b.WriteByte('s')
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Last != nil {
		fmt.Fprintf(&b, " (last failure: %v)", e.Last)
	}
	if e.Status != 0 {
		b.WriteString(" (last status: " + strconv.Itoa(e.Status))
		if e.Code != "" {
			b.WriteString(" " + e.Code)
		}
		b.WriteByte(')')
	}
	return b.String()
}

// Is reports whether target stands for the error's Reason, such as
// ErrQuotaExhausted.
func (e *Error) Is(target error) bool { return target == reasonError(e.Reason) }

// Unwrap returns what ended the request and what failed last.
func (e *Error) Unwrap() []error {
	var tree []error
	for _, err := range [...]error{e.Err, e.ctxErr, e.Last} {
		if err != nil {
			tree = append(tree, err)
		}
	}
	return tree
}

// Temporary makes a net.Error of the error, as callers of net/http expect of a
// timeout. It returns what Timeout does.
func (e *Error) Temporary() bool { return e.Timeout() }

// Timeout reports whether a timeout ended the request: the deadline, or an
// attempt that took too long.
func (e *Error) Timeout() bool {
	if errors.Is(e.ctxErr, context.DeadlineExceeded) {
		return true
	}
	return isTimeout(e.Err)
}

// AttemptTimeoutError is the error of an attempt that got no response headers
// within Transport.AttemptTimeout. It is a timeout, but no
// context.DeadlineExceeded, which stands for the caller's own deadline.
type AttemptTimeoutError struct {
	After time.Duration // the Transport's AttemptTimeout
}

// Error names the timeout.
func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("no response headers within the attempt timeout of %v", e.After)
}

// Timeout returns true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// Temporary returns true: with it, the error is a net.Error.
func (e *AttemptTimeoutError) Temporary() bool { return true }

// limiterError tells of a wait for the limiter that is too long.
type limiterError struct{ asked, waited time.Duration }

func (e *limiterError) Error() string {
	return fmt.Sprintf("the send-rate limiter requires a wait of %v, after %v in its queue", e.asked, e.waited)
}

// baseError tells of a base that broke the RoundTripper contract, so that
// nothing is known of the attempt.
type baseError struct{ text string }

func (e *baseError) Error() string { return "retrip: " + e.text }

// nameOf looks up the name of an enumeration's value, and makes one up for a
// value that is none.
func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%T(%d)", v, v)
}
