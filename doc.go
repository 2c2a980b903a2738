// Package retrip is an http.RoundTripper that takes the trip again: it wraps
// any transport and retries what is safe to repeat and worth it, with the
// retry modes of the AWS SDKs and the manners of net/http.
//
//	client := &http.Client{Transport: &retrip.Transport{}}
//
// The zero [Transport] keeps one [Strategy] per host, in [Standard] mode. To
// change one thing, change it on a strategy:
//
//	s := retrip.Standard()
//	s.MaxAttempts = 5
//	client := &http.Client{Transport: &retrip.Transport{Strategy: s}}
//
// A request goes through seven steps, which [Transport.RoundTrip] spells out:
// it is resolved (which strategy, which body), admitted (by the [Limiter], in
// adaptive mode), sent, judged (its [Class], then whether a retry is safe,
// possible, in time and paid for by the [Quota]), observed; and if it is to be
// retried, the response is discarded while the request waits.
//
// What it promises: a request that is not idempotent is repeated only if it
// provably was not processed ([WithIdempotent] says otherwise). A body is sent
// again whole or not at all. The caller gets the last real response, at once
// when the wait would outlive the deadline or [Strategy.MaxRetryAfter]. When most
// requests fail, retries stop by themselves.
//
// To see what happened, set Transport.Observe, for example to [LogTo], or use
// [WithTrace]. net/http itself replays some requests on connections that had
// gone stale, below this package and uncounted by it; see the README.
package retrip
