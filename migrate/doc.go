// Package migrate takes over the retry policies written for other packages:
// what is retried and how long to wait stays as it is, all else is retrip's
// from then on: the quota, bodies that are sent again whole or not at all, the
// last real response for the caller. Each host gets a strategy of its own:
//
//	&retrip.Transport{PerKey: func(string) *retrip.Strategy { return policy.Strategy() }}
//
// # From which packages
//
//	go-retryablehttp    RetryableHTTP, CheckRetry, RetryableBackoff, ErrorOnGiveUp
//	rehttp              Rehttp, RetryFn, DelayFn
//	cenkalti/backoff    BackOff
//
// # An outage is not an error
//
// Check every place that looks only at err. go-retryablehttp returns an error when
// it gives up; retrip returns the last response, as net/http does: a 503 and a nil
// error. Code that takes a nil error for success then takes an outage for success.
// Look at the status, or keep the error with ErrorOnGiveUp.
//
// # What is taken over
//
// Package migrate imports none of these packages: functions and structs of the
// right shape fit. For failsafehttp, heimdall and httpretry a line or two will do;
// docs/migrate.md has one for every option of all of them.
//
// # What changes
//
// RetryableHTTP and Rehttp make a whole Strategy, which is retrip.Standard but
// for
//   - RetryNonIdempotent: the policy decides about methods too, so a POST is sent
//     again if the policy says so;
//   - the Classifiers: the policy alone;
//   - the Backoff: the policy's, also after throttling;
//   - no Hints: the policy reads Retry-After itself, or does without.
//
// The Quota is Standard's and new to your policy: after a hundred retries that
// did not help, and no success, there are none. Change what you want to change
// before the first use.
//
// A policy is asked from many goroutines at once, as it was before. It is not
// asked once the caller's own context has ended: that is never retried. A
// function that is nil, or bounds that make no sense, are errors that
// Transport.Validate and RoundTrip return.
package migrate
