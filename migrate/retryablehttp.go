package migrate

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// RetryableHTTP is the retry policy of a Client of
// github.com/hashicorp/go-retryablehttp: its fields of the same names.
//
//	policy := migrate.RetryableHTTP{
//		CheckRetry: retryablehttp.DefaultRetryPolicy, Backoff: retryablehttp.DefaultBackoff,
//		RetryWaitMin: time.Second, RetryWaitMax: 30 * time.Second, RetryMax: 4,
//	}
//	transport := &retrip.Transport{
//		PerKey: func(string) *retrip.Strategy { return policy.Strategy() },
//	}
//	client := &http.Client{Transport: migrate.ErrorOnGiveUp(transport)}
//
// Both functions must be set; retryablehttp's own, as above, are the defaults
// of its NewClient.
type RetryableHTTP struct {
	// CheckRetry tells what is retried; see the function CheckRetry.
	CheckRetry func(ctx context.Context, resp *http.Response, err error) (bool, error)
	// Backoff computes the waits; see RetryableBackoff.
	Backoff func(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration
	// RetryWaitMin and RetryWaitMax are passed to Backoff. Validate refuses
	// negative ones and a minimum above the maximum, unless that is 0.
	RetryWaitMin, RetryWaitMax time.Duration
	// RetryMax is the most retries, one less than MaxAttempts. Validate refuses a
	// negative one.
	RetryMax int
}

// Strategy returns a new strategy with the policy, for one host, which also decides about
// methods (RetryNonIdempotent). It makes the calls and waits that the Client makes, but
// for these differences: a wait that would outlive the context's deadline is not
// begun, a body above Transport.ReplayBuffer that
// can't be reopened is sent once, retries end when the quota is spent, and each
// hop of a redirect has attempts of its own. The caller gets the last response
// and no error where the Client returned the error "giving up": use ErrorOnGiveUp
// to keep an error.
func (p RetryableHTTP) Strategy() *retrip.Strategy {
	return strategy(min(p.RetryMax, math.MaxInt-1)+1,
		CheckRetry(p.CheckRetry), RetryableBackoff(p.Backoff, p.RetryWaitMin, p.RetryWaitMax))
}

func strategy(attempts int, policy retrip.Classifier, backoff retrip.Backoff) *retrip.Strategy {
	s := retrip.Standard()
	s.MaxAttempts, s.RetryNonIdempotent = attempts, true
	s.Classifiers, s.Hints = []retrip.Classifier{policy}, nil
	s.Backoff, s.ThrottleBackoff = backoff, nil
	return s
}

// CheckRetry makes a Classifier of a retryablehttp.CheckRetry. It has an
// opinion on every outcome: what the function wants to retry is Throttled if
// the status is 429 and Transient otherwise, the rest is a Success below status
// 400 and Permanent from there. An error that comes with false makes the
// outcome Permanent. The error itself is dropped, because a response is never
// turned into an error, and an error of the base is the better one; ErrorOnGiveUp
// returns it.
//
// The function gets errors as an http.Client makes them, a *url.Error around
// that of the base, and context.DeadlineExceeded in it for an AttemptTimeout.
// It gets a copy of the response, to whose body it may do what it likes: the
// caller's stays whole. There it reads up to 64 KiB, with gzip undone, and of a
// 4xx or 5xx in JSON or XML as much of it as came within 250 ms. For any other
// body it is asked a second time, when that has come.
func CheckRetry(check func(ctx context.Context, resp *http.Response, err error) (bool, error)) retrip.Classifier {
	return checkRetry(check)
}

type checkRetry func(context.Context, *http.Response, error) (bool, error)

func (check checkRetry) Classify(a retrip.Attempt) retrip.Class {
	return ask(a, func(resp *http.Response) retrip.Class {
		retry, err := check(a.Request.Context(), resp, clientError(a))
		reject(a, nil)
		switch {
		case retry:
			return again(resp)
		case err != nil:
			reject(a, err)
			return retrip.Permanent
		default:
			return settled(resp)
		}
	})
}

func (checkRetry) String() string { return "as a retryablehttp.CheckRetry says" }

// clientError is an attempt's error as http.Client.Do returns it. Policies look
// for certificates and the like in nothing but a *url.Error.
func clientError(a retrip.Attempt) error {
	err := cause(a)
	if err == nil {
		return nil
	}
	method := a.Request.Method
	if method == "" {
		method = http.MethodGet
	}
	return &url.Error{Op: method[:1] + strings.ToLower(method[1:]), URL: a.Request.URL.Redacted(), Err: err}
}

// RetryableBackoff makes a Backoff of a retryablehttp.Backoff, which gets lowest
// and highest as they are, the number of the attempt that failed from 0, and a
// copy of its response or nil, whose body is empty unless it was read ahead (in a
// 4xx or 5xx in JSON or XML, or for a policy that looked at it). What it returns
// is waited; a negative wait is none. It usually reads Retry-After itself: leave
// Strategy.Hints empty, or the longer of the two is waited. But only a wait that
// Strategy.Hints finds is bounded by Strategy.MaxRetryAfter. Transport.Validate
// reports negative bounds and a lowest above the highest, unless that is 0.
func RetryableBackoff(backoff func(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration,
	lowest, highest time.Duration) retrip.Backoff {
	if backoff == nil {
		return nil // Validate reports it
	}
	return retryableBackoff{lowest, highest, backoff}
}

type retryableBackoff struct {
	lowest, highest time.Duration
	backoff         func(min, max time.Duration, attemptNum int, resp *http.Response) time.Duration
}

func (b retryableBackoff) Delay(r retrip.Retry) (time.Duration, bool) {
	resp, _ := shown(r.Attempt)
	return b.backoff(b.lowest, b.highest, r.Index, resp), true
}

func (b retryableBackoff) String() string {
	return "a retryablehttp.Backoff from " + b.lowest.String() + " to " + b.highest.String()
}

// Validate reports bounds that make no sense.
func (b retryableBackoff) Validate() error {
	if b.lowest < 0 || b.highest < 0 || b.highest > 0 && b.lowest > b.highest {
		return fmt.Errorf("waits from %v to %v: use bounds from 0 up, the lower one first, or 0 for none", b.lowest, b.highest)
	}
	return nil
}
