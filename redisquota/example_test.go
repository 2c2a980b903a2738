package redisquota_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
)

// startRedis stands in for a server of yours.
func startRedis() *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	return server
}

func Example() {
	server := startRedis()
	defer server.Close()
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	defer client.Close()
	fleet, err := redisquota.New(client, redisquota.Options{Prefix: "production"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	transport := &retrip.Transport{PerKey: func(key string) *retrip.Strategy {
		s := retrip.Gated()
		s.Quota = fleet.Quota(key)
		return s
	}}

	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	resp, err := (&http.Client{Transport: transport}).Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// The start of a program is a good time to see that a user may run the script. The
// program need not stop because of it.
func ExampleFleet_Check() {
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	defer client.Close()
	fleet, err := redisquota.New(client, redisquota.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := fleet.Check(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: redisquota: dial tcp 127.0.0.1:1: connect: connection refused
}

// Three processes use one dependency. Two see it fail, and the third learns of it with
// its first failure. One alone could not stop the others: it might be sick itself.
func ExampleFleet_Quota() {
	server := startRedis()
	defer server.Close()
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	defer client.Close()
	var quotas []*redisquota.Quota
	for range 3 {
		fleet, err := redisquota.New(client, redisquota.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer fleet.Close()
		quotas = append(quotas, fleet.Quota("api.example"))
	}
	fail := func(q *redisquota.Quota) bool {
		f := retrip.Failure{Class: retrip.Transient, Attempt: 1, MaxAttempts: 3, Timeout: true, Done: time.Now()}
		q.Failed(f)
		return q.Take(context.Background(), f)
	}
	for range 5 {
		fail(quotas[0])
		fail(quotas[1])
	}
	time.Sleep(time.Second) // they report
	fmt.Println("The third may retry:", fail(quotas[2]))
	fmt.Println("Its own doubt:", quotas[2].Doubt())
	// Output:
	// The third may retry: false
	// Its own doubt: 1
}

func ExampleFleet_Stats() {
	server := startRedis()
	defer server.Close()
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	defer client.Close()
	fleet, err := redisquota.New(client, redisquota.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	_ = fleet.Check(context.Background())
	s := fleet.Stats()
	fmt.Println("reports:", s.Reports, "errors:", s.Errors, "blind:", s.Blind)
	// Output: reports: 1 errors: 0 blind: false
}

func ExampleFleet_Keys() {
	server := startRedis()
	defer server.Close()
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	defer client.Close()
	fleet, err := redisquota.New(client, redisquota.Options{Prefix: "production"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	quota := fleet.Quota("api.example")
	for k := range fleet.Keys() {
		fmt.Println(k.Key, "is", k.RedisKey)
	}
	fmt.Println(quota)
	// Output:
	// api.example is production:1:{b759d973e46ce638f9258aa8140500d2}
	// fleet quota with doubt 0
}

// A client that the program has anyway will do.
func ExampleRueidis() {
	server := startRedis()
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fleet, err := redisquota.New(redisquota.Rueidis(client), redisquota.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	fmt.Println(fleet.Check(context.Background()))
	// Output: <nil>
}

// Options that make no sense are an error at once. A server that is down is none.
func ExampleNew() {
	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	defer client.Close()
	_, err := redisquota.New(client, redisquota.Options{Interval: time.Millisecond})
	fmt.Println(err)
	fleet, err := redisquota.New(client, redisquota.Options{Prefix: "staging", Interval: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fleet.Close())
	// Output:
	// redisquota: Options.Interval is 1ms: use 0 for 500ms, or 50ms to 10s
	// <nil>
}

// Sentinel, clusters, users and TLS are rueidis's own options.
func ExampleDialRueidis() {
	client := redisquota.DialRueidis(rueidis.ClientOption{
		InitAddress: []string{"sentinel-1.example:26379", "sentinel-2.example:26379"},
		Sentinel:    rueidis.SentinelOption{MasterSet: "retries"},
		Username:    "retrip",
		Password:    "secret",
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
	})
	fmt.Println(client.Close()) // nothing was asked, so nothing was connected
	// Output: <nil>
}

// slowest is a Client that notes how long another one takes at most.
type slowest struct {
	redisquota.Client
	took atomic.Int64
}

func (s *slowest) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	begun := time.Now()
	reply, err := s.Client.Eval(ctx, script, key, args...)
	s.took.Store(max(s.took.Load(), int64(time.Since(begun))))
	return reply, err
}

// One method makes a Client of any library.
func ExampleClient() {
	server := startRedis()
	defer server.Close()
	inner := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	defer inner.Close()
	client := &slowest{Client: inner}
	fleet, err := redisquota.New(client, redisquota.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	fmt.Println(fleet.Check(context.Background()), client.took.Load() > 0)
	// Output: <nil> true
}
