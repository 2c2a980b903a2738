package retrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/testkit"
)

var long = flag.Bool("long", false, "run the tests that repeat a race as often as the release asks for")

// Servers that answer before they have read, never come to an end, or demand
// the impossible; and sources of bodies that never give a byte. The faults that
// follow a pattern are in fault_test.go.

// An answer that comes while the body is on its way is where others corrupt:
// the old attempt still reads what the new one sends.
func TestEarlyAnswerTwoHundredTimes(t *testing.T) {
	testkit.NoLeaks(t)
	times := 5
	if *long {
		times = 200
	}
	content := testkit.RandomBytes(8<<20, 3)
	for name, then := range map[string]faultserver.AfterEarly{
		"kept alive": faultserver.KeepAlive, "Connection close": faultserver.HangUp,
	} {
		for _, b := range []testkit.BodyKind{
			{Name: "GetBody", Open: testkit.MemoryBody},
			{Name: "file", Open: testkit.SameFile(t, content, 0)},
			{Name: "positioned file", Open: testkit.SameFile(t, content, 12_345)},
			{Name: "opaque", Open: testkit.OpaqueBody},
		} {
			t.Run(name+"/"+b.Name, func(t *testing.T) {
				var met sync.Map
				server := faultserver.Start(faultserver.Serve(func(c *faultserver.Conn, in *faultserver.Incoming) bool {
					if _, again := met.LoadOrStore(in.Header.Get("Name"), true); !again {
						return c.AnswerEarly(in, 503, 1, then)
					}
					if !c.ReceiveAll(in) {
						return false
					}
					_, err := io.WriteString(c, faultserver.Response(200, "200"))
					return err == nil
				}))
				defer server.Close()
				transport := &Transport{Base: &http.Transport{}, Strategy: noWait(), ReplayBuffer: 8 << 20}
				defer transport.CloseIdleConnections()
				for i := range times {
					putEarly(t, transport, server.URL, fmt.Sprint(i), content, b.Open)
				}
				want, whole := sha256.Sum256(content), 0
				for _, r := range server.Requests() {
					if r.Whole {
						whole++
						require.Equal(t, want, r.Sum)
					}
				}
				require.GreaterOrEqual(t, whole, times)
			})
		}
	}
}

// putEarly makes a request that is answered early the first time. A Read of an
// opaque body is under way then, and ends soon: it is in memory.
func putEarly(t *testing.T, transport *Transport, url, name string, content []byte, open testkit.Opener) {
	t.Helper()
	req := testkit.RequestTo(t, "PUT", url, nil)
	req.Header.Set("Name", name)
	closed := open(t, req, content)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	testkit.Eventually(t, closed, "the close of the request's body")
	require.Equal(t, 200, resp.StatusCode)
}

// The same under net/http's own server over HTTP/2, which ends the stream
// behind its answer with RST_STREAM.
func TestEarlyAnswerOverHTTP2(t *testing.T) {
	testkit.NoLeaks(t)
	times := 2
	if *long {
		times = 200
	}
	content := testkit.RandomBytes(8<<20, 6)
	want := sha256.Sum256(content)
	for _, protocol := range []string{"h2", "h2c"} {
		for _, b := range []testkit.BodyKind{
			{Name: "GetBody", Open: testkit.MemoryBody},
			{Name: "file", Open: testkit.SameFile(t, content, 0)},
			{Name: "positioned file", Open: testkit.SameFile(t, content, 12_345)},
			{Name: "opaque", Open: testkit.OpaqueBody},
		} {
			t.Run(protocol+"/"+b.Name, func(t *testing.T) {
				var met sync.Map
				url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if _, again := met.LoadOrStore(r.Header.Get("Name"), true); !again {
						_, _ = io.ReadFull(r.Body, make([]byte, 1))
						w.WriteHeader(503)
						return
					}
					h := sha256.New()
					if _, err := io.Copy(h, r.Body); err != nil {
						panic(http.ErrAbortHandler) // and so the caller is not told of a success
					}
					if !bytes.Equal(h.Sum(nil), want[:]) {
						t.Error("the server got another body")
					}
				})
				transport := &Transport{Base: base, Strategy: noWait(), ReplayBuffer: 8 << 20}
				for i := range times {
					putEarly(t, transport, url, fmt.Sprint(i), content, b.Open)
				}
			})
		}
	}
}

// A body whose source blocks, a pipe that nobody writes to, holds nobody:
// neither under an early answer nor when the caller gives up.
func TestBlockedSourceHoldsNobody(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for name, limit := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"early answer": context.WithCancel,
			"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(20*time.Millisecond, cancel)
				return ctx, cancel
			},
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 20*time.Millisecond)
			},
		} {
			for _, method := range []string{"PUT", "POST"} {
				t.Run(protocol+"/"+name+"/"+method, func(t *testing.T) {
					url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if name == "early answer" {
							_ = http.NewResponseController(w).EnableFullDuplex()
							w.WriteHeader(503)
							_ = http.NewResponseController(w).Flush()
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
					})
					ctx, cancel := limit(t.Context())
					defer cancel()
					source, w := io.Pipe()
					defer w.Close()
					body := &testkit.Body{ReadCloser: source}
					req, err := http.NewRequestWithContext(ctx, method, url, body)
					require.NoError(t, err)
					done := make(chan struct{})
					var status int
					go func() {
						defer close(done)
						var resp *http.Response
						if resp, err = (&Transport{Base: base}).RoundTrip(req); resp != nil {
							status = resp.StatusCode
							_ = resp.Body.Close()
						}
					}()
					select {
					case <-done:
					case <-time.After(testkit.Patience):
						t.Fatal("RoundTrip hangs")
					}
					if name == "early answer" { // of the first attempt, or of one after it if it came before the first Read
						require.NoError(t, err)
						require.Equal(t, 503, status)
					} else {
						require.Error(t, err)
					}
					cancel()
					testkit.Eventually(t, func() bool { return body.Closes() == 1 }, "the close of the request's body")
				})
			}
		}
	}
}

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
					req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
					require.NoError(t, err)
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
		for _, lines := range []int{1, 200} {
			for _, status := range []int{429, 503} {
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
}

// A server that allows one stream at a time fails nothing: net/http opens more
// connections, or sends a stream again that was not processed.
func TestMaxConcurrentStreams(t *testing.T) {
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

// The trailers of a response may be looked at before its body is read; a peek
// that is still waiting for the network must not write them meanwhile. (It takes
// the race detector to see it here. Without it, the map's own check may end the
// program.)
func TestPeekLeavesTheTrailersAlone(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			goOn := make(chan struct{})
			url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "Sum")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"code":`)
				_ = http.NewResponseController(w).Flush()
				<-goOn
				w.Header().Set("Sum", "1")
			})
			resp, err := (&Transport{Base: base}).RoundTrip(testkit.RequestTo(t, "GET", url, nil))
			require.NoError(t, err)
			close(goOn)
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
				for name := range resp.Trailer {
					_ = resp.Trailer[name]
				}
				time.Sleep(time.Millisecond) // between looks, over real connections
			}
			require.NoError(t, resp.Body.Close())
		})
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

// A brokenQuota panics when it gets something back.
type brokenQuota struct{ *Bucket }

func (brokenQuota) Return(int) { panic("broken") }

// A quota that panics when a cancelled retry returns its tokens leaves neither the
// request's body nor the response open.
func TestQuotaThatPanicsLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.Quota = brokenQuota{NewBucket(500)}
		base, body := script(status(503)), opaque("hello")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		require.PanicsWithValue(t, "broken", func() {
			_, _ = (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "PUT", body).WithContext(ctx))
		})
		synctest.Wait()
		base.RequireClosed(t, 0)
		require.Equal(t, 1, body.Closes())
	})
}

// Nor does it if Observe panics first, before the response is kept for the retry.
func TestQuotaAndObserveThatPanicLeaveNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.Quota = brokenQuota{NewBucket(500)}
		base, body := script(status(503)), opaque("hello")
		transport := &Transport{Base: base, Strategy: s, Observe: func(Event) { panic("observed") }}
		require.PanicsWithValue(t, "broken", func() {
			_, _ = transport.RoundTrip(newRequest(t, "PUT", body))
		})
		synctest.Wait()
		base.RequireClosed(t, 0)
		require.Equal(t, 1, body.Closes())
	})
}

// endingIn gives its text and then an error.
func endingIn(text string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), errorReader{err}))
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// The error of a body that the base opened itself proves nothing either, also in
// a retry: net/http opens one when a connection turns out to be stale.
func TestErrorOfACopyProvesNothingInARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req, opened := newRequest(t, "POST", nil), 0
		req.Body = endingIn("abc", io.EOF)
		req.GetBody = func() (io.ReadCloser, error) {
			if opened++; opened == 1 {
				return endingIn("abc", io.EOF), nil
			}
			return endingIn("ab", &net.OpError{Op: "dial", Err: errors.New("source gone")}), nil
		}
		calls := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			calls++
			if calls == 1 {
				_, _ = io.Copy(io.Discard, req.Body)
				_ = req.Body.Close()
				return status(429)(req)
			}
			_ = req.Body.Close()
			again, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			defer again.Close()
			_, err = io.ReadAll(again) // and sent
			return nil, err
		})
		s := noWait()
		s.MaxAttempts = 5
		_, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req)
		require.ErrorContains(t, err, "source gone")
		require.Equal(t, 2, calls)
	})
}
