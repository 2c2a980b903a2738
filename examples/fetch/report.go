package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// target shows host and path of a URL: users, passwords and tokens are elsewhere.
func target(method string, u *url.URL) string {
	if method == "" {
		method = http.MethodGet
	}
	return method + " " + u.Host + u.EscapedPath()
}

// sent is how many attempts were sent, redirects included.
func sent(trace *retrip.Trace) string {
	n := 0
	for _, request := range trace.Requests() {
		for _, e := range request {
			if !e.Sent.IsZero() {
				n++
			}
		}
	}
	if n == 1 {
		return " (1 attempt)"
	}
	return fmt.Sprintf(" (%d attempts)", n)
}

// describe is the line that -v prints for an attempt.
func describe(e retrip.Event) string {
	return fmt.Sprintf("fetch: %s: %s", target(e.Request.Method, e.Request.URL), what(e))
}

// what says what came of an attempt, in less than the width of a terminal.
func what(e retrip.Event) string {
	var b strings.Builder
	if e.Sent.IsZero() {
		fmt.Fprintf(&b, "after attempt %d: ", e.Attempt)
	} else {
		fmt.Fprintf(&b, "attempt %d: ", e.Attempt)
	}
	if e.LimiterWait > 0 {
		fmt.Fprintf(&b, "waited %v for the limiter, ", round(e.LimiterWait))
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
	} else {
		b.WriteString(e.ErrorKind())
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	switch e.Reason {
	case retrip.WaitOverCap, retrip.WaitOverDeadline:
		fmt.Fprintf(&b, ", stop: %v (%s asks for %v)", e.Reason, e.WaitFrom, round(e.Wait))
	case 0:
		if !e.Final {
			fmt.Fprintf(&b, ", %v, again in %v (%s)", e.Class, round(e.Wait), e.WaitFrom)
		}
	default:
		fmt.Fprintf(&b, ", stop: %v", e.Reason)
	}
	return b.String()
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// A statusLine is a line of a terminal that is written again and again. If it is
// not on, it shows nothing.
type statusLine struct {
	to    io.Writer
	on    bool
	width int // of what it shows
}

func (l *statusLine) show(text string) {
	if l.on {
		fmt.Fprintf(l.to, "\r%s%*s", text, max(0, l.width-len(text)), "")
		l.width = len(text)
	}
}

// clear leaves an empty line, with the cursor at its start.
func (l *statusLine) clear() {
	if l.width > 0 {
		l.show("")
		fmt.Fprint(l.to, "\r")
	}
}

// progress counts the bytes written to it and shows the sum, at most ten times a
// second.
type progress struct {
	line  *statusLine
	total int64 // -1 if the server did not say
	done  int64
	shown time.Time
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if time.Since(p.shown) >= 100*time.Millisecond {
		p.show()
		p.shown = time.Now()
	}
	return len(b), nil
}

// end shows the final sum and leaves the line.
func (p *progress) end() {
	p.show()
	fmt.Fprintln(p.line.to)
}

func (p *progress) show() {
	text := mebibytes(p.done)
	if p.total >= 0 {
		text += " of " + mebibytes(p.total)
	}
	p.line.show(text)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// isTerminal reports whether w is a terminal: a device of characters, other than
// the null device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
