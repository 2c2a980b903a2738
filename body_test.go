package retrip

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

func TestBodyIsSentAgainWhole(t *testing.T) {
	big := strings.Repeat("0123456789", 30_000)
	tests := map[string]func(t *testing.T) io.Reader{
		"reopened":       func(*testing.T) io.Reader { return strings.NewReader(big) },
		"opaque":         func(*testing.T) io.Reader { return opaque(big) },
		"byte by byte":   func(*testing.T) io.Reader { return iotest.OneByteReader(strings.NewReader(big)) },
		"EOF with data":  func(*testing.T) io.Reader { return iotest.DataErrReader(strings.NewReader(big)) },
		"file":           func(t *testing.T) io.Reader { return testkit.OpenFile(t, big, 0) },
		"file, further":  func(t *testing.T) io.Reader { return testkit.OpenFile(t, "skipped"+big, 7) },
		"nothing at all": func(*testing.T) io.Reader { return opaque("") },
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			want := big
			if name == "nothing at all" {
				want = ""
			}
			base := script(status(503), fails(errReset), status(200))
			s := Standard()
			s.Backoff = Constant{}
			resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "PUT", body(t)))
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Len(t, base.Sent(), 3)
			for _, sent := range base.Sent() {
				require.True(t, sent.Content == want, "got %d bytes", len(sent.Content))
			}
		})
	}
}

// Whoever gets the request body closes it, and nobody does so twice.
func TestRequestBodyIsClosedOnce(t *testing.T) {
	tests := map[string][]step{
		"success":            {status(200)},
		"retried":            {status(503), status(200)},
		"attempts exhausted": {status(503)},
		"error":              {fails(errReset)},
		"hopeless":           {fails(&baseError{"no"})},
		"not worth a retry":  {status(404)},
		"waits for too long": {status(503, "Retry-After: 99")},
	}
	for name, steps := range tests {
		for _, getBody := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, GetBody %v", name, getBody), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var opened []*testkit.Body
					open := func() (io.ReadCloser, error) {
						opened = append(opened, opaque("body"))
						return opened[len(opened)-1], nil
					}
					body, _ := open()
					req := newRequest(t, "PUT", body)
					if getBody {
						req.GetBody = open
					}
					_, _ = (&Transport{Base: script(steps...)}).RoundTrip(req)
					for _, body := range opened {
						require.Equal(t, 1, body.Closes())
					}
					require.Equal(t, body, req.Body, "the caller's request keeps its body")
				})
			})
		}
	}
}

// A base may close the body before it has read it, and go on reading it after
// RoundTrip returned.
func TestFenceKeepsAnOldAttemptOut(t *testing.T) {
	var old io.ReadCloser
	attempts := 0
	base := step(func(req *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			old = req.Body
			_, err := io.ReadFull(req.Body, make([]byte, 3))
			require.NoError(t, err)
			return status(503)(req)
		}
		n, err := old.Read(make([]byte, 3))
		require.Zero(t, n)
		require.Equal(t, replay.ErrOver, err)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(body))
		require.NoError(t, req.Body.Close())
		require.NoError(t, old.Close())
		return status(200)(req)
	})
	s := Standard()
	s.Backoff = Constant{}
	body := opaque("0123456789")
	resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "PUT", body))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 1, body.Closes())
}

// A Read of the source that outlasts its attempt gives its bytes to the next.
func TestLateReadLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write([]byte("first "))
			time.Sleep(20 * time.Millisecond) // within the grace
			_, _ = w.Write([]byte("second "))
			time.Sleep(time.Second)
			_, _ = w.Write([]byte("third"))
			_ = w.Close()
		}()
		attempts := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				go func() { _, _ = io.Copy(io.Discard, req.Body) }()
				synctest.Wait() // until it hangs in the source, where it would read on and on
				return status(503)(req)
			}
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.Equal(t, "first second third", string(body))
			return status(200)(req)
		})
		s := Standard()
		s.Backoff = Constant{}
		resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "PUT", r))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

func TestBlockedSourceIsNotReplayable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		base := step(func(req *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, req.Body); _ = req.Body.Close() }()
			synctest.Wait()
			return status(503)(req)
		})
		ctx, trace := WithTrace(t.Context())
		start := time.Now()
		resp, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", r).WithContext(ctx))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, replay.Grace, time.Since(start))
		require.Equal(t, BodyNotReplayable, trace.Requests()[0][0].Reason)
		_, err = w.Write([]byte("still being read")) // the stream goes on under the early answer
		require.NoError(t, err)
		require.NoError(t, w.Close())
	})
}

func TestEndOfContextEndsABlockedSource(t *testing.T) {
	for name, limit := range map[string]func(context.Context) (context.Context, *Transport){
		"cancelled": func(ctx context.Context) (context.Context, *Transport) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, &Transport{}
		},
		"attempt timeout": func(ctx context.Context) (context.Context, *Transport) {
			return ctx, &Transport{AttemptTimeout: time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				defer w.Close()
				source := &testkit.Body{ReadCloser: r}
				ctx, transport := limit(t.Context())
				transport.Base = step(func(req *http.Request) (*http.Response, error) {
					_, err := io.ReadAll(req.Body) // as net/http's HTTP/1 does, it waits for the body
					_ = req.Body.Close()
					return nil, err
				})
				start := time.Now()
				_, err := transport.RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(start), time.Second+replay.Grace)
				synctest.Wait()
				require.Equal(t, 1, source.Closes())
			})
		})
	}
}

// The caller's body is closed when the caller gives up, however long the base
// then takes to notice.
func TestEndOfContextClosesTheBodyUnderASlowBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		source := opaque("body")
		base := step(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Hour)
			return nil, errors.Join(context.Cause(req.Context()), req.Body.Close())
		})
		time.AfterFunc(2*time.Second, func() { assert.Equal(t, 1, source.Closes()) })
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, 1, source.Closes())
	})
}

func TestBodyBeyondTheBufferIsSentOnce(t *testing.T) {
	content := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		buffer int64
		sent   int
	}{{199_999, 1}, {200_000, 2}} {
		base := script(status(503), status(200))
		s := Standard()
		s.Backoff = Constant{}
		ctx, trace := WithTrace(t.Context())
		_, err := (&Transport{Base: base, Strategy: s, ReplayBuffer: tt.buffer}).
			RoundTrip(newRequest(t, "PUT", opaque(content)).WithContext(ctx))
		require.NoError(t, err)
		require.Len(t, base.Sent(), tt.sent)
		for _, sent := range base.Sent() {
			require.True(t, sent.Content == content)
		}
		if tt.sent == 1 {
			require.Equal(t, BodyNotReplayable, trace.Requests()[0][0].Reason)
			require.ErrorIs(t, trace.Requests()[0][0].Err, replay.ErrTooLong)
		}
	}
}

// A body of exactly the length that is kept is sent again, however it comes in.
func TestBodyThatJustFitsTheBuffer(t *testing.T) {
	const content = "0123456789"
	for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		base := script(status(503), status(200))
		req := newRequest(t, "PUT", pieces(testkit.OnlyReader(strings.NewReader(content))))
		resp, err := (&Transport{Base: base, Strategy: noWait(), ReplayBuffer: int64(len(content))}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, content, base.Sent()[1].Content)
	}
}

func TestBodyThatFailsMidway(t *testing.T) {
	broken := errors.New("disk on fire")
	base := script(status(200))
	req := newRequest(t, "PUT", io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken)))
	ctx, trace := WithTrace(t.Context())
	_, err := (&Transport{Base: base}).RoundTrip(req.WithContext(ctx))
	require.ErrorIs(t, err, broken)
	require.Equal(t, BodyNotReplayable, lastOf(trace).Reason)
	require.Empty(t, base.Sent())
}

func TestReaderThatLies(t *testing.T) {
	for _, n := range []int{-1, 1 << 30} {
		base := script(status(200))
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", liar(n)))
		require.ErrorContains(t, err, "the request body's Read returned")
	}
}

type liar int

func (l liar) Read([]byte) (int, error) { return int(l), nil }

func TestFileThatChanged(t *testing.T) {
	f := testkit.OpenFile(t, "content", 0)
	base := script(func(req *http.Request) (*http.Response, error) {
		require.NoError(t, os.WriteFile(f.Name(), []byte("other content"), 0o600))
		return status(503)(req)
	}, status(200))
	ctx, trace := WithTrace(t.Context())
	resp, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", f).WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, BodyNotReplayable, trace.Requests()[0][0].Reason)
	require.ErrorIs(t, trace.Requests()[0][0].Err, replay.ErrFileChanged)
	require.ErrorIs(t, f.Close(), os.ErrClosed)
}

// A file is sent again only if both its length and its time of modification are
// what they were: either may be the same by chance, or on a coarse clock.
func TestFileThatChangedInOneWay(t *testing.T) {
	for content, later := range map[string]time.Duration{"longer content": 0, "short": 0, "CONTENT": time.Second} {
		f := testkit.OpenFile(t, "content", 0)
		info, err := f.Stat()
		require.NoError(t, err)
		modified := info.ModTime().Add(later)
		base := script(func(req *http.Request) (*http.Response, error) {
			require.NoError(t, os.WriteFile(f.Name(), []byte(content), 0o600))
			require.NoError(t, os.Chtimes(f.Name(), modified, modified))
			return status(503)(req)
		}, status(200))
		resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(newRequest(t, "PUT", f))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Len(t, base.Sent(), 1)
	}
}

func TestGetBodyThatFails(t *testing.T) {
	tests := []struct {
		name string
		open func() (io.ReadCloser, error)
		want string
	}{
		{"error", func() (io.ReadCloser, error) { return nil, io.ErrNoProgress }, "Request.GetBody failed: " + io.ErrNoProgress.Error()},
		{"nil", func() (io.ReadCloser, error) { return nil, nil }, "Request.GetBody returned a nil body and no error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := script(status(503), status(200))
			s := Standard()
			req := newRequest(t, "PUT", strings.NewReader("body"))
			req.GetBody = tt.open
			ctx, trace := WithTrace(t.Context())
			resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req.WithContext(ctx))
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode, "the answer is kept")
			require.Equal(t, 500, s.tokens())
			require.EqualError(t, trace.Requests()[0][0].Err, tt.want)

			base = script(fails(errReset))
			_, err = (&Transport{Base: base}).RoundTrip(req)
			require.ErrorIs(t, err, ErrBodyNotReplayable)
			require.ErrorIs(t, err, errReset.err)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestGetBodyOfAnotherLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, other := range []string{"short", "much longer than before"} {
			base := script(status(503), status(200))
			req := newRequest(t, "PUT", strings.NewReader("0123456789"))
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(other)), nil }
			_, err := (&Transport{Base: base}).RoundTrip(req)
			require.ErrorContains(t, err, "it must return the same body each time")
			require.ErrorIs(t, err, ErrNotRetryable)
			require.Len(t, base.Sent(), 1)
		}
	})
}

func TestNoBodyStaysNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			var seen []io.ReadCloser
			base := step(func(req *http.Request) (*http.Response, error) {
				seen = append(seen, req.Body)
				return status(503)(req)
			})
			req := newRequest(t, "PUT", nil)
			req.Body = body
			_, err := (&Transport{Base: base}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, []io.ReadCloser{body, body, body}, seen)
		}
	})
}

// hashServer answers 200 to every second request it gets, and before that 503
// without reading more of the body than it must. It checks what it reads.
func hashServer(t *testing.T, want []byte, early bool) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n, conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 1 {
			if !early {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			w.WriteHeader(503)
			return
		}
		h := sha256.New()
		size, err := io.Copy(h, r.Body)
		if err != nil || !bytes.Equal(h.Sum(nil), want) {
			t.Errorf("the server read %d bytes, hash %x, error %v", size, h.Sum(nil), err)
			w.WriteHeader(400)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, &conns
}

// An early answer while the body is still being written, over a real
// connection: where other libraries corrupt.
func TestEarlyAnswerToALargeBody(t *testing.T) {
	content := make([]byte, 4<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(content)
	sum := sha256.Sum256(content)
	srv, _ := hashServer(t, sum[:], true)
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, append([]byte("skipped"), content...), 0o600))
	bodies := map[string]func() io.Reader{
		"reopened": func() io.Reader { return bytes.NewReader(content) },
		"opaque":   func() io.Reader { return testkit.OnlyReader(bytes.NewReader(content)) },
		"file": func() io.Reader {
			f, err := os.Open(file)
			require.NoError(t, err)
			_, err = f.Seek(7, io.SeekStart)
			require.NoError(t, err)
			return f
		},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			transport := &Transport{Strategy: noWait(), ReplayBuffer: 8 << 20}
			defer transport.CloseIdleConnections()
			for range 10 {
				req, err := http.NewRequestWithContext(t.Context(), "PUT", srv.URL, body())
				require.NoError(t, err)
				req.ContentLength = int64(len(content))
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
			}
		})
	}
}

func TestHundredRetriesUseOneConnection(t *testing.T) {
	empty := sha256.Sum256(nil)
	srv, conns := hashServer(t, empty[:], false)
	transport := &Transport{Strategy: noWait()}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 100 {
		resp, err := client.Get(srv.URL)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
	}
	require.EqualValues(t, 1, conns.Load())
}

// A 64 MiB file is sent twice without being held.
func TestLargeFileTakesNoMemory(t *testing.T) {
	const size = 64 << 20
	f := testkit.OpenFile(t, "", 0)
	require.NoError(t, os.Truncate(f.Name(), size))
	var received []int64
	base := step(func(req *http.Request) (*http.Response, error) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 32<<10))
		received = append(received, n)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		return status(503 - 303*(len(received)/2))(req)
	})
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
func TestRetryMemory(t *testing.T) {
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

// A signer reads the body through GetBody, as it does with any request.
func hashBody(req *http.Request, _ PrepareInfo) error {
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return err
	}
	req.Header.Set("Digest", fmt.Sprintf("%x", h.Sum(nil)))
	return nil
}

func TestPrepareMayReadTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const content = "0123456789"
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		for name, body := range map[string]func() io.Reader{
			"reopened": func() io.Reader { return strings.NewReader(content) },
			"opaque":   func() io.Reader { return opaque(content) },
			"file":     func() io.Reader { return testkit.OpenFile(t, content, 0) },
		} {
			base := script(status(503), status(200))
			_, err := (&Transport{Base: base, Prepare: hashBody, ReplayBuffer: 10}).RoundTrip(newRequest(t, "PUT", body()))
			require.NoError(t, err, name)
			require.Len(t, base.Sent(), 2, name)
			for _, sent := range base.Sent() {
				require.Equal(t, content, sent.Content, name)
				require.Equal(t, sum, sent.Header.Get("Digest"), name)
			}
		}
		// A body that is longer can't be read twice, and says so before it is sent.
		base := script(status(200))
		body := opaque(content)
		_, err := (&Transport{Base: base, Prepare: hashBody, ReplayBuffer: 9}).RoundTrip(newRequest(t, "PUT", body))
		require.ErrorIs(t, err, ErrPrepareFailed)
		require.ErrorIs(t, err, replay.ErrTooLong)
		require.Empty(t, base.Sent())
		require.Equal(t, 1, body.Closes())
	})
}

// A copy that Prepare forgets to close keeps nothing open.
func TestForgottenCopy(t *testing.T) {
	var forgotten io.ReadCloser
	body := opaque("body")
	_, err := (&Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) (err error) {
		forgotten, err = req.GetBody()
		return err
	}}).RoundTrip(newRequest(t, "PUT", body))
	require.NoError(t, err)
	require.Equal(t, 1, body.Closes())
	_, err = forgotten.Read(make([]byte, 1))
	require.Equal(t, replay.ErrOver, err)
}

func TestPrepareMayReplaceTheBody(t *testing.T) {
	for name, replacement := range map[string]io.ReadCloser{"nothing": nil, "other": io.NopCloser(strings.NewReader("other"))} {
		for _, getBody := range []bool{false, true} {
			body := opaque("body")
			req := newRequest(t, "PUT", body)
			if getBody {
				req.GetBody = func() (io.ReadCloser, error) { return opaque("body"), nil }
			}
			base := script(status(200))
			_, err := (&Transport{Base: base, Prepare: func(req *http.Request, _ PrepareInfo) error {
				req.Body = replacement
				return nil
			}}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, map[string]string{"nothing": "", "other": "other"}[name], base.Sent()[0].Content)
			require.Equal(t, 1, body.Closes(), name)
			replacement = io.NopCloser(strings.NewReader("other"))
			if name == "nothing" {
				replacement = nil
			}
		}
	}
}

// Trailers are filled in while the body is read.
func TestTrailersSurvivePrepare(t *testing.T) {
	for _, prepare := range []func(*http.Request, PrepareInfo) error{nil, func(*http.Request, PrepareInfo) error { return nil }} {
		req := newRequest(t, "PUT", nil)
		req.Trailer = http.Header{"Sum": nil}
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), testkit.ReaderFunc(func([]byte) (int, error) {
			req.Trailer.Set("Sum", "42")
			return 0, io.EOF
		})))
		base := script(status(200))
		_, err := (&Transport{Base: base, Prepare: prepare}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, "42", base.Sent()[0].Trailer.Get("Sum"))
	}
}

// Each Read of a slow source is a moment's wait, and no reason to give up,
// whatever the base does with the body meanwhile.
func TestSlowSourceIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 10
		source := testkit.ReaderFunc(func(p []byte) (int, error) {
			time.Sleep(5 * time.Millisecond)
			if left--; left < 0 {
				return 0, io.EOF
			}
			return copy(p, "x"), nil
		})
		attempts := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts == 2 {
				body, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				require.Equal(t, "xxxxxxxxxx", string(body))
				_ = req.Body.Close()
				return status(200)(req)
			}
			go func() { _, _ = io.Copy(io.Discard, req.Body) }()
			time.AfterFunc(12*time.Millisecond, func() { _ = req.Body.Close() })
			time.Sleep(11 * time.Millisecond)
			return status(503)(req)
		})
		resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(newRequest(t, "PUT", source))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

type stuckBody struct {
	io.Reader
	release chan struct{}
}

func (b stuckBody) Close() error { <-b.release; return nil }

// A Close that blocks, as that of a server's request body may, holds nobody.
func TestSourceThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := stuckBody{strings.NewReader("body"), make(chan struct{})}
		start := time.Now()
		_, err := (&Transport{Base: script(status(200))}).RoundTrip(newRequest(t, "PUT", source))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), discardTime)
		close(source.release)
	})
}

// A panic of the body comes up where it would without us.
func TestBodyThatPanics(t *testing.T) {
	source := testkit.ReaderFunc(func([]byte) (int, error) { panic("on fire") })
	require.PanicsWithValue(t, "on fire", func() {
		_, _ = (&Transport{Base: script(status(200))}).RoundTrip(newRequest(t, "PUT", source))
	})
	resp, err := (&Transport{Base: testkit.Stream(503, source, "Content-Type: application/json"), Strategy: once()}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	require.PanicsWithValue(t, "on fire", func() { _, _ = resp.Body.Read(make([]byte, 1)) })
}

// User code that panics leaves nothing open behind it.
func TestPanicsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := func() { panic("boom") }
		for name, transport := range map[string]*Transport{
			"classifier": {Strategy: &Strategy{MaxAttempts: 2, Backoff: Constant{}, Classifiers: []Classifier{
				ClassifierFunc(func(Attempt) Class { boom(); return 0 })}}},
			"backoff": {Strategy: &Strategy{MaxAttempts: 2, Classifiers: []Classifier{On(Transient, StatusIs(503))},
				Backoff: BackoffFunc(func(Retry) (time.Duration, bool) { boom(); return 0, false })}},
			"observer": {Observe: func(Event) { boom() }},
			"prepare":  {Prepare: func(*http.Request, PrepareInfo) error { boom(); return nil }, AttemptTimeout: time.Hour},
		} {
			base := script(status(503))
			transport.Base = base
			body := opaque("body")
			require.PanicsWithValue(t, "boom", func() { _, _ = transport.RoundTrip(newRequest(t, "PUT", body)) }, name)
			synctest.Wait()
			require.Equal(t, 1, body.Closes(), name)
			base.RequireClosed(t, 0)
		}
	})
}

// Over HTTP/2, a stream that breaks ends the request though its body's source
// is idle, as it does without us.
func TestBrokenStreamUnderAnIdleSource(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		panic(http.ErrAbortHandler)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	for _, method := range []string{"POST", "PUT"} {
		r, w := io.Pipe()
		go func() { _, _ = w.Write([]byte("hello")) }()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, r)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := (&Transport{Base: srv.Client().Transport}).RoundTrip(req)
			done <- err
		}()
		select {
		case err := <-done:
			require.Error(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("RoundTrip hangs")
		}
		_, err = w.Write([]byte("more"))
		require.Error(t, err, "the source is closed")
	}
}

// A dial error may be the body's own: no proof that nothing was sent.
func TestDialErrorOfTheBody(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: io.ErrNoProgress}
	for _, getBody := range []bool{false, true} {
		base := script(status(200))
		open := func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(dial)), nil }
		body, _ := open()
		req := newRequest(t, "POST", body)
		if getBody {
			req.GetBody = open
		}
		calls := 0
		_, err := (&Transport{Strategy: noWait(), Base: step(func(req *http.Request) (*http.Response, error) {
			calls++
			return base.RoundTrip(req)
		})}).RoundTrip(req)
		require.ErrorIs(t, err, dial)
		require.Equal(t, 1, calls)
	}
}

// However a request ends, a body that is cut short does not end cleanly: a
// server would take it for whole.
func TestCutShortIsNoCleanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var got []byte
		var end error
		base := step(func(req *http.Request) (*http.Response, error) {
			whole, err := req.GetBody() // read to its end and left open
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, whole)
			require.NoError(t, err)
			p := make([]byte, 5)
			n, err := req.Body.Read(p)
			require.NoError(t, err)
			got = append(got, p[:n]...)
			cancel()
			synctest.Wait()
			rest, err := io.ReadAll(req.Body)
			got, end = append(got, rest...), err
			_ = req.Body.Close()
			return nil, context.Canceled
		})
		source := opaque("0123456789")
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, end != nil || string(got) == "0123456789", "%q and a clean end", got)
		synctest.Wait()
		require.Equal(t, 1, source.Closes())
	})
}

// A copy that is read for the first time when the body is closed is not an empty body.
func TestCopyReadTooLateHasNoCleanEnd(t *testing.T) {
	var late io.ReadCloser
	base := step(func(req *http.Request) (*http.Response, error) {
		var err error
		late, err = req.GetBody()
		require.NoError(t, err)
		another, err := req.GetBody() // from here on, the first counts as forgotten
		require.NoError(t, err)
		_ = another.Close()
		return script(status(200)).RoundTrip(req)
	})
	_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", opaque("body")))
	require.NoError(t, err)
	body, err := io.ReadAll(late)
	require.True(t, err != nil || string(body) == "body", "%q and a clean end", body)
}

// A base that looks at a copy and forgets it keeps nothing open either, once
// the body is read.
func TestBaseForgetsACopy(t *testing.T) {
	base := step(func(req *http.Request) (*http.Response, error) {
		dump, err := req.GetBody()
		require.NoError(t, err)
		_, err = io.ReadAll(dump)
		require.NoError(t, err)
		return script(status(200)).RoundTrip(req)
	})
	source := opaque("body")
	_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", source))
	require.NoError(t, err)
	require.Equal(t, 1, source.Closes())
}

// A source that gives nothing for a while is asked again by the reader, which
// may lose patience; nothing spins.
func TestSourceThatGivesNothing(t *testing.T) {
	base := step(func(req *http.Request) (*http.Response, error) {
		_, err := bufio.NewReader(req.Body).ReadByte()
		_ = req.Body.Close()
		return nil, err
	})
	_, err := (&Transport{Base: base, Strategy: noWait(attempts(2))}).RoundTrip(newRequest(t, "PUT", testkit.ReaderFunc(func([]byte) (int, error) { return 0, nil })))
	require.ErrorIs(t, err, io.ErrNoProgress)
}

func TestCancelDuringTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(replay.Grace/2, cancel)
		base := step(func(req *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, req.Body); _ = req.Body.Close() }()
			synctest.Wait()
			return nil, errReset
		})
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", r).WithContext(ctx))
		require.ErrorIs(t, err, ErrCancelled)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A long stream that can't be sent again takes no more memory than the
// ReplayBuffer, goes out once, and its answer comes back.
func TestLongOpaqueBodyTakesNoMemory(t *testing.T) {
	const size = 128 << 20
	var received []int64
	base := step(func(req *http.Request) (*http.Response, error) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 32<<10))
		received = append(received, n)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		return status(503)(req)
	})
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

// A declared length is only somebody's word, which a server hands on from
// whoever sent it.
func TestBodyOfAnyDeclaredLength(t *testing.T) {
	for _, length := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 40, 6, 5, 4, 1, 0, -1, math.MinInt64} {
		for name, open := range map[string]testkit.Opener{"in memory": testkit.BareMemoryBody, "opaque": testkit.OpaqueBody} {
			var got []string
			base := step(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				b, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				got = append(got, string(b))
				return status(503)(req)
			})
			req := newRequest(t, "PUT", nil)
			closed := open(t, req, []byte("hello"))
			req.ContentLength = length
			_, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, []string{"hello", "hello", "hello"}, got, "%s, %d", name, length)
			testkit.Eventually(t, closed, "the close of the request's body")
		}
	}
}

// A body that Prepare takes away is gone on the wire as it is without us.
func TestPrepareThatTakesTheBodyAway(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range []string{"h1", "h2c"} {
		for name, take := range map[string]func(*http.Request){
			"nil":                  func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 },
			"NoBody":               func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 },
			"NoBody, length stays": func(r *http.Request) { r.Body, r.GetBody = http.NoBody, nil },
			"closed":               func(r *http.Request) { _ = r.Body.Close(); r.Body, r.GetBody, r.ContentLength = nil, nil, 0 },
		} {
			for kind, open := range map[string]testkit.Opener{"GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody} {
				t.Run(protocol+"/"+name+"/"+kind, func(t *testing.T) {
					var seen []string
					url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						seen = append(seen, fmt.Sprint(r.Method, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"], body))
						w.WriteHeader(503)
					})
					send := func(rt http.RoundTripper, spoil func(*http.Request)) {
						req := testkit.RequestTo(t, "PUT", url, nil)
						closed := open(t, req, testkit.Small)
						req.ContentLength = int64(len(testkit.Small))
						spoil(req)
						resp, err := rt.RoundTrip(req)
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
						if rt != base {
							testkit.Eventually(t, closed, "the close of the request's body")
						}
					}
					send(base, take)
					send(&Transport{Base: base, Strategy: noWait(), Prepare: func(r *http.Request, _ PrepareInfo) error { take(r); return nil }},
						func(*http.Request) {})
					require.Len(t, seen, 4)
					for _, request := range seen[1:] {
						require.Equal(t, seen[0], request)
					}
				})
			}
		}
	}
}

// A retry that was sent is paid for, and one that succeeded paid back once,
// whoever panics then.
func TestPanicsConserveTokens(t *testing.T) {
	onFire := func(*http.Request) (*http.Response, error) { panic("on fire") }
	atTheEnd := func(e Event) {
		if e.Final {
			panic("on fire")
		}
	}
	for name, tt := range map[string]struct {
		retry         step
		observe       func(Event)
		before, after int
	}{
		"base in the retry":             {onFire, nil, 100, 95},
		"observer of a failed retry":    {status(503), atTheEnd, 95, 90},
		"observer of a recovered retry": {status(200), atTheEnd, 50, 50},
		"observer of what is not sent":  {nil, func(Event) { panic("on fire") }, 50, 50},
	} {
		bucket := NewBucket(100)
		require.True(t, bucket.take(100-tt.before))
		s := noWait()
		s.Quota, s.MaxAttempts = bucket, 2
		require.Panics(t, func() {
			_, _ = (&Transport{Base: script(status(503), tt.retry), Strategy: s, Observe: tt.observe}).RoundTrip(newRequest(t, "GET", nil))
		}, name)
		require.Equal(t, tt.after, bucket.Tokens(), name)
	}
}

// Prepare signs what it reads of a body and then rewinds it as it would any
// request's, by GetBody, perhaps with something around it.
func TestPrepareThatRewindsTheBody(t *testing.T) {
	testkit.NoLeaks(t)
	type zipped struct {
		io.Reader
		io.Closer
	}
	for _, protocol := range []string{"h1", "h2c"} {
		for name, rewind := range map[string]func(io.ReadCloser) io.ReadCloser{
			"as it is": func(b io.ReadCloser) io.ReadCloser { return b },
			"wrapped":  func(b io.ReadCloser) io.ReadCloser { return zipped{io.MultiReader(b, strings.NewReader("")), b} },
		} {
			for kind, open := range map[string]testkit.Opener{
				"GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody, "in memory": testkit.BareMemoryBody, "file": testkit.FileBody(7),
			} {
				for _, attempts := range []int{1, 3} {
					t.Run(fmt.Sprint(protocol, "/", name, "/", kind, "/", attempts), func(t *testing.T) {
						var hits atomic.Int64
						url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
							got, err := io.ReadAll(r.Body)
							if err != nil || !bytes.Equal(got, testkit.Small) || r.Header.Get("Sum") != fmt.Sprintf("%x", sha256.Sum256(testkit.Small)) {
								t.Error("another body:", len(got), err)
							}
							if int(hits.Add(1)) < attempts {
								w.WriteHeader(503)
							}
						})
						transport := &Transport{Base: base, Strategy: noWait(), Prepare: func(req *http.Request, _ PrepareInfo) error {
							h := sha256.New()
							if _, err := io.Copy(h, req.Body); err != nil {
								return err
							}
							if err := req.Body.Close(); err != nil {
								return err
							}
							req.Header.Set("Sum", fmt.Sprintf("%x", h.Sum(nil)))
							body, err := req.GetBody()
							if err != nil {
								return err
							}
							req.Body = rewind(body)
							return nil
						}}
						req := testkit.RequestTo(t, "PUT", url, nil)
						closed := open(t, req, testkit.Small)
						resp, err := transport.RoundTrip(req.WithContext(WithMaxAttempts(req.Context(), attempts)))
						require.NoError(t, err)
						require.Equal(t, 200, resp.StatusCode)
						require.NoError(t, resp.Body.Close())
						testkit.Eventually(t, closed, "the close of the request's body")
					})
				}
			}
		}
	}
}

// What a user's function raises is what the caller gets, and the body is closed
// all the same, and no response twice.
func TestPanicsOfTheUsersFunctions(t *testing.T) {
	secondTime := func(_ *http.Request, p PrepareInfo) error {
		if p.Number == 2 {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	for name, transport := range map[string]*Transport{
		"Key":     {Key: func(*http.Request) string { panic(http.ErrAbortHandler) }},
		"PerKey":  {PerKey: func(string) *Strategy { panic(http.ErrAbortHandler) }},
		"Prepare": {Strategy: noWait(), Prepare: secondTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, reopened := range []bool{false, true} {
				base := script(step(testkit.Stream(503, strings.NewReader("no"), "Content-Type: text/plain")))
				transport.Base = base
				body := opaque("body")
				req := newRequest(t, "PUT", body)
				if reopened {
					req.GetBody = func() (io.ReadCloser, error) { return opaque("body"), nil }
				}
				require.PanicsWithValue(t, http.ErrAbortHandler, func() { _, _ = transport.RoundTrip(req) }, name)
				synctest.Wait()
				require.Equal(t, 1, body.Closes(), name)
				base.RequireClosed(t, 0)
			}
		})
	}
}

// A Read that is late because the processor is busy is not a blocked one.
func TestReadThatWaitsForTheProcessorIsReplayed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var busy atomic.Bool
	var reading, reads = make(chan struct{}), 0
	source := testkit.ReaderFunc(func(p []byte) (int, error) {
		if reads++; reads > 1 {
			return 0, io.EOF
		}
		busy.Store(true)
		for range 12 { // each of them runs for 10 ms before the next
			go func() {
				for busy.Load() {
				}
			}()
		}
		close(reading)
		runtime.Gosched() // as any Read may, at any point
		return copy(p, "body"), nil
	})
	attempts := 0
	base := step(func(req *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			go func() { _, _ = io.Copy(io.Discard, req.Body) }()
			<-reading
			return status(503)(req)
		}
		busy.Store(false)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.Equal(t, "body", string(body))
		_ = req.Body.Close()
		return status(200)(req)
	})
	resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(newRequest(t, "PUT", source))
	busy.Store(false)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
}

// A part of what is in memory can't fail either: a dial error is not its own.
func TestPartOfMemoryIsInMemory(t *testing.T) {
	for name, source := range map[string]io.Reader{
		"all":  strings.NewReader("body"),
		"part": io.LimitReader(strings.NewReader("body"), 3),
	} {
		calls := 0
		req := newRequest(t, "POST", nil)
		req.Body = io.NopCloser(source)
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		resp, err := (&Transport{Strategy: noWait(), Base: step(func(req *http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return nil, &net.OpError{Op: "dial", Err: io.ErrNoProgress}
			}
			return status(200)(req)
		})}).RoundTrip(req)
		require.NoError(t, err, name)
		require.Equal(t, 200, resp.StatusCode)
	}
}
