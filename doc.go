// Package retrip is an http.RoundTripper that retries failed requests with
// backoff, jitter and a retry quota. It wraps any transport and honours the
// http.RoundTripper contract. Its modes are those of the AWS SDKs.
//
//	client := &http.Client{Transport: &retrip.Transport{}}
//
// # Start
//
// The zero [Transport] keeps one [Strategy] per host, in [Standard] mode: three
// attempts, and a retry quota for each host. To change one thing, change it on
// the strategy that PerKey makes for a new host:
//
//	client := &http.Client{Transport: &retrip.Transport{
//		PerKey: func(host string) *retrip.Strategy {
//			s := retrip.Standard()
//			s.MaxAttempts = 5
//			return s
//		},
//	}}
//
// A single Strategy for all hosts (Transport.Strategy) shares one quota among
// them: a dead host then takes the retries of a healthy one.
//
// # What happens to a request
//
// A request goes through seven steps, whose numbers stand in [Transport.RoundTrip]:
// (1) resolve its strategy, and whether its body can be sent again; (2) wait for
// the send-rate [Limiter], in adaptive mode; (3) send; (4) classify the outcome,
// see [Class]; (5) decide whether a retry follows: whether it is safe, whether
// attempts are left, whether the body is at hand, whether the wait is within cap
// and deadline, and last whether the [Quota] allows it; (6) observe, see [Event];
// (7) wait. The response is kept until its retry is sent. If the retry can't be
// sent, the caller gets the response.
//
// # Promises
//
// A request that is not idempotent is sent again only if the outcome proves that
// it was not processed, or if [WithIdempotent] or the strategy says that it may be.
// A body is sent again whole or not at all. The caller gets the last response,
// at once where the wait would outlive the deadline or [Strategy.MaxRetryAfter].
// When most requests fail, the quota stops retries.
//
// net/http itself replays some requests on connections that had gone stale. That
// happens below this package, which does not count it; see the README.
//
// # Signals
//
// Set Transport.Observe, for example to [LogTo]; use [WithTrace] for single
// requests; set Transport.KeepStats for counts. Errors are told apart by
// errors.Is: [ErrQuotaExhausted] and its relatives.
package retrip
