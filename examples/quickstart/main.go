// Quickstart calls servers that fail, each in its own way, through a plain
// http.Client whose Transport is a retrip.Transport, and prints what became of each
// attempt. It needs no network but loopback.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up. A plain &retrip.Transport{} would work, too;
// these settings only make the demonstration shorter.
func newClient() *http.Client {
	return &http.Client{Transport: &retrip.Transport{
		AttemptTimeout: 500 * time.Millisecond,

		// PerKey is called for each new host. Take the strategy of a mode and change
		// a field: the others keep their values.
		PerKey: func(string) *retrip.Strategy {
			s := retrip.Standard()
			// The mode's backoff after throttling begins at a second.
			s.ThrottleBackoff = retrip.FullJitter{Base: 50 * time.Millisecond, Cap: time.Second}
			// Tokens for two retries instead of 500 tokens, to show an empty quota.
			s.Quota = retrip.NewBucket(2 * s.Cost)
			return s
		},
	}}
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	client := newClient()
	defer client.CloseIdleConnections()

	var total tally
	for _, s := range scenes {
		if err := s.play(w, client, &total); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	_, err := fmt.Fprintln(w, total)
	return err
}

// play starts a server for the scene, so that each scene has a host and a quota of
// its own.
func (s scene) play(w io.Writer, client *http.Client, total *tally) error {
	server := serve(s.script)
	defer server.Close()

	for range max(s.calls, 1) {
		ctx, trace := retrip.WithTrace(context.Background())
		req, err := http.NewRequestWithContext(ctx, s.method, server.URL, strings.NewReader(s.body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read to its end
		if err != nil {
			return err
		}

		fmt.Fprintf(w, "%s %s\n", s.method, s.title)
		for _, events := range trace.Requests() { // one, since no server redirects
			total.add(events)
			if err := show.Table(w, events); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  returned: %s, %q\n\n", resp.Status, answer); err != nil {
			return err
		}
	}
	return nil
}
