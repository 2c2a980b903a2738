package retrip

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

// What flows must go on flowing: streams in both directions, upgraded
// connections, events as they come. A retry before that must not disturb it.

// Over HTTP/2 both sides take turns on one request, each word an answer to the
// one before. The body is opaque, so it goes through the replay, and longer
// than its buffer.
func TestBothSidesOfAStreamTakeTurns(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range []string{"h2", "h2c"} {
		address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				_, _ = fmt.Fprintln(w, "heard", lines.Text())
				_ = http.NewResponseController(w).Flush()
			}
		})
		for name, transport := range transports(base) {
			for _, method := range []string{"PUT", "POST"} {
				t.Run(protocol+"/"+name+"/"+method, func(t *testing.T) {
					transport.ReplayBuffer = 16
					body, words := io.Pipe()
					req := testkit.RequestTo(t, method, address, body)
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					answers := bufio.NewScanner(resp.Body)
					for i := range 20 {
						_, err := fmt.Fprintln(words, "word", i)
						require.NoError(t, err)
						require.True(t, answers.Scan())
						require.Equal(t, fmt.Sprint("heard word ", i), answers.Text())
					}
					require.NoError(t, words.Close())
					require.False(t, answers.Scan(), "the end of one is the end of the other")
					require.NoError(t, answers.Err())
					require.NoError(t, resp.Body.Close())
				})
			}
		}
	}
}

// The first attempt fails before the conversation, the second holds it. That
// takes a source which gives its next word while the first is being judged, as
// this one does if the machine lets it (TestSlowSourceIsReplayed knows the very
// moment). If the word comes earlier, the base begins another Read, and if it
// comes after replay.Grace, it is too late: then the answer is that of the first
// attempt, and we try again.
func TestFullDuplexAfterARetry(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range []string{"h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			var failing atomic.Bool
			address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				first := make([]byte, 5)
				_, _ = io.ReadFull(r.Body, first)
				if failing.CompareAndSwap(true, false) {
					w.WriteHeader(503)
					return
				}
				_, _ = w.Write(first)
				_ = http.NewResponseController(w).Flush()
				_, _ = io.Copy(flusher{w}, r.Body)
			})
			for end := time.Now().Add(testkit.Patience); ; {
				failing.Store(true)
				source := make(chan string, 2)
				source <- "hello"
				speaking := step(func(req *http.Request) (*http.Response, error) {
					resp, err := base.RoundTrip(req)
					if err == nil && resp.StatusCode == 503 {
						time.AfterFunc(replay.Grace/2, func() { source <- " and" })
					}
					return resp, err
				})
				body := &chanBody{words: source, closed: make(chan struct{})}
				ctx, trace := WithTrace(t.Context())
				req := testkit.RequestTo(t, "PUT", address, body).WithContext(ctx)
				resp, err := (&Transport{Base: speaking, Strategy: noWait()}).RoundTrip(req)
				require.NoError(t, err)
				if resp.StatusCode == 503 && time.Now().Before(end) {
					require.Equal(t, BodyNotReplayable, lastOf(trace).Reason)
					require.NoError(t, resp.Body.Close())
					continue
				}
				require.Equal(t, 200, resp.StatusCode)
				require.Len(t, trace.Requests()[0], 2)
				got := make([]byte, 9)
				_, err = io.ReadFull(resp.Body, got)
				require.NoError(t, err)
				require.Equal(t, "hello and", string(got))
				source <- " on"
				_, err = io.ReadFull(resp.Body, got[:3])
				require.NoError(t, err)
				require.Equal(t, " on", string(got[:3]))
				close(source)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return
			}
		})
	}
}

type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

// A chanBody waits for its words.
type chanBody struct {
	words  chan string
	rest   string
	closed chan struct{}
}

func (b *chanBody) Read(p []byte) (int, error) {
	if b.rest == "" {
		select {
		case word, ok := <-b.words:
			if !ok {
				return 0, io.EOF
			}
			b.rest = word
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *chanBody) Close() error { close(b.closed); return nil }

// The body of a 101 is the connection, to read and to write.
func TestUpgradeOverTheNetwork(t *testing.T) {
	testkit.NoLeaks(t)
	var n atomic.Int64
	address, base := testkit.Serve(t, "h1", func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 1 {
			w.WriteHeader(503)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})
	for name, transport := range transports(base) {
		t.Run(name, func(t *testing.T) {
			transport.Strategy = noWait()
			req := testkit.RequestTo(t, "GET", address, nil)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			conn, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok)
			for _, word := range []string{"hello", "again"} {
				_, err = io.WriteString(conn, word)
				require.NoError(t, err)
				got := make([]byte, len(word))
				_, err = io.ReadFull(conn, got)
				require.NoError(t, err)
				require.Equal(t, word, string(got))
			}
			require.NoError(t, conn.Close())
		})
	}
}

// Each event is there before the next is sent.
func TestServerSentEventsAreNotBuffered(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		seen := make(chan struct{})
		address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 5 {
				_, _ = fmt.Fprintf(w, "data: %d\n", i)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-seen:
				case <-r.Context().Done():
					return
				}
			}
		})
		for name, transport := range transports(base) {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				req := testkit.RequestTo(t, "GET", address, nil)
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				events := bufio.NewScanner(resp.Body)
				for i := range 5 {
					require.True(t, events.Scan())
					require.Equal(t, fmt.Sprint("data: ", i), events.Text())
					seen <- struct{}{}
				}
				require.False(t, events.Scan())
			})
		}
	}
}

// With Expect: 100-continue a body that the server does not want is not sent,
// and one that it wants is.
func TestExpectContinueSparesTheBody(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for _, wanted := range []bool{false, true} {
			for name, open := range map[string]testkit.Opener{
				"GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody,
			} {
				t.Run(fmt.Sprintf("%s/wanted %v/%s", protocol, wanted, name), func(t *testing.T) {
					var got, hits atomic.Int64
					address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if hits.Add(1) == 1 || !wanted {
							w.WriteHeader(503)
							return
						}
						n, _ := io.Copy(io.Discard, r.Body)
						got.Store(n)
					})
					base.ExpectContinueTimeout = time.Hour // it is the server that decides
					counting := testkit.Count(base)
					req := testkit.RequestTo(t, "PUT", address, nil)
					req.Header.Set("Expect", "100-continue")
					closed := open(t, req, testkit.Small)
					untouched := &testkit.Body{ReadCloser: req.Body}
					req.Body = untouched
					resp, err := (&Transport{Base: counting, Strategy: noWait()}).RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					testkit.Eventually(t, closed, "the close of the request's body")
					if wanted {
						require.Equal(t, 200, resp.StatusCode)
						require.EqualValues(t, len(testkit.Small), got.Load())
						return
					}
					require.Equal(t, 503, resp.StatusCode)
					require.EqualValues(t, 3, counting.Calls())
					require.Zero(t, untouched.BytesRead(), "nobody asked for the body")
				})
			}
		}
	}
}

// Trailers arrive in both directions, also of a second attempt.
func TestTrailersBothWays(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		var n atomic.Int64
		address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if n.Add(1)%2 == 1 {
				w.WriteHeader(503)
				return
			}
			w.Header().Set("Trailer", "Echo")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("Echo", r.Trailer.Get("Sum"))
		})
		for name, transport := range transports(base) {
			t.Run(protocol+"/"+name, func(t *testing.T) {
				transport.Strategy = noWait()
				req := testkit.RequestTo(t, "PUT", address, nil)
				req.Trailer = http.Header{"Sum": {"42"}}
				closed := testkit.OpaqueBody(t, req, testkit.Small)
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, "42", resp.Trailer.Get("Echo"))
				require.Equal(t, http.Header{"Sum": {"42"}}, req.Trailer)
				testkit.Eventually(t, closed, "the close of the request's body")
			})
		}
	}
}

// The trailers of an error page that was looked at reach the caller once it has
// read the page, whether the server announced them or not.
func TestTrailersOfAnErrorPage(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		address, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			name := http.TrailerPrefix + "Sum"
			if r.URL.Path == "/announced" {
				name = "Sum"
				w.Header().Set("Trailer", name)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"code":"Wrong"}`)
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(name, "42")
		})
		for name, transport := range transports(base) {
			for _, path := range []string{"/announced", "/sudden"} {
				t.Run(protocol+"/"+name+path, func(t *testing.T) {
					req := testkit.RequestTo(t, "GET", address+path, nil)
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, http.Header{"Sum": {"42"}}, resp.Trailer)
				})
			}
		}
	}
}

// A proxy that refuses its CONNECT gets another, and the tunnel carries the
// request, over HTTP/1 and HTTP/2.
func TestConnectThroughAProxy(t *testing.T) {
	testkit.NoLeaks(t)
	for _, inside := range []string{"h1", "h2"} {
		t.Run(inside, func(t *testing.T) {
			address, base := testkit.Serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprint(w, r.Proto)
			})
			var connects atomic.Int64 // net/http may make one to spare
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodConnect {
					t.Errorf("the proxy got a %s", r.Method)
				}
				if connects.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				tunnel(r.Context(), w, r.Host)
			}))
			defer proxy.Close()
			proxyURL, err := url.Parse(proxy.URL)
			require.NoError(t, err)
			base.Proxy, base.Protocols = http.ProxyURL(proxyURL), testkit.Protocols(inside)
			req := testkit.RequestTo(t, "GET", address, nil)
			counting := testkit.Count(base)
			resp, err := (&Transport{Base: counting, Strategy: noWait()}).RoundTrip(req)
			require.NoError(t, err)
			require.EqualValues(t, 2, counting.Calls())
			proto, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2.0"}[inside], string(proto))
		})
	}
}

// tunnel connects the client of a CONNECT with its target.
func tunnel(ctx context.Context, w http.ResponseWriter, target string) {
	there, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	w.WriteHeader(http.StatusOK)
	here, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	go func() {
		_, _ = io.Copy(there, rw)
		_ = there.Close()
	}()
	_, _ = io.Copy(here, there)
}

type upgraded struct{ io.ReadWriteCloser }

func TestUpgradedBodyStaysWritable(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"without timeout": 0, "with timeout": time.Minute} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			base := step(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: upgraded{a}}, nil
			})
			resp, err := (&Transport{Base: base, AttemptTimeout: timeout}).RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			body, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok)
			go func() { _, _ = body.Write([]byte("hello")) }()
			got := make([]byte, 5)
			_, err = io.ReadFull(b, got)
			require.NoError(t, err)
			require.Equal(t, "hello", string(got))
			require.NoError(t, body.Close())
		})
	}
}
