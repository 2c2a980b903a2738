// Github calls a server that limits its callers as GitHub's API does, with
// go-github over retrip. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in with github.WithTransport and the strategy services.GitHub,
// which knows both of GitHub's limits. go-github retries nothing by itself, so
// there is nothing to switch off. Don't use the context key
// SleepUntilPrimaryRateLimitResetWhenRateLimited: with it, go-github waits and calls
// again above retrip, and resends a POST without its body.
//
// go-github remembers the limit. Once a response, even a success, says that no calls
// remain, it refuses further ones with a RateLimitError and sends nothing until the
// limit is reset. Keep that if the reset may be an hour away: GitHub asks clients not
// to call in vain. For a call that should wait instead, as long as
// Strategy.MaxRetryAfter allows, use the context key BypassRateLimitCheck. go-github
// never sees the refusals that retrip itself waited out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/show"
	"github.com/retrip-go/retrip/services"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "github:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up.
func newClient(url string, transport http.RoundTripper) (*github.Client, error) {
	url += "/" // go-github insists
	return github.NewClient(github.WithTransport(transport), github.WithURLs(&url, &url))
}

// strategy is GitHub's, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := services.GitHub()
	s.ThrottleBackoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	return s
}

// run makes the calls and prints what became of each.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	transport := &retrip.Transport{PerKey: strategy, Observe: show.Lines(w)}
	defer transport.CloseIdleConnections()
	client, err := newClient(server.URL, transport)
	if err != nil {
		return err
	}
	ctx := context.Background()

	fmt.Fprintln(w, "List, when the hourly limit is used up:")
	server.faults.Fail(nil, primaryLimit(http.StatusForbidden))
	comments, _, err := client.Issues.ListComments(ctx, "retrip-go", "retrip", 1, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  returned: %d comment, %q\n", len(comments), comments[0].GetBody())

	fmt.Fprintln(w, "Create, over the secondary limit: a POST, but the refused one was not processed")
	server.faults.Fail(nil, secondaryLimit("1"))
	comment, err := create(ctx, client, "Second.")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  returned: comment %d, %q\n", comment.GetID(), comment.GetBody())

	fmt.Fprintln(w, "Create, with the last call of the limit; go-github refuses the next one without a request:")
	server.faults.Fail(nil, server.lastCall)
	if _, err = create(ctx, client, "Third."); err != nil {
		return err
	}
	_, err = create(ctx, client, "Fourth.")
	if limited := new(github.RateLimitError); !errors.As(err, &limited) {
		return fmt.Errorf("go-github let the call pass: %w", err)
	}
	fmt.Fprintln(w, "  returned: RateLimitError")

	fmt.Fprintln(w, "Create, bypassing go-github's own check: retrip waits for the reset")
	server.faults.Fail(nil, primaryLimit(http.StatusTooManyRequests))
	comment, err = create(context.WithValue(ctx, github.BypassRateLimitCheck, true), client, "Fourth.")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  returned: comment %d, %q\n", comment.GetID(), comment.GetBody())

	_, err = fmt.Fprintf(w, "5 calls, %d requests, %d comments.\n", len(server.faults.Hits()), server.count())
	return err
}

func create(ctx context.Context, client *github.Client, text string) (*github.IssueComment, error) {
	comment, _, err := client.Issues.CreateComment(ctx, "retrip-go", "retrip", 1, &github.IssueComment{Body: &text})
	return comment, err
}
