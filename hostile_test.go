package retrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Servers that never come to an end, or demand the impossible. The faults that
// follow a pattern are in fault_test.go, early answers in early_test.go.

// An error's body that has no end, or stalls, keeps a retry for a moment only.
// It is read no further than the limit, and closed.
func TestErrorBodiesWithoutEnd(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for _, contentType := range []string{"text/plain", "application/json"} {
			for _, stalls := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stalls %v", protocol, contentType, stalls), func(t *testing.T) {
					url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if r.Header.Get("Attempt") == "2" {
							return
						}
						w.Header().Set("Content-Type", contentType)
						w.WriteHeader(503)
						err := http.NewResponseController(w).Flush()
						for err == nil && !stalls {
							_, err = w.Write(testkit.Small)
						}
						<-r.Context().Done()
					})
					counting := testkit.Count(base)
					transport := &Transport{Base: counting, Strategy: noWait(), Prepare: func(req *http.Request, p PrepareInfo) error {
						req.Header.Set("Attempt", fmt.Sprint(p.Number))
						return nil
					}}
					begun := time.Now()
					resp, err := get(t.Context(), testkit.Redirected(transport, url))
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.Less(t, time.Since(begun), testkit.Patience)
					require.EqualValues(t, 2, counting.Calls())
					counting.RequireClosed(t, readAhead)

					// Where the backoff would outlive the deadline, the answer comes before it.
					s := Standard()
					s.Backoff = Constant{Wait: time.Hour}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					defer cancel()
					req := testkit.RequestTo(t, "GET", url, nil).WithContext(ctx)
					resp, err = (&Transport{Base: counting, Strategy: s}).RoundTrip(req)
					require.NoError(t, err)
					require.Equal(t, 503, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
					require.Less(t, time.Since(begun), 2*testkit.Patience)
				})
			}
		}
	}
}

// Whatever a server writes into Retry-After, there is neither a hot loop nor
// a wait above the cap.
func TestRetryAfterFloods(t *testing.T) {
	testkit.NoLeaks(t)
	const own = 2 * time.Millisecond
	for value, hits := range map[string]int{
		"9223372037": 1, "99999999999999999999": 1, "Fri, 31 Dec 9999 23:59:59 GMT": 1, "61": 1,
		"-1": 3, "1e400": 3, "NaN": 3, "0": 3, "": 3, "Thu, 01 Jan 1970 00:00:00 GMT": 3,
	} {
		for lines, status := range testkit.Pairs([]int{1, 200}, []int{429, 503}) {
			t.Run(fmt.Sprintf("%q, %d times, %d", value, lines, status), func(t *testing.T) {
				url, base := testkit.Serve(t, "h1", func(w http.ResponseWriter, _ *http.Request) {
					for range lines {
						w.Header().Add("Retry-After", value)
					}
					w.WriteHeader(status)
				})
				s := Standard()
				s.Backoff, s.ThrottleBackoff = Constant{Wait: own}, nil
				ctx, trace := WithTrace(t.Context())
				begun := time.Now()
				resp, err := get(ctx, testkit.Redirected(&Transport{Base: base, Strategy: s}, url))
				require.NoError(t, err)
				require.Equal(t, status, resp.StatusCode)
				require.Less(t, time.Since(begun), testkit.Patience)
				events := trace.Requests()[0]
				require.Len(t, events, hits)
				for _, e := range events[:hits-1] {
					require.Equal(t, own, e.Wait)
				}
				if hits == 1 {
					require.Equal(t, WaitOverCap, events[0].Reason)
				}
			})
		}
	}
}

// A server that allows one stream at a time fails nothing: net/http opens more
// connections, or sends a stream again that was not processed.
func TestOneStreamAtATimeFailsNothing(t *testing.T) {
	testkit.NoLeaks(t)
	server := faultserver.Start(faultserver.HTTP2{MaxStreams: 1, Whole: func(s *faultserver.Stream) { s.Answer(200) }}.Play)
	defer server.Close()
	base := &http.Transport{Protocols: testkit.Protocols("h2c")}
	defer base.CloseIdleConnections()
	counting := testkit.Count(base)
	transport := &Transport{Base: counting, Strategy: noWait(), ReplayBuffer: testkit.TableBuffer}
	var wg sync.WaitGroup
	var closed []func() bool
	for i := range 16 {
		req := testkit.RequestTo(t, "POST", server.URL, nil)
		closed = append(closed, []testkit.Opener{testkit.OpaqueBody, testkit.MemoryBody}[i%2](t, req, testkit.Small))
		wg.Go(func() {
			resp, err := transport.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Error(resp, err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	for _, closed := range closed {
		testkit.Eventually(t, closed, "the close of a request's body")
	}
	require.EqualValues(t, 16, counting.Calls())
	whole := 0
	for _, r := range server.Requests() {
		if r.Whole {
			whole++
			require.Equal(t, sha256.Sum256(testkit.Small), r.Sum)
		}
	}
	require.GreaterOrEqual(t, whole, 16)
}

// net/http replays a stream that the server did not process, and on the way
// opens a copy of the body that it neither reads nor closes
// (http2shouldRetryRequest in h2_bundle.go). That copy keeps nothing open, and
// takes nothing from the body that is sent.
func TestForgottenCopyKeepsNothingOpen(t *testing.T) {
	testkit.NoLeaks(t)
	for name, strike := range map[string]func(*faultserver.Stream){
		"GOAWAY":         func(s *faultserver.Stream) { s.GoAway(0, faultserver.NoError) },
		"PROTOCOL_ERROR": func(s *faultserver.Stream) { s.Reset(faultserver.ProtocolError) },
	} {
		for kind, open := range map[string]testkit.Opener{"file": testkit.FileBody(0), "opaque": testkit.OpaqueBody, "own GetBody": testkit.ReopenedBody} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				server := faultserver.Start(faultserver.HTTP2{Whole: func(s *faultserver.Stream) {
					if s.Nth == 1 {
						strike(s)
					} else {
						s.Answer(200)
					}
				}}.Play)
				defer server.Close()
				base := &http.Transport{Protocols: testkit.Protocols("h2c")}
				defer base.CloseIdleConnections()
				req := testkit.RequestTo(t, "PUT", server.URL, nil)
				closed := open(t, req, testkit.Small)
				resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				testkit.Eventually(t, closed, "the close of what we were given or opened")
			})
		}
	}
}

// A file that changed during the wait leaves the answer, to its end: the upload
// that it answers must not be cut off.
func TestAnswerIsWholeAfterAFileChanged(t *testing.T) {
	page := strings.Repeat("x", 1<<20)
	waiting := make(chan struct{})
	url, base := testkit.Serve(t, "h1", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		w.Header().Set("Content-Length", "1048576")
		w.WriteHeader(503)
		_ = http.NewResponseController(w).Flush()
		<-waiting
		time.Sleep(50 * time.Millisecond) // real time: a cut upload would reach the client by then
		_, _ = io.WriteString(w, page)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("y"), 64<<20), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	req := testkit.RequestTo(t, "PUT", url, nil)
	req.Body, req.ContentLength = file, 64<<20
	transport := &Transport{Base: base, Strategy: noWait(), Observe: func(e Event) {
		if !e.Final {
			_ = os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0))
			close(waiting)
		}
	}}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 503, resp.StatusCode)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Len(t, got, len(page))
}

// A Prepare that fetches something from the same host, such as a token, is not
// held up by the answer that is kept: that may hold the only connection.
func TestKeptAnswerDoesNotHoldUpPrepare(t *testing.T) {
	var calls atomic.Int32
	url, base := testkit.Serve(t, "h1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && calls.Add(1) == 1 {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	})
	base.MaxConnsPerHost = 1
	transport := &Transport{Base: base, Strategy: noWait(), Prepare: func(req *http.Request, _ PrepareInfo) error {
		fetch, err := http.NewRequestWithContext(req.Context(), "GET", url+"/token", nil)
		if err != nil {
			return err
		}
		resp, err := base.RoundTrip(fetch)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", url, nil).WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}
