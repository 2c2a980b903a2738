package retrip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// What is kept in memory: no large body, no URL, and nothing that no retry needs.

// What an earlier attempt has read is freed as the last one reads it, also if
// it was answered before that.
func TestCaptureIsFreedAsTheLastAttemptReadsIt(t *testing.T) {
	const each, requests = 1 << 20, 20
	testkit.HeapInUse() // what others left behind takes a second collection
	before := testkit.HeapInUse()
	content, buffer := make([]byte, each), make([]byte, each)
	for range requests {
		r, w := io.Pipe()
		go func() { _, _ = w.Write(content) }()
		first := true
		var body io.ReadCloser
		base := step(func(req *http.Request) (*http.Response, error) {
			if first {
				first = false
				_, _ = io.ReadFull(req.Body, buffer)
				return status(503)(req)
			}
			body = req.Body
			return status(200)(req)
		})
		_, err := (&Transport{Base: base, Strategy: noWait(), ReplayBuffer: 2 * each}).RoundTrip(newRequest(t, "PUT", r))
		require.NoError(t, err)
		_, err = io.ReadFull(body, buffer)
		require.NoError(t, err)
		defer body.Close()
		go func() { _, _ = body.Read(make([]byte, 1)) }() // waits for more
	}
	require.Eventually(t, func() bool { return (testkit.HeapInUse()-before)/requests < each/4 }, 5*time.Second, time.Millisecond)
}

// measures reads each body in small pieces and notes its size.
func measures(received *[]int64, steps ...step) step {
	return func(req *http.Request) (*http.Response, error) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, testkit.OnlyReader(req.Body), make([]byte, 32<<10))
		*received = append(*received, n)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		return steps[len(*received)-1](req)
	}
}

// A 64 MiB file is sent twice without being held.
func TestLargeFileTakesNoMemory(t *testing.T) {
	const size = 64 << 20
	f := testkit.OpenFile(t, "", 0)
	require.NoError(t, os.Truncate(f.Name(), size))
	var received []int64
	base := measures(&received, status(503), status(200))
	req := newRequest(t, "PUT", f)
	var resp *http.Response
	var err error
	allocated := testkit.Allocated(func() {
		resp, err = (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
	})
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, []int64{size, size}, received)
	require.Less(t, allocated, int64(256<<10))
}

// A retry of a body that can be reopened copies none of it.
func TestRetryCopiesNoMemory(t *testing.T) {
	countsAllocations(t)
	content := make([]byte, 64<<10)
	perRequest := func(rt http.RoundTripper) int64 {
		return testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, _ := http.NewRequest("PUT", "https://example.com/", bytes.NewReader(content))
				resp, err := rt.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					b.Fatal(resp, err)
				}
			}
		}).AllocedBytesPerOp()
	}
	once := perRequest(testkit.Same(&http.Response{StatusCode: 200, Body: http.NoBody}))
	calls := 0
	twice := perRequest(&Transport{Strategy: noWait(), Base: step(func(*http.Request) (*http.Response, error) {
		calls++
		return &http.Response{StatusCode: 200 + 303*(calls%2), Body: http.NoBody}, nil
	})})
	require.Less(t, twice-once, int64(2<<10))
}

// What is kept of a body that declares its length is no longer than that.
func TestShortBodyTakesLittleMemory(t *testing.T) {
	countsAllocations(t)
	perRequest := func(declared int64) int64 {
		transport := &Transport{Strategy: noWait(), Base: step(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, errors.Join(err, req.Body.Close())
		})}
		return testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, _ := http.NewRequest("PUT", "https://example.com/", testkit.OnlyReader(strings.NewReader("0123456789")))
				req.ContentLength = declared
				if _, err := transport.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		}).AllocedBytesPerOp()
	}
	require.Less(t, perRequest(10)+1<<10, perRequest(-1))
}

// A long stream that can't be sent again takes no more memory than the
// ReplayBuffer, goes out once, and its answer comes back.
func TestLongOpaqueBodyTakesNoMemory(t *testing.T) {
	const size = 128 << 20
	var received []int64
	base := measures(&received, status(503))
	body := &testkit.Body{ReadCloser: io.NopCloser(io.LimitReader(testkit.Endless, size))}
	req := newRequest(t, "PUT", body)
	var resp *http.Response
	var err error
	allocated := testkit.Allocated(func() {
		resp, err = (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
	})
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, []int64{size}, received)
	require.Less(t, allocated, int64(8<<20), "a bound, and garbage of which each Read makes a little")
	require.Equal(t, 1, body.Closes())
}

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
				req := testkit.RequestTo(t, "GET", longURL(fmt.Sprintf(host, i)), nil)
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
