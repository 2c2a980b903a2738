package retrip_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/retrip-go/retrip"
)

// A smaller quota for each host: after four retries that did not help, at a cost
// of 5 tokens each, there are no more until successes refill it.
func ExampleBucket() {
	transport := &retrip.Transport{
		PerKey: func(string) *retrip.Strategy {
			s := quick()
			s.Quota = retrip.NewBucket(20)
			return s
		},
		Base:      status(503), // a server that answers nothing else
		KeepStats: true,
	}
	client := &http.Client{Transport: transport}
	for range 10 {
		resp, err := client.Get("http://sick.example.com/")
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	for k := range transport.Keys() {
		fmt.Println(k.Key, k.Retries, "retries,", k.Tokens, "of", k.Capacity, "tokens")
	}
	// Output: sick.example.com 4 retries, 0 of 20 tokens
}

// Strategies of several hosts that share one quota on purpose: they are the
// replicas of one service, so a retry to one loads them all.
func ExampleNewBucket() {
	replicas := retrip.NewBucket(100)
	transport := &retrip.Transport{
		PerKey: func(host string) *retrip.Strategy {
			s := retrip.Standard()
			if strings.HasSuffix(host, ".search.example.com") {
				s.Quota = replicas
			}
			return s
		},
	}
	fmt.Println(transport.PerKey("a.search.example.com").Quota == transport.PerKey("b.search.example.com").Quota)
	fmt.Println(replicas)
	// Output:
	// true
	// 100 of 100 tokens
}

// consecutive allows no retry after so many failures in a row.
type consecutive struct {
	most   int64
	failed atomic.Int64
}

func (q *consecutive) Answered(retrip.Class, int)                { q.failed.Store(0) }
func (q *consecutive) Failed(retrip.Failure)                     { q.failed.Add(1) }
func (q *consecutive) Take(context.Context, retrip.Failure) bool { return q.failed.Load() <= q.most }
func (q *consecutive) Return(int)                                {} // Take took nothing

// A quota of one's own hears of each attempt, and is asked before each retry.
func ExampleQuota() {
	quota := &consecutive{most: 3}
	s := quick()
	s.Quota = quota
	server := flaky(10)
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: s, Observe: func(e retrip.Event) {
		if e.Final {
			fmt.Println(e.Attempt, "attempts:", e.Reason)
		}
	}}}
	for range 3 {
		resp, err := client.Get(server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output:
	// 3 attempts: attempts exhausted
	// 1 attempts: quota exhausted
	// 1 attempts: quota exhausted
}

// thrifty leaves retries after a timeout to requests that have tried only once.
type thrifty struct{ retrip.MeteredQuota }

func (q thrifty) Take(ctx context.Context, f retrip.Failure) bool {
	return (!f.Timeout || f.Attempt == 1) && q.MeteredQuota.Take(ctx, f)
}

// A Failure tells a quota what it needs to decide.
func ExampleFailure() {
	var quota retrip.Quota = thrifty{retrip.NewBucket(100)}
	ctx := context.Background()
	fmt.Println(quota.Take(ctx, retrip.Failure{Class: retrip.Transient, Timeout: true, Attempt: 1, MaxAttempts: 4, Cost: 5}))
	fmt.Println(quota.Take(ctx, retrip.Failure{Class: retrip.Transient, Timeout: true, Attempt: 2, MaxAttempts: 4, Cost: 5}))
	// Output:
	// true
	// false
}

// A quota around a bucket that says how many tokens are left: events and
// Transport.Keys show them, and a key whose quota is full can be forgotten.
func ExampleMeteredQuota() {
	var quota retrip.MeteredQuota = thrifty{retrip.NewBucket(100)}
	quota.Take(context.Background(), retrip.Failure{Cost: 5})
	fmt.Println(quota.Tokens(), quota.Capacity(), quota.Full())
	quota.Return(5)
	fmt.Println(quota.Full())
	// Output:
	// 95 100 false
	// true
}

// Any strategy takes a gate. This server stops answering: two requests are
// retried, and then each is sent once until the server is back.
func ExampleGate() {
	gate := new(retrip.Gate)
	s := quick()
	s.Quota = gate
	up, sent := false, 0
	client := &http.Client{Transport: &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
		sent++
		if up {
			return status(http.StatusOK)(req)
		}
		return nil, os.ErrDeadlineExceeded // as a read that times out
	})}}
	get := func() {
		before := sent
		if resp, err := client.Get("http://example.com/"); err == nil {
			resp.Body.Close()
		}
		fmt.Print(sent-before, " ")
	}
	for range 6 {
		get()
	}
	fmt.Println("attempts;", gate)
	up = true
	for range 4 {
		get()
	}
	fmt.Println("attempts;", gate)
	// Output:
	// 3 3 1 1 1 1 attempts; gate with doubt 8
	// 1 1 1 1 attempts; gate with doubt 0
}
