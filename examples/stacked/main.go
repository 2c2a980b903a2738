// Stacked shows how often the server is called when two layers retry: an SDK with
// retries of its own, and retrip under it. Attempts multiply if neither layer knows of
// the other, and add up if one does. One layer is best.
//
//	go run ./examples/stacked
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"text/tabwriter"

	"github.com/retrip-go/retrip"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run makes the same call through different layers, to a server that is down.
func run(w io.Writer) error {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "layers\tthe server is called\tbecause")
	for _, stack := range []struct {
		layers    string
		transport http.RoundTripper
		because   string
	}{
		{"retrip", newRetrip(nil), "one layer: set the SDK's own attempts to 1"},
		{"SDK", sdk{next: http.DefaultTransport}, "one layer, with the SDK's policy"},
		{"SDK over retrip", sdk{next: newRetrip(nil)}, "neither knows of the other: attempts multiply"},
		{"SDK that numbers its attempts, over retrip", sdk{next: newRetrip(nil), numbers: true}, "its later attempts are sent once: attempts add"},
		{"retrip over retrip", newRetrip(newRetrip(nil)), "the same, by a mark in the context"},
	} {
		calls.Store(0)
		client := &http.Client{Transport: stack.transport}
		resp, err := client.Get(server.URL)
		if err != nil {
			return err
		}
		_ = resp.Body.Close() // it has no content
		fmt.Fprintf(table, "%s\t%d times\t%s\n", stack.layers, calls.Load(), stack.because)
		client.CloseIdleConnections()
	}
	return table.Flush()
}

// newRetrip is standard mode without its waits.
func newRetrip(base http.RoundTripper) http.RoundTripper {
	return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy {
		s := retrip.Standard()
		s.Backoff = retrip.Constant{}
		return s
	}}
}

// An sdk is the retry loop that many clients have inside: three attempts,
// whatever is below.
type sdk struct {
	next    http.RoundTripper
	numbers bool // as the SDKs of AWS, OpenAI, Anthropic and Cloudflare do
}

func (s sdk) RoundTrip(req *http.Request) (*http.Response, error) {
	const attempts = 3
	for retries := 0; ; retries++ {
		out := req.Clone(req.Context())
		if s.numbers {
			out.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(retries))
		}
		resp, err := s.next.RoundTrip(out)
		if err != nil || resp.StatusCode < 500 || retries == attempts-1 {
			return resp, err
		}
		_ = resp.Body.Close() // it has no content
	}
}
