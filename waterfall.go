package retrip

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// waterfallWidth is how many columns the time axis has.
const waterfallWidth = 40

// Waterfall draws the requests so far as text for a terminal: a line for each
// attempt, with the time it took as # and the wait after it as dots, and the time
// axis below. Like events in logs, it names no path, query or header.
//
//	GET example.com
//	  1  ##...........                              100ms  connection refused, transient; waits 1s (backoff)
//	  2              ###......................      200ms  429 Too Many Requests, throttled; waits 2s (Retry-After)
//	  3                                      ####   300ms  200 OK, success
//	     0                                   3.6s
func (t *Trace) Waterfall() string {
	var b strings.Builder
	for _, events := range t.Requests() {
		if len(events) > 0 {
			drawWaterfall(&b, events)
		}
	}
	return b.String()
}

// A waterfallAxis maps times to columns.
type waterfallAxis struct {
	begin time.Time
	total time.Duration
}

func (a waterfallAxis) column(at time.Time) int {
	if a.total <= 0 {
		return 0
	}
	part := float64(at.Sub(a.begin)) / float64(a.total)
	return min(max(int(part*waterfallWidth), 0), waterfallWidth-1)
}

// span draws from a time to another, at least one column wide.
func (a waterfallAxis) span(line []byte, from, to time.Time, with byte) {
	for i := a.column(from); i <= a.column(to); i++ {
		if line[i] == ' ' || with == '#' {
			line[i] = with
		}
	}
}

func drawWaterfall(b *strings.Builder, events []Event) {
	axis := axisOf(events)
	if req := events[0].Request; req != nil && req.URL != nil {
		fmt.Fprintf(b, "%s %s\n", cmp.Or(req.Method, http.MethodGet), req.URL.Host)
	}
	for i, e := range events {
		line := []byte(strings.Repeat(" ", waterfallWidth))
		took, number := "", ""
		if !e.Sent.IsZero() {
			axis.span(line, e.Sent, e.Done, '#')
			took, number = brief(e.Done.Sub(e.Sent)), fmt.Sprint(e.Attempt)
			if i+1 < len(events) {
				axis.span(line, e.Done, axis.next(events[i+1]), '.')
			}
		}
		fmt.Fprintf(b, "%3s  %s  %s  %s\n", number, line, padLeft(took, 6), outcomeOf(e))
	}
	if end := brief(axis.total); axis.total > 0 {
		fmt.Fprintf(b, "     0%s%s\n", strings.Repeat(" ", waterfallWidth-1-utf8.RuneCountInString(end)), end)
	}
}

// axisOf spans all that the events tell of.
func axisOf(events []Event) (a waterfallAxis) {
	for _, e := range events {
		if e.Sent.IsZero() {
			if !a.begin.IsZero() {
				a.total = max(a.total, e.Elapsed)
			}
			continue
		}
		if a.begin.IsZero() {
			a.begin = e.Sent.Add(-e.LimiterWait)
		}
		a.total = max(a.total, e.Done.Sub(a.begin))
	}
	return a
}

// next is when the wait before an event ended.
func (a waterfallAxis) next(e Event) time.Time {
	if e.Sent.IsZero() {
		return a.begin.Add(e.Elapsed)
	}
	return e.Sent
}

// outcomeOf says in words what came of an attempt and what follows.
func outcomeOf(e Event) string {
	var parts []string
	switch {
	case e.Sent.IsZero():
		parts = append(parts, "not sent")
	case e.Err != nil && e.Status == 0:
		parts = append(parts, e.ErrorKind())
	default:
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, cmp.Or(e.Code, http.StatusText(e.Status)))))
	}
	if e.Class != Unknown {
		parts = append(parts, e.Class.String())
	}
	text := strings.Join(parts, ", ")
	switch {
	case e.Reason != 0:
		text += fmt.Sprintf("; no retry: %v", e.Reason)
	case !e.Final:
		text += fmt.Sprintf("; waits %s (%s)", brief(e.Wait), e.WaitFrom)
	}
	if e.LimiterWait > 0 {
		text += fmt.Sprintf("; waited %s for the limiter", brief(e.LimiterWait))
	}
	return text
}

// brief writes a time in three digits or so.
func brief(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}
