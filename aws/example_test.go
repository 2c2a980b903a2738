package aws_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// One strategy for everything, as the machine is configured.
func Example() {
	// A program has aws.Config{} here. This one makes up its environment,
	// so that it prints the same on every machine.
	env := map[string]string{"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "5"}
	c := aws.Config{Getenv: func(name string) string { return env[name] }}

	strategy, err := c.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &retrip.Transport{Strategy: strategy}}
	_ = client

	fmt.Println("attempts:", strategy.MaxAttempts)
	fmt.Println("limits the send rate:", strategy.Limiter != nil)
	// Output:
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
	fmt.Println("attempts elsewhere:", t.PerKey("example.com").MaxAttempts)
	// Output:
	// attempts: 4 4
	// one quota for both: false
	// attempts elsewhere: 3
}

// A wrong value is an error that says where it stands and what to write.
func ExampleConfig_Load_error() {
	env := map[string]string{"AWS_MAX_ATTEMPTS": "-1"}
	c := aws.Config{Getenv: func(name string) string { return env[name] }}
	_, err := c.Load()
	fmt.Println(err)
	// Output:
	// aws: AWS_MAX_ATTEMPTS: "-1" is no number of attempts; allowed is a whole number, 1 or more
}
