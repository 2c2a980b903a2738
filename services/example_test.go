package services_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/services"
)

// Each host gets the strategy that knows its conventions.
func ExampleByHost() {
	client := &http.Client{Transport: &retrip.Transport{PerKey: services.ByHost}}
	defer client.CloseIdleConnections()

	for _, rule := range services.ByHost("api.linode.com").Classifiers[:1] {
		fmt.Println(rule)
	}
	for _, wait := range services.ByHost("my-org.okta.com").Hints {
		fmt.Println(wait)
	}
	// Output:
	// permanent: status 503 and header X-Maintenance-Mode
	// X-Rate-Limit-Reset (seconds since 1970) + 1s, with status 429
	// Retry-After (seconds or date)
}

// A batch job rather waits for its limit to be reset than fails.
func ExampleGitHub() {
	transport := &retrip.Transport{PerKey: func(host string) *retrip.Strategy {
		s := services.ByHost(host)
		if host == "api.github.com" {
			s.MaxRetryAfter = time.Hour
		}
		return s
	}}
	for _, wait := range transport.PerKey("api.github.com").Hints[:2] {
		fmt.Println(wait)
	}
	// Output:
	// Retry-After (seconds or date)
	// X-RateLimit-Reset (seconds since 1970), with status 403, 429 and header X-RateLimit-Remaining: 0
}

// The parts serve in a strategy of one's own.
func ExampleRateLimit() {
	s := retrip.Standard()
	s.Hints = append(s.Hints, services.RateLimit{}) // behind Retry-After
	fmt.Println(s.Hints[len(s.Hints)-1])
	// Output: RateLimit (t in seconds, with r=0)
}

// The same constant interval for as long as it may take.
func ExampleFixedInterval() {
	s := services.FixedInterval(2*time.Second, time.Minute)
	_, ok := s.Backoff.Delay(retrip.Retry{Index: 29, Elapsed: 58 * time.Second})
	fmt.Println(ok)
	_, ok = s.Backoff.Delay(retrip.Retry{Index: 30, Elapsed: 60 * time.Second})
	fmt.Println(ok)
	// Output:
	// true
	// false
}

// The pseudo code of Alibaba Cloud's page, with a maximum backoff.
func ExampleAlibabaKMS() {
	s := services.AlibabaKMS()
	s.Backoff = retrip.Exponential{Base: 200 * time.Millisecond, Cap: 10 * time.Second}
	fmt.Println(s.MaxAttempts, s.Classifiers[0])
	// Output: 5 throttled: code contains Rejected.Throttling
}

// Problem documents in a strategy of one's own.
func ExampleProblemTypes() {
	s := retrip.Standard()
	s.Classifiers = append(services.ProblemTypes(), s.Classifiers...)
	fmt.Println(len(s.Classifiers) - len(retrip.Standard().Classifiers))
	// Output: 2
}
