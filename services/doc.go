// Package services has a strategy for each of some well-known HTTP APIs: what
// they mean by their statuses, headers and error bodies, and how they say when
// to come back. The same header has different units at different services
// (X-RateLimit-Reset is a moment at GitHub and a number of seconds at Datadog),
// so each strategy declares its own.
//
//	client := &http.Client{Transport: &retrip.Transport{PerKey: services.ByHost}}
//
// # Which strategy a host gets
//
// ByHost picks the strategy by the host's name. For a host of your own, such as a
// GitHub Enterprise Server, call the function:
//
//	&retrip.Transport{PerKey: func(host string) *retrip.Strategy {
//		if host == "github.example.com" {
//			return services.GitHub()
//		}
//		return services.ByHost(host)
//	}}
//
// Each is retrip.Standard with rules ahead of Standard's and waits in place of
// Standard's. A request that is not idempotent is repeated only if it provably was
// not processed. Where a strategy differs, its documentation says why. Change what
// you want to change before the first use, and print it to see every rule;
// docs/services.md has them all in a table.
//
// # Long waits
//
// A moment at which a limit is reset may be an hour away. That is above
// Strategy.MaxRetryAfter, 60 s, so the response is returned at once, its headers
// telling when to call again. To wait instead, in PerKey:
//
//	s := services.GitHub()
//	s.MaxRetryAfter = time.Hour
package services
