package retrip

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// Over real connections an attempt that gets no headers in time is retried, an
// answer that has begun in time may take longer than that, and the caller's own
// deadline is the end.
func TestAttemptTimeoutOverTheNetwork(t *testing.T) {
	testkit.NoLeaks(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, protocol := range testkit.AllProtocols {
		for name, open := range map[string]testkit.Opener{"none": testkit.NoBody, "GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody} {
			want := testkit.Small
			if name == "none" {
				want = nil
			}
			var hits atomic.Int64
			url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if r.URL.Path == "/never" || hits.Add(1) == 1 {
					<-r.Context().Done()
					return
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Error("the server got another body", err)
				}
				_, _ = w.Write(testkit.Small)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(slow * 3 / 2) // beyond the attempt's time, which for sockets can only be real
				_, _ = w.Write(testkit.Large)
			})
			wg.Go(func() {
				t.Run(protocol+"/"+name, func(t *testing.T) {
					counting := testkit.Count(base)
					s := noWait()
					s.MaxAttempts = 10 // where the machine is busy, the second may be too slow as well
					transport := &Transport{Base: counting, Strategy: s, AttemptTimeout: slow}
					req := testkit.RequestTo(t, "PUT", url, nil)
					closed := open(t, req, testkit.Small)
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					got, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.True(t, bytes.Equal(got, append(bytes.Clone(testkit.Small), testkit.Large...)))
					require.NoError(t, resp.Body.Close())
					require.GreaterOrEqual(t, counting.Calls(), 2)
					testkit.Eventually(t, closed, "the close of the request's body")

					calls := counting.Calls()
					ctx, cancel := context.WithTimeout(t.Context(), slow/4)
					defer cancel()
					_, err = transport.RoundTrip(testkit.RequestTo(t, "GET", url+"/never", nil).WithContext(ctx))
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.NotErrorAs(t, err, new(*AttemptTimeoutError))
					require.EqualValues(t, 1, counting.Calls()-calls)
				})
			})
		}
	}
}

// An attempt timeout ends an attempt whose body waits for its source.
func TestAttemptTimeoutOverABlockedSource(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for _, method := range []string{"PUT", "POST"} {
			t.Run(protocol+"/"+method, func(t *testing.T) {
				url, base := testkit.Serve(t, protocol, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				})
				source, w := io.Pipe()
				defer w.Close()
				go func() { _, _ = w.Write(testkit.Small) }()
				body := &testkit.Body{ReadCloser: source}
				req := testkit.RequestTo(t, method, url, nil)
				req.Body = body
				ended := make(chan error, 1)
				go func() {
					_, err := (&Transport{Base: base, Strategy: noWait(), AttemptTimeout: 50 * time.Millisecond}).RoundTrip(req)
					ended <- err
				}()
				select {
				case err := <-ended:
					require.ErrorAs(t, err, new(*AttemptTimeoutError))
					require.ErrorIs(t, err, map[string]error{"PUT": ErrBodyNotReplayable, "POST": ErrNotIdempotent}[method])
				case <-time.After(testkit.Patience):
					t.Fatal("RoundTrip hangs")
				}
				testkit.Eventually(t, func() bool { return body.Closes() == 1 }, "the close of the request's body")
			})
		}
	}
}

// An error page, short or not, in one piece or in chunks, looked into or not,
// costs no connection: it is read to its end before the retry.
func TestErrorPagesKeepTheConnection(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range []string{"h1", "h2"} {
		for name, page := range map[string]struct {
			contentType, text string
			chunked           bool
		}{
			"text":         {"text/plain", strings.Repeat("x", 20_000), false},
			"chunked text": {"text/plain", strings.Repeat("x", 20_000), true},
			"JSON":         {"application/json", testkit.JSONDocument, false},
			"chunked JSON": {"application/json", testkit.JSONDocument + strings.Repeat(" ", 60_000-len(testkit.JSONDocument)), true},
			"XML":          {"application/xml", testkit.XMLDocument, false},
		} {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				const exchanges = 100
				var hits, conns atomic.Int64
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if hits.Add(1)%2 == 0 {
						return
					}
					w.Header().Set("Content-Type", page.contentType)
					if !page.chunked {
						w.Header().Set("Content-Length", fmt.Sprint(len(page.text)))
					}
					w.WriteHeader(503)
					_, _ = io.WriteString(w, page.text)
				}))
				srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						conns.Add(1)
					}
				}
				srv.EnableHTTP2 = protocol == "h2"
				srv.StartTLS()
				defer srv.Close()
				base := srv.Client().Transport.(*http.Transport)
				defer base.CloseIdleConnections()
				s := noWait()
				s.ThrottleBackoff = nil
				counting := testkit.Count(base)
				transport := &Transport{Base: counting, Strategy: s}
				for range exchanges {
					resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", srv.URL, nil))
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.EqualValues(t, 2*exchanges, counting.Calls())
				counting.RequireClosed(t, readAhead)
				// One, unless now and then the machine is too busy to read a page within discardTime.
				require.LessOrEqual(t, conns.Load(), int64(exchanges/5))
			})
		}
	}
}

// The same over real connections, as far as a clock can tell there.
func TestStalledErrorBodiesAndDeadlinesOverTheNetwork(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for _, contentType := range []string{"text/plain", "application/json"} {
			t.Run(protocol+"/"+contentType, func(t *testing.T) {
				url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", contentType)
					w.WriteHeader(503)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				counting := testkit.Count(base)
				s := noWait(attempts(1000), waits(5*time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				defer cancel()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					resp, err := (&Transport{Base: counting, Strategy: s}).RoundTrip(testkit.RequestTo(t, "GET", url, nil).WithContext(ctx))
					if err == nil {
						_ = resp.Body.Close()
					}
				}()
				select {
				case <-ended:
				case <-time.After(testkit.Patience):
					t.Fatal("RoundTrip goes on after the deadline")
				}
				counting.RequireClosed(t, readAhead)
			})
		}
	}
}

// A name that does not exist is asked for once, and one whose server fails as
// often as any other: by the resolver's own errors, not ours.
func TestNameThatDoesNotExist(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		rcode    byte
		attempts int
		reason   Reason
	}{
		{3, 1, NotRetryable},      // NXDOMAIN
		{2, 3, AttemptsExhausted}, // SERVFAIL
	} {
		t.Run(fmt.Sprint("rcode ", tt.rcode), func(t *testing.T) {
			resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go answerDNS(server, tt.rcode)
				return client, nil
			}}
			counting := testkit.Count(&http.Transport{DialContext: (&net.Dialer{Resolver: resolver}).DialContext})
			ctx, trace := WithTrace(t.Context())
			req := testkit.RequestTo(t, "POST", "http://nowhere.test./", nil).WithContext(ctx)
			_, err := (&Transport{Base: counting, Strategy: noWait()}).RoundTrip(req)
			require.ErrorAs(t, err, new(*net.DNSError))
			require.EqualValues(t, tt.attempts, counting.Calls())
			require.Equal(t, tt.reason, lastOf(trace).Reason)
		})
	}
}

// answerDNS answers queries over a stream (RFC 1035 4.2.2) with a response code.
func answerDNS(conn net.Conn, rcode byte) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, message); err != nil {
			return
		}
		message[2] |= 0x80 // it is a response
		message[3] = 0x80 | rcode
		if _, err := conn.Write(append(size[:], message...)); err != nil {
			return
		}
	}
}

// A connection that breaks off within a response's headers leaves what looks like
// a malformed header. It is retried like any broken connection.
func TestHeadersThatBreakOff(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for _, answer := range []string{"HTTP/1.1 200 OK\r\nCon", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"} {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	transport := &Transport{Strategy: noWait()}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", "http://"+listener.Addr().String(), nil))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
}

func TestHundredRetriesUseOneConnection(t *testing.T) {
	hits, clients := 0, map[string]bool{}
	url, _ := testkit.Serve(t, "h1", func(w http.ResponseWriter, r *http.Request) {
		clients[r.RemoteAddr] = true
		if hits++; hits%2 == 1 {
			w.WriteHeader(503)
		}
	})
	transport := &Transport{Strategy: noWait()}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 100 {
		resp, err := client.Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
	}
	require.Equal(t, 200, hits)
	require.Len(t, clients, 1)
}
