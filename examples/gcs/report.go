package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A tally sums up the calls.
type tally struct{ calls, requests, attempts, hits int }

func (t tally) String() string {
	return fmt.Sprintf("%d calls made %d requests in %d attempts; the server saw %d, %d of them repeated by net/http.",
		t.calls, t.requests, t.attempts, t.hits, t.hits-t.attempts)
}

// report prints the attempts of each request that a call made, and what came
// of them at the server.
func (t *tally) report(w io.Writer, title string, trips [][]retrip.Event, hits []faultlayer.Hit) error {
	fmt.Fprintln(w, title)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  attempt\toutcome\tclass\twhat next")
	attempts := 0
	for _, events := range trips {
		for _, e := range events {
			fmt.Fprintf(table, "  %d\t%s\t%v\t%s\n", e.Attempt, outcome(e), e.Class, next(e))
		}
		attempts += events[len(events)-1].Attempt
	}
	if err := table.Flush(); err != nil {
		return err
	}
	t.calls, t.requests, t.attempts, t.hits = t.calls+1, t.requests+len(trips), t.attempts+attempts, t.hits+len(hits)
	arrived := make([]string, len(hits))
	for i, hit := range hits {
		arrived[i] = hit.Method
		if hit.Size > 0 {
			arrived[i] = fmt.Sprintf("%s %d bytes %.8s", hit.Method, hit.Size, hit.Hash)
		}
	}
	_, err := fmt.Fprintf(w, "  at the server: %s\n\n", strings.Join(arrived, ", "))
	return err
}

// outcome is what the server answered, or the kind of error.
func outcome(e retrip.Event) string {
	switch {
	case e.Err != nil:
		return e.ErrorKind()
	case e.Code != "":
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	default:
		return fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	}
}

// next is what follows from the outcome: another attempt, or the end.
func next(e retrip.Event) string {
	switch {
	case !e.Final:
		return fmt.Sprintf("again in %v (%s)", e.Wait.Round(time.Millisecond), e.WaitFrom)
	case e.Reason != 0:
		return fmt.Sprintf("stop: %v", e.Reason)
	default:
		return "done"
	}
}
