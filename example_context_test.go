package retrip_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrip-go/retrip"
)

// POST is not repeated, since it may have had its effect; its owner may say
// that this does no harm.
func ExampleWithIdempotent() {
	server := flaky(1)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick()}}

	ctx := retrip.WithIdempotent(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("upsert"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// What happened to one call, attempt by attempt.
func ExampleWithTrace() {
	server := flaky(2)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: quick()}}

	ctx, trace := retrip.WithTrace(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for _, events := range trace.Requests() {
		for _, e := range events {
			fmt.Println(e.Attempt, e.Status, e.Class, e.Wait, e.Final)
		}
	}
	// Output:
	// 1 503 transient 1ms false
	// 2 503 transient 1ms false
	// 3 200 success 0s true
}

// A strategy for some requests to a host, such as a nightly job's. It is made once,
// since its quota lives in it.
func ExampleWithStrategy() {
	patient := quick()
	patient.MaxAttempts = 10
	server := flaky(5)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{}}

	ctx := retrip.WithStrategy(context.Background(), patient)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// A health check should see what the server answers, so it is not retried.
func ExampleWithMaxAttempts() {
	server := flaky(1)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{}}

	ctx := retrip.WithMaxAttempts(context.Background(), 1)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 503
}
