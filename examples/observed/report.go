package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrip-go/retrip"
)

// report prints what the transport and the spans tell in the end.
func (o *observed) report(w io.Writer) error {
	transport := o.transport.Unwrap()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nhost\trequests\tattempts\tretries\trecovered\tthrottled\tgiven up\ttokens\trate\t")
	keys := slices.SortedFunc(transport.Keys(), func(a, b retrip.KeyStats) int { return cmp.Compare(a.Key, b.Key) })
	for _, k := range keys {
		rate := "any"
		if k.Limiter.Enabled {
			rate = fmt.Sprintf("%.0f/s", k.Limiter.Rate)
		}
		row(table, k.Key, k.Stats, k.Tokens, rate)
	}
	total := transport.Stats()
	row(table, "all", total, "", "")
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nWhy requests were given up: %s.\n", reasons(total))
	s := o.spans
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := fmt.Fprintf(w, "Spans: %d of requests, %d of attempts, %d of these resends. The slowest request took %v: trace %v.\n",
		s.requests, s.attempts, s.resends, s.slowest.Round(time.Millisecond), s.slowestTrace)
	return err
}

func row(w io.Writer, name string, s retrip.Stats, tokens any, rate string) {
	givenUp := int64(0)
	for _, n := range s.GivenUp {
		givenUp += n
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%s\t\n",
		name, s.Requests, s.Attempts, s.Retries, s.Recovered, s.Throttled, givenUp, tokens, rate)
}

func reasons(s retrip.Stats) string {
	var text []string
	for _, reason := range slices.Sorted(maps.Keys(s.GivenUp)) {
		text = append(text, fmt.Sprintf("%d %v", s.GivenUp[reason], reason))
	}
	return cmp.Or(strings.Join(text, ", "), "none was")
}
