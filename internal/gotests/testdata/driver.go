// Package driver puts a wrapper around the transports of a test binary, as the
// environment says, and notes which test sends which request.
package driver

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"

	"gotests/retrip"
)

func init() {
	wrapper := os.Getenv("GOTESTS_WRAPPER")
	if wrapper == "" {
		return // a process that a test started
	}
	notes, err := os.OpenFile(os.Getenv("GOTESTS_NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	os.Unsetenv("GOTESTS_WRAPPER")
	http.GotestsHook = func(base http.RoundTripper) http.RoundTripper {
		base = noting{forwarder{base}, notes}
		switch wrapper {
		case "forwarder":
			return forwarder{base}
		case "one":
			return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy {
				s := retrip.Standard()
				s.MaxAttempts = 1
				return s
			}}
		case "three":
			return &retrip.Transport{Base: base}
		}
		panic("no such wrapper: " + wrapper)
	}
}

// A forwarder only forwards.
type forwarder struct{ base http.RoundTripper }

func (f forwarder) RoundTrip(req *http.Request) (*http.Response, error) { return f.base.RoundTrip(req) }

func (f forwarder) CloseIdleConnections() {
	if closer, ok := f.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// A noting transport notes the test that each attempt belongs to. It stands
// below the wrapper, so that it notes what the wrapper sends.
type noting struct {
	forwarder
	notes *os.File
}

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	fmt.Fprintln(n.notes, test())
	return n.base.RoundTrip(req)
}

var testName = regexp.MustCompile(`\.[Tt]est([A-Z]\w*)|\.(Example\w*)`)

// test returns the name of the test function whose frame is the outermost one
// of this goroutine; "-" means none.
func test() string {
	callers := make([]uintptr, 128)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	name := "-"
	for {
		frame, more := frames.Next()
		if m := testName.FindStringSubmatch(frame.Function); m != nil {
			name = m[2]
			if name == "" {
				name = "Test" + m[1]
			}
		}
		if !more {
			return name
		}
	}
}
