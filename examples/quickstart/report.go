package main

import (
	"fmt"

	"github.com/retrip-go/retrip"
)

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
