// Perhost gives hosts different strategies with PerKey, and gives each table of a
// database a state of its own with Key, because the adaptive mode's limiter assumes that
// all requests of a strategy share one limit. It prints what became of every request.
// It needs no network but loopback.
//
//	go run ./examples/perhost
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrip-go/retrip"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "perhost:", err)
		os.Exit(1)
	}
}

// strategyFor is the PerKey function. It is asked once for each key, and once
// with the empty key for the strategy of those beyond Transport.MaxKeys.
func strategyFor(key string) *retrip.Strategy {
	host, _, _ := strings.Cut(key, "/")
	switch host {
	case "gateway.example.com": // it retries by itself, so our retries would multiply its own
		s := retrip.Standard()
		s.MaxAttempts = 1
		return s
	case "batch.example.com": // old and often restarted: one more attempt
		return retrip.Legacy()
	case "tables.example.com": // throttles each table on its own
		return retrip.Adaptive()
	default:
		return retrip.Standard()
	}
}

// resource is the Key function. It names what is throttled as one: a host, or
// a table of the host that has tables, which is the first segment of the path.
//
// Where the table stands in the request's body, as with DynamoDB, put it into
// the request's context and take it from there.
func resource(req *http.Request) string {
	host := retrip.HostKey(req)
	if host != "tables.example.com" {
		return host
	}
	table, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	return host + "/" + table
}

// newClient returns a client for which every host is at addr.
func newClient(addr string) *http.Client {
	base := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		},
	}
	return &http.Client{Transport: &retrip.Transport{
		Base:   base,
		PerKey: strategyFor,
		Key:    resource,
	}}
}

// run makes all requests, one after the other, and prints to w what they met.
func run(w io.Writer) error {
	server := serve()
	defer server.Close()
	client := newClient(server.Listener.Addr().String())
	defer client.CloseIdleConnections()

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "key\tanswers\toutcome\twaited for the limiter")
	once := retrip.WithMaxAttempts(context.Background(), 1)
	for _, r := range []struct {
		ctx context.Context
		url string
	}{
		{context.Background(), "http://api.example.com/"},
		{context.Background(), "http://gateway.example.com/"},
		{context.Background(), "http://batch.example.com/"},

		// One table throttles this request, which takes that for an answer.
		{once, "http://tables.example.com/orders/1"},
		// The other table's limiter has heard nothing of it: nobody waits.
		{context.Background(), "http://tables.example.com/users/1"},
		{context.Background(), "http://tables.example.com/users/2"},
		{context.Background(), "http://tables.example.com/users/3"},
		// The first one's has: even a first attempt now waits, for a second or
		// two, since a limiter that has seen a single attempt allows but few.
		{context.Background(), "http://tables.example.com/orders/2"},
	} {
		events, err := get(r.ctx, client, r.url)
		if err != nil {
			return fmt.Errorf("%s: %w", r.url, err)
		}
		printRequest(table, events)
	}
	return table.Flush()
}

// get makes one request and returns what happened on its way.
func get(ctx context.Context, client *http.Client, url string) ([]retrip.Event, error) {
	ctx, trace := retrip.WithTrace(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	return trace.Requests()[0], nil // the only one, since no server redirects
}

// printRequest prints one line about one request.
func printRequest(w io.Writer, events []retrip.Event) {
	var (
		answers []string
		waited  time.Duration
	)
	for _, e := range events {
		answers = append(answers, fmt.Sprint(e.Status))
		waited += e.LimiterWait
	}
	last := events[len(events)-1]
	end := last.Class.String()
	if last.Reason != 0 {
		end = last.Reason.String()
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%v\n", last.Key, strings.Join(answers, " "), end, waited.Round(time.Millisecond))
}
