package retrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Answers that come while the body is still being sent, and sources that never
// give a byte, over real connections.

var long = flag.Bool("long", false, "run the tests that repeat a race as often as the release asks for")

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
		for _, b := range earlyBodies(t, content) {
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
				putEarly(t, transport, server.URL, content, b, times)
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

// earlyBodies are those that survive an early answer, all with one content.
func earlyBodies(t *testing.T, content []byte) []testkit.BodyKind {
	return []testkit.BodyKind{
		{Name: "GetBody", Open: testkit.MemoryBody},
		{Name: "file", Open: testkit.SameFile(t, content, 0)},
		{Name: "positioned file", Open: testkit.SameFile(t, content, 12_345)},
		{Name: "opaque", Open: testkit.OpaqueBody},
	}
}

// putEarly makes requests that are each answered early the first time. A Read of
// an opaque body is under way then, and ends soon: it is in memory.
func putEarly(t *testing.T, transport *Transport, url string, content []byte, b testkit.BodyKind, times int) {
	t.Helper()
	for i := range times {
		req := testkit.RequestTo(t, "PUT", url, nil)
		req.Header.Set("Name", fmt.Sprint(b.Name, i))
		closed := b.Open(t, req, content)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		testkit.Eventually(t, closed, "the close of the request's body")
		require.Equal(t, 200, resp.StatusCode)
	}
}

// The same under net/http's own server.
func TestEarlyAnswerToALargeBody(t *testing.T) {
	testkit.NoLeaks(t)
	content := testkit.RandomBytes(4<<20, 1)
	url, base := serveEarly(t, "h1", content)
	for _, b := range append(earlyBodies(t, content), testkit.BodyKind{
		Name: "opaque of known length",
		Open: func(t *testing.T, req *http.Request, content []byte) func() bool {
			closed := testkit.OpaqueBody(t, req, content)
			req.ContentLength = int64(len(content))
			return closed
		},
	}) {
		t.Run(b.Name, func(t *testing.T) {
			putEarly(t, &Transport{Base: base, Strategy: noWait(), ReplayBuffer: 8 << 20}, url, content, b, 10)
		})
	}
}

// The same over HTTP/2, where the server ends the stream behind its answer with
// RST_STREAM.
func TestEarlyAnswerOverHTTP2(t *testing.T) {
	testkit.NoLeaks(t)
	times := 2
	if *long {
		times = 200
	}
	content := testkit.RandomBytes(8<<20, 6)
	for protocol, b := range testkit.Pairs([]string{"h2", "h2c"}, earlyBodies(t, content)) {
		t.Run(protocol+"/"+b.Name, func(t *testing.T) {
			url, base := serveEarly(t, protocol, content)
			putEarly(t, &Transport{Base: base, Strategy: noWait(), ReplayBuffer: 8 << 20}, url, content, b, times)
		})
	}
}

// serveEarly starts a server that answers putEarly's requests, and checks the
// bodies that it reads to their end.
func serveEarly(t *testing.T, protocol string, content []byte) (url string, base *http.Transport) {
	want := sha256.Sum256(content)
	var met sync.Map
	return testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
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
					req := testkit.RequestTo(t, method, url, body).WithContext(ctx)
					done := make(chan struct{})
					var status int
					var err error
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

// Over HTTP/2, a stream that breaks ends the request though its body's source
// is idle, as it does without us.
func TestBrokenStreamUnderAnIdleSource(t *testing.T) {
	url, base := testkit.Serve(t, "h2", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		panic(http.ErrAbortHandler)
	})
	for _, method := range []string{"POST", "PUT"} {
		r, w := io.Pipe()
		go func() { _, _ = w.Write([]byte("hello")) }()
		req := testkit.RequestTo(t, method, url, r)
		done := make(chan error, 1)
		go func() {
			_, err := (&Transport{Base: base}).RoundTrip(req)
			done <- err
		}()
		select {
		case err := <-done:
			require.Error(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("RoundTrip hangs")
		}
		_, err := w.Write([]byte("more"))
		require.Error(t, err, "the source is closed")
	}
}

// Many goroutines, opaque bodies, early answers, cancellations: every body
// that arrives is whole, and every source closed once.
func TestConcurrentOpaqueBodies(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(2) == 0 {
			w.WriteHeader(503)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && strings.Trim(string(body), "x") != "" || err == nil && len(body) != 100_000 {
			t.Errorf("the server got %d bytes", len(body))
		}
	}))
	defer srv.Close()
	transport := &Transport{Strategy: noWait()}
	defer transport.CloseIdleConnections()
	content := strings.Repeat("x", 100_000)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		sources []*testkit.Body
	)
	for range 8 {
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				source := opaque(content)
				mu.Lock()
				sources = append(sources, source)
				mu.Unlock()
				req, err := http.NewRequestWithContext(ctx, "PUT", srv.URL, source)
				if err != nil {
					t.Error(err)
				}
				if rand.IntN(8) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
				}
				if resp, err := transport.RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		for _, source := range sources {
			if source.Closes() != 1 {
				return false
			}
		}
		return true
	}, 5*time.Second, time.Millisecond, "net/http closes a body a moment after RoundTrip returned")
}
