// Resty keeps notes on a server that fails, with resty v2 over retrip. It needs
// no network but loopback.
//
//	go run .
//
// Plug retrip in with SetTransport. resty's own retries are off by default;
// SetRetryCount(0) makes that explicit. If they are on, they multiply with ours, and
// they resend a POST after any error, even where retrip refused because the first may
// have been processed.
//
// Settings that resty would make on an *http.Transport (SetProxy, SetTLSClientConfig,
// certificates) now belong on retrip's Base. resty reads a body that is an io.Reader
// into memory before it sends it, so retrip can resend any body. Send a very large
// body without resty.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "resty:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up.
func newClient(url string, transport http.RoundTripper) *resty.Client {
	return resty.New().SetBaseURL(url).SetTransport(transport).SetRetryCount(0)
}

// strategy is the standard mode, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

// run makes requests that meet trouble, and prints what became of each.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	transport := &retrip.Transport{PerKey: strategy, Observe: show.Lines(w)}
	defer transport.CloseIdleConnections()
	client := newClient(server.URL, transport)
	ctx := context.Background()
	overloaded, throttled := faultlayer.Answer(503, "busy"), faultlayer.Answer(429, "slowly")

	calls := []struct {
		title  string
		send   func(path string) (*resty.Response, error)
		path   string
		faults []faultlayer.Fault
	}{
		{"POST that was throttled, and so not processed",
			client.R().SetBody(note{"milk"}).Post, "/notes", []faultlayer.Fault{throttled}},
		{"GET from an overloaded server",
			client.R().Get, "/notes/1", []faultlayer.Fault{overloaded, overloaded}},
		{"POST that may have been processed: not sent again",
			client.R().SetBody(note{"eggs"}).Post, "/notes", []faultlayer.Fault{overloaded}},
		{"POST that the caller declares idempotent",
			client.R().SetContext(retrip.WithIdempotent(ctx)).SetBody(note{"eggs"}).Post, "/notes", []faultlayer.Fault{overloaded}},
		{"GET whose reused connection breaks: net/http itself resends it, below retrip",
			client.R().Get, "/notes/2", []faultlayer.Fault{faultlayer.Reset}},
	}
	for _, call := range calls {
		fmt.Fprintf(w, "%s:\n", call.title)
		before := server.requests.Load()
		server.faults.Fail(nil, call.faults...)
		resp, err := call.send(call.path)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  returned: %s, %s, requests: %d\n", resp.Status(), resp.Body(), server.requests.Load()-before)
	}
	_, err := fmt.Fprintf(w, "%d calls, %d requests, %d notes.\n", len(calls), server.requests.Load(), server.count())
	return err
}
