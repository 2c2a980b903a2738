package services

import (
	"time"

	"github.com/retrip-go/retrip"
)

// AlibabaKMS returns a new strategy as Alibaba Cloud's page on retries for its
// Key Management Service has it in pseudo code: 5 calls, 200 ms·2^n between
// them, without jitter, when the code contains Rejected.Throttling (whose
// status is 429), or is one that Alibaba's SDKs take for throttling, or the
// status is 5xx. The maximum backoff is the Cap of its Exponential. (The page
// also waits 200 ms ahead of the first call; a Transport does not.) Errors of the
// connection, on which the page is silent, are classified as in retrip.Standard.
// Like the page's code, it repeats every request.
func AlibabaKMS() *retrip.Strategy {
	return &retrip.Strategy{
		MaxAttempts:        5,
		RetryNonIdempotent: true,
		MaxRetryAfter:      time.Minute,
		Backoff:            retrip.Exponential{Base: 200 * time.Millisecond},
		Classifiers: []retrip.Classifier{
			retrip.On(retrip.Throttled, retrip.CodeContains("Rejected.Throttling")),
			retrip.On(retrip.Throttled, retrip.CodeIs("Throttling", "Throttling.User", "Throttling.Api")), // all its services: darabonba-openapi
			retrip.On(retrip.Throttled, tooMany),
			retrip.On(retrip.Transient, retrip.StatusFrom(500)),
			retrip.TransportErrors(),
		},
	}
}

// AlibabaKMSJava returns a new strategy like AlibabaKMS with the waits of the
// same page's Java sample, which begin one step later: 400 ms·2^n.
func AlibabaKMSJava() *retrip.Strategy {
	s := AlibabaKMS()
	s.Backoff = retrip.Exponential{Base: 400 * time.Millisecond}
	return s
}

// FixedInterval returns a new strategy that tries again every interval until
// period has passed since the first attempt ended, however often that is, the
// simple retry of Alibaba Cloud's page. What it retries is as in retrip.Standard.
// It does not ask the server how long to wait, repeats only what is safe to, and
// has no quota, so keep it to few clients. An interval that is not above 0, or a
// period shorter than it, is reported by Transport.Validate.
func FixedInterval(interval, period time.Duration) *retrip.Strategy {
	if period == 0 {
		period = -1 // which is an error; for a Constant, 0 would be no end at all
	}
	s := retrip.Standard()
	s.MaxAttempts = 1 << 30 // the period decides
	s.Backoff, s.ThrottleBackoff = retrip.Constant{Wait: interval, Period: period}, nil
	s.Quota, s.Hints = nil, nil
	return s
}
