package retrip

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// longURL has its host and everything else in one string, as url.Parse leaves it.
func longURL(host string) string { return "http://" + host + "/" + strings.Repeat("x", 100<<10) }

// What is remembered of a host is its name, not the URL that it came in, and no
// name of any length.
func TestLogKeepsNoURLs(t *testing.T) {
	var longest int
	observe := LogTo(slog.New(slog.NewTextHandler(longestLine{&longest}, nil)))
	for name, host := range map[string]string{
		"long URL":  "host-%d.example",
		"long host": "host-%d." + strings.Repeat("long.", 20<<10) + "example",
	} {
		kept := testkit.HeapGrowth(func() {
			for i := range 200 {
				req, err := http.NewRequestWithContext(t.Context(), "GET", longURL(fmt.Sprintf(host, i)), nil)
				require.NoError(t, err)
				observe(Event{Request: req, Final: true, Attempt: 3, Reason: AttemptsExhausted})
			}
		})
		require.Less(t, kept, int64(1<<20), name)
		require.Less(t, longest, 2<<10, name)
	}
	runtime.KeepAlive(observe)
}

// A longestLine notes how long the longest line is that was written to it.
type longestLine struct{ n *int }

func (l longestLine) Write(line []byte) (int, error) {
	*l.n = max(*l.n, len(line))
	return len(line), nil
}

// The code in an error is a copy of its own, not a piece of a header or a body
// of the server's.
func TestErrorsKeepNoHeaders(t *testing.T) {
	rest := strings.Repeat("x", 60<<10)
	for name, refusal := range map[string]step{
		"header": status(400, "X-Amzn-Errortype: SlowDown:"+rest),
		"JSON":   jsonError(400, "SlowDown:"+rest),
	} {
		synctest.Test(t, func(t *testing.T) {
			var kept []error
			size := testkit.HeapGrowth(func() {
				for range 50 {
					_, err := get(t.Context(), &Transport{Base: script(copied(refusal), fails(io.EOF)), Prepare: failsAt(2)})
					kept = append(kept, err)
				}
			})
			for _, err := range kept {
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, "SlowDown", e.Code, name)
			}
			require.Less(t, size, int64(1<<20), name)
		})
	}
}

// copied answers with headers of its own, as a connection does.
func copied(play step) step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := play(req)
		for _, values := range resp.Header {
			values[0] = strings.Clone(values[0])
		}
		return resp, err
	}
}

// failsAt prepares the attempts before the nth.
func failsAt(n int) func(*http.Request, PrepareInfo) error {
	return func(_ *http.Request, p PrepareInfo) error {
		if p.Number == n {
			return errors.New("no token")
		}
		return nil
	}
}
