package aws_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// calls sends a POST to a server that always answers with the status, and prints
// how many attempts that took.
func calls(s *retrip.Strategy, code int) {
	s.Rand = func() float64 { return 0 } // no waits
	server := script(answer(code, ""))
	transport := &retrip.Transport{Strategy: s, Base: server} // of one server
	req, err := http.NewRequest("POST", "https://sqs.eu-central-1.amazonaws.com/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if resp, err := transport.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	fmt.Println(code, "takes", len(server.Sent()), "attempts")
}

// A limiter for each request: other requests don't slow down, whatever happens.
func ExampleAdaptiveV1() {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return aws.AdaptiveV1() }}
	fmt.Println(transport.Validate())
	calls(aws.AdaptiveV1(), 500)
	// Output:
	// <nil>
	// 500 takes 3 attempts
}

// The SDK for Java 1.x repeats a POST, and knows 500 and 503 only.
func ExampleJavaV1() {
	calls(aws.JavaV1(), 503)
	calls(aws.JavaV1(), 502)
	// Output:
	// 503 takes 4 attempts
	// 502 takes 1 attempts
}

// The SDK's timeouts as well as its retries.
func ExampleJavaV1Base() {
	transport := &retrip.Transport{
		Base:   aws.JavaV1Base(),
		PerKey: func(string) *retrip.Strategy { return aws.JavaV1() },
	}
	fmt.Println(transport.Validate())
	// Output: <nil>
}

// Eleven attempts within the SDK's waits for DynamoDB.
func ExampleJavaV1DynamoDB() {
	s := aws.JavaV1DynamoDB()
	fmt.Println(s.MaxAttempts, s.Backoff)
	// Output: 11 {25ms 20s}
}

// The SDK's customBackoff is a BackoffFunc.
func ExampleJavaScriptV2() {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy {
		s := aws.JavaScriptV2()
		s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) {
			return time.Duration(r.Index+1) * time.Second, r.Index < 2 // where it returned a negative number: false
		})
		return s
	}}
	fmt.Println(transport.PerKey("sqs.eu-central-1.amazonaws.com").Backoff.Delay(retrip.Retry{Index: 1}))
	// Output: 2s true
}

// A rule for the checksum that DynamoDB sends is the last.
func ExampleJavaScriptV2DynamoDB() {
	s := aws.JavaScriptV2DynamoDB()
	fmt.Println(s.MaxAttempts, s.Backoff)
	fmt.Println(s.Classifiers[len(s.Classifiers)-1])
	// Output:
	// 11 {50ms 0s}
	// transient: body does not match X-Amz-Crc32
}
