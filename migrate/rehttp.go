package migrate

import (
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
)

// RehttpAttempt is met by the Attempt of github.com/PuerkitoBio/rehttp.
type RehttpAttempt interface {
	~struct {
		Index    int
		Request  *http.Request
		Response *http.Response
		Error    error
	}
}

// Rehttp returns a new strategy with the two functions of a rehttp.Transport:
//
//	retry := rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryStatuses(502, 503, 504))
//	delay := rehttp.ExpJitterDelay(100*time.Millisecond, time.Second)
//	client := &http.Client{Transport: &retrip.Transport{
//		PerKey: func(string) *retrip.Strategy { return migrate.Rehttp(retry, delay) },
//	}}
//
// It makes the calls and waits that the Transport makes, but for these
// differences: a wait that would outlive the context's deadline is not begun, a
// body above Transport.ReplayBuffer that can't be reopened is sent once, and
// retries end when the quota is spent. The function decides about methods
// (RetryNonIdempotent) and about the number of retries (MaxAttempts is 2^30).
func Rehttp[A RehttpAttempt](retry func(A) bool, delay func(A) time.Duration) *retrip.Strategy {
	return strategy(1<<30, RetryFn(retry), DelayFn(delay))
}

// RetryFn makes a Classifier of a rehttp.RetryFn. It has an opinion on every
// outcome: what the function wants to retry is Throttled if the status is 429
// and Transient otherwise, the rest is a Success below status 400 and Permanent
// from there.
//
// The function gets the caller's request, the base's error, and
// context.DeadlineExceeded for an AttemptTimeout, as it is with rehttp's
// PerAttemptTimeout. As for the response and its body, see CheckRetry.
func RetryFn[A RehttpAttempt](retry func(A) bool) retrip.Classifier {
	return retryFn[A](retry)
}

type retryFn[A RehttpAttempt] func(A) bool

func (retry retryFn[A]) Classify(a retrip.Attempt) retrip.Class {
	return ask(a, func(resp *http.Response) retrip.Class {
		if retry(attemptOf[A](a, resp)) {
			return again(resp)
		}
		return settled(resp)
	})
}

func (retryFn[A]) String() string { return "as a rehttp.RetryFn says" }

// DelayFn makes a Backoff of a rehttp.DelayFn, which gets the attempt that
// failed, its Index from 0. A negative delay is none. Transport.Validate reports a
// nil function, as it does for RetryFn.
func DelayFn[A RehttpAttempt](delay func(A) time.Duration) retrip.Backoff {
	return delayFn[A](delay)
}

type delayFn[A RehttpAttempt] func(A) time.Duration

func (delay delayFn[A]) Delay(r retrip.Retry) (time.Duration, bool) {
	resp, _ := shown(r.Attempt)
	return delay(attemptOf[A](r.Attempt, resp)), true
}

func (delayFn[A]) String() string { return "a rehttp.DelayFn" }

func attemptOf[A RehttpAttempt](a retrip.Attempt, resp *http.Response) A {
	return A(struct {
		Index    int
		Request  *http.Request
		Response *http.Response
		Error    error
	}{a.Number - 1, a.Request, resp, cause(a)})
}
