package migrate_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// A CheckRetry of one's own in a strategy that keeps the rest of Standard: its
// backoff, its quota, and that a POST is not repeated unless it is safe.
func ExampleCheckRetry() {
	check := func(_ context.Context, resp *http.Response, err error) (bool, error) {
		return err != nil || resp.StatusCode == http.StatusLocked, nil
	}
	s := retrip.Standard()
	s.Classifiers = []retrip.Classifier{migrate.CheckRetry(check)}
	req, err := http.NewRequest("GET", "http://example.com/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, status := range []int{423, 503} {
		fmt.Println(status, s.Classifiers[0].Classify(retrip.Attempt{
			Number: 1, Request: req, Response: &http.Response{StatusCode: status},
		}))
	}
	// Output:
	// 423 transient
	// 503 permanent
}

// A Backoff of one's own with the rules of Standard. It reads Retry-After itself,
// so the strategy does not.
func ExampleRetryableBackoff() {
	backoff := func(lowest, highest time.Duration, attemptNum int, _ *http.Response) time.Duration {
		return min(lowest<<attemptNum, highest) // or retryablehttp.DefaultBackoff
	}
	s := retrip.Standard()
	s.Backoff, s.ThrottleBackoff = migrate.RetryableBackoff(backoff, time.Second, 30*time.Second), nil
	s.Hints = nil
	fmt.Println(s.Backoff.Delay(retrip.Retry{Index: 3}))
	// Output: 8s true
}

// A RetryFn in a strategy that keeps Standard's backoff.
func ExampleRetryFn() {
	retry := func(a Attempt) bool { // Attempt is rehttp.Attempt
		return a.Response != nil && a.Response.StatusCode == 503 && a.Index < 2
	}
	s := retrip.Standard()
	s.Classifiers = []retrip.Classifier{migrate.RetryFn(retry)}
	for number := 1; number <= 3; number++ {
		fmt.Println(s.Classifiers[0].Classify(retrip.Attempt{Number: number, Response: &http.Response{StatusCode: 503}}))
	}
	// Output:
	// transient
	// transient
	// permanent
}

// A DelayFn with the rules of Standard.
func ExampleDelayFn() {
	delay := func(a Attempt) time.Duration { return time.Duration(a.Index+1) * time.Second } // Attempt is rehttp.Attempt
	s := retrip.Standard()
	s.Backoff, s.ThrottleBackoff = migrate.DelayFn(delay), nil
	fmt.Println(s.Backoff.Delay(retrip.Retry{Attempt: retrip.Attempt{Number: 2}}))
	// Output: 2s true
}

// rehttpAttempt has the fields of rehttp.Attempt, so its functions fit.
type rehttpAttempt struct {
	Index    int
	Request  *http.Request
	Response *http.Response
	Error    error
}

// Each host has a strategy made of the same functions.
func ExampleRehttpAttempt() {
	retry := func(a rehttpAttempt) bool { return a.Index < 3 && a.Error != nil }
	delay := func(rehttpAttempt) time.Duration { return time.Second }
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy { return migrate.Rehttp(retry, delay) },
	}
	fmt.Println(transport.Validate())
	// Output: <nil>
}
