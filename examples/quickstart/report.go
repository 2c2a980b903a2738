package main

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/retrip-go/retrip"
)

// printAttempts prints the events of one request as a table, a line each.
func printAttempts(w io.Writer, events []retrip.Event) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  attempt\toutcome\tclass\twhat next")
	for _, e := range events {
		fmt.Fprintf(table, "  %d\t%s\t%v\t%s\n", e.Attempt, outcome(e), e.Class, next(e))
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

// A tally sums up the requests.
type tally struct {
	requests, attempts, saved int
}

func (t *tally) add(events []retrip.Event) {
	last := events[len(events)-1]
	t.requests++
	t.attempts += last.Attempt
	if last.Class == retrip.Success && last.Attempt > 1 {
		t.saved++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d requests in %d attempts: %d were saved by a retry, %d returned the server's last answer.",
		t.requests, t.attempts, t.saved, t.requests-t.saved)
}
