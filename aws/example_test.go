package aws_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// The retry settings of the machine, for a program that calls one host of AWS.
func ExampleConfig() {
	// A program has aws.Config{} here. This one makes up its environment,
	// so that it prints the same on every machine.
	env := map[string]string{"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "5"}
	c := aws.Config{Getenv: func(name string) string { return env[name] }}

	strategy, err := c.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := &retrip.Transport{Strategy: strategy} // for several hosts, see the next example
	fmt.Println(transport.Validate())
	fmt.Println("attempts:", strategy.MaxAttempts)
	fmt.Println("limits the send rate:", strategy.Limiter != nil)
	// Output:
	// <nil>
	// attempts: 5
	// limits the send rate: true
}

// A strategy of its own for each host: read the configuration once, clone it
// for every host.
func ExampleConfig_Load_perKey() {
	c := aws.Config{
		MaxAttempts: 4,
		Use2026:     true,
		Getenv:      func(string) string { return "" }, // leave the environment out
	}
	configured, err := c.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	t := &retrip.Transport{
		PerKey: func(host string) *retrip.Strategy {
			if strings.HasSuffix(host, ".amazonaws.com") {
				return configured.Clone()
			}
			return retrip.Standard()
		},
	}

	s3, sqs := t.PerKey("s3.amazonaws.com"), t.PerKey("sqs.amazonaws.com")
	fmt.Println("attempts:", s3.MaxAttempts, sqs.MaxAttempts)
	fmt.Println("one quota for both:", s3.Quota == sqs.Quota)
	// Output:
	// attempts: 4 4
	// one quota for both: false
}

// A wrong value is an error that says where it stands and what to write.
func ExampleConfig_Load_error() {
	env := map[string]string{"AWS_MAX_ATTEMPTS": "-1"}
	c := aws.Config{Getenv: func(name string) string { return env[name] }}
	_, err := c.Load()
	fmt.Println(err)
	// Output:
	// aws: AWS_MAX_ATTEMPTS: "-1" is not a number of attempts: use a whole number, 1 or more
}

// AWS's hosts as its SDKs treat them, each with a quota of its own.
func ExampleStandard2026() {
	t := &retrip.Transport{
		PerKey: func(host string) *retrip.Strategy {
			switch {
			case strings.HasPrefix(host, "dynamodb."):
				return aws.Standard2026DynamoDB()
			case strings.HasSuffix(host, ".amazonaws.com"):
				return aws.Standard2026()
			}
			return retrip.Standard()
		},
	}
	fmt.Println(t.PerKey("dynamodb.eu-central-1.amazonaws.com").MaxAttempts, t.PerKey("sqs.eu-central-1.amazonaws.com").Cost)
	// Output: 4 14
}

// What the AWS CLI does in legacy mode for a service.
func ExampleBotocore() {
	s := aws.Botocore("sts")
	fmt.Println(s.MaxAttempts, s.Classifiers[1])
	// Output: 5 transient: status 400 and code IDPCommunicationError
}

// S3's errors with status 200 in a strategy of one's own.
func ExampleS3Errors() {
	s := retrip.Standard()
	s.Classifiers = append([]retrip.Classifier{aws.S3Errors()}, s.Classifiers...)
	fmt.Println(s.Classifiers[0])
	// Output: transient: S3 errors with status 200
}

// Long polls in a strategy of one's own.
func ExampleLongPoll() {
	s := retrip.Standard()
	s.LongPoll = aws.LongPoll
	req, err := http.NewRequest("POST", "https://sqs.eu-central-1.amazonaws.com/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
	fmt.Println(s.LongPoll(req))
	// Output: true
}

// DynamoDB has shorter waits than the rest of AWS, and one attempt more.
func ExampleStandard2026DynamoDB() {
	general, dynamoDB := aws.Standard2026(), aws.Standard2026DynamoDB()
	fmt.Println(general.MaxAttempts, general.Backoff)
	fmt.Println(dynamoDB.MaxAttempts, dynamoDB.Backoff)
	// Output:
	// 3 {50ms 20s}
	// 4 {25ms 20s}
}

// First attempts slow down, too, where a host throttles.
func ExampleAdaptive2026() {
	transport := &retrip.Transport{PerKey: func(host string) *retrip.Strategy {
		if !strings.HasSuffix(host, ".amazonaws.com") {
			return retrip.Standard()
		}
		s := aws.Adaptive2026()
		s.MaxLimiterWait = 10 * time.Second // rather fail than wait longer for a turn
		return s
	}}
	fmt.Println(transport.PerKey("sqs.eu-central-1.amazonaws.com").Limiter != nil)
	// Output: true
}

// DynamoDB throttles by table, so each table has a limiter and a quota of its own.
// The program names the table in the context.
func ExampleAdaptive2026DynamoDB() {
	type tableKey struct{}
	transport := &retrip.Transport{
		Key: func(req *http.Request) string {
			table, _ := req.Context().Value(tableKey{}).(string)
			return retrip.HostKey(req) + " " + table
		},
		PerKey: func(string) *retrip.Strategy { return aws.Adaptive2026DynamoDB() },
	}
	ctx := context.WithValue(context.Background(), tableKey{}, "orders")
	req, err := http.NewRequestWithContext(ctx, "POST", "https://dynamodb.eu-central-1.amazonaws.com/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(transport.Key(req))
	// Output: dynamodb.eu-central-1.amazonaws.com orders
}
