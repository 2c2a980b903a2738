// Package show prints what retrip did, for the examples.
package show

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

// Lines is an observer that prints each attempt and what follows from it.
func Lines(w io.Writer) func(retrip.Event) {
	return func(e retrip.Event) {
		fmt.Fprintf(w, "  %s attempt %d: %d %s%s, %v, %s\n", e.Request.Method, e.Attempt,
			e.Status, http.StatusText(e.Status), e.ErrorKind(), e.Class, Next(e))
	}
}

// Table prints the events of some requests, a line each.
func Table(w io.Writer, trips ...[]retrip.Event) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  attempt\toutcome\tclass\twhat next")
	for _, events := range trips {
		for _, e := range events {
			fmt.Fprintf(table, "  %d\t%s\t%v\t%s\n", e.Attempt, outcome(e), e.Class, Next(e))
		}
	}
	return table.Flush()
}

// outcome is what the server answered, or the kind of error. An error's own
// text would name port numbers, which differ from run to run.
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

// Next is what follows from an attempt: another one, or the end.
func Next(e retrip.Event) string {
	switch {
	case !e.Final:
		return fmt.Sprintf("again in %v (%s)", e.Wait.Round(time.Millisecond), e.WaitFrom)
	case e.Reason != 0:
		return fmt.Sprintf("stop: %v", e.Reason)
	default:
		return "done"
	}
}

// A Tally sums up calls of an SDK, each of which may make several requests.
type Tally struct{ calls, requests, attempts, hits int }

// Call prints the attempts of each request that a call made, and what came of
// them at the server, and adds them up.
func (t *Tally) Call(w io.Writer, title string, trips [][]retrip.Event, hits []faultlayer.Hit) error {
	fmt.Fprintln(w, title)
	if err := Table(w, trips...); err != nil {
		return err
	}
	t.calls, t.requests, t.hits = t.calls+1, t.requests+len(trips), t.hits+len(hits)
	for _, events := range trips {
		t.attempts += events[len(events)-1].Attempt
	}
	arrived := make([]string, len(hits))
	for i, hit := range hits {
		arrived[i] = hit.Method
		if hit.Size > 0 {
			arrived[i] = fmt.Sprintf("%s %d bytes %.8s", hit.Method, hit.Size, hit.Hash)
		}
	}
	_, err := fmt.Fprintf(w, "  at the server: %s\n", strings.Join(arrived, ", "))
	return err
}

func (t Tally) String() string {
	return fmt.Sprintf("%d calls made %d requests in %d attempts; the server saw %d, %d of them repeated by net/http.",
		t.calls, t.requests, t.attempts, t.hits, t.hits-t.attempts)
}
