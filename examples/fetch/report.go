package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// describe is the line that -v prints for an attempt. Of the URL it shows host
// and path: users, passwords and tokens are elsewhere.
func describe(e retrip.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "fetch: %s %s%s: ", e.Request.Method, e.Request.URL.Host, e.Request.URL.EscapedPath())
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

// progress counts the bytes written to it and shows the sum, on one line and
// at most ten times a second.
type progress struct {
	to    io.Writer
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
	fmt.Fprintln(p.to)
}

func (p *progress) show() {
	fmt.Fprintf(p.to, "\r%s", mebibytes(p.done))
	if p.total >= 0 {
		fmt.Fprintf(p.to, " of %s", mebibytes(p.total))
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// isTerminal reports whether w is a file that shows what is written at once.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
