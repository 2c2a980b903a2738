package retrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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

	"github.com/stretchr/testify/require"
)

func TestBodyIsSentAgainWhole(t *testing.T) {
	big := strings.Repeat("0123456789", 30_000)
	tests := map[string]func(t *testing.T) io.Reader{
		"reopened":       func(*testing.T) io.Reader { return strings.NewReader(big) },
		"opaque":         func(*testing.T) io.Reader { return opaque(big) },
		"byte by byte":   func(*testing.T) io.Reader { return iotest.OneByteReader(strings.NewReader(big)) },
		"EOF with data":  func(*testing.T) io.Reader { return iotest.DataErrReader(strings.NewReader(big)) },
		"file":           func(t *testing.T) io.Reader { return openFile(t, big, 0) },
		"file, further":  func(t *testing.T) io.Reader { return openFile(t, "skipped"+big, 7) },
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
			require.Len(t, base.sent(), 3)
			for _, sent := range base.sent() {
				require.True(t, sent.body == want, "got %d bytes", len(sent.body))
			}
		})
	}
}

func openFile(t *testing.T, content string, at int64) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	f, err := os.Open(name)
	require.NoError(t, err)
	_, err = f.Seek(at, io.SeekStart)
	require.NoError(t, err)
	return f
}

// Whoever gets the request body closes it, and nobody does so twice.
func TestRequestBodyIsClosedOnce(t *testing.T) {
	tests := map[string][]step{
		"success":            {status(200)},
		"retried":            {status(503), status(200)},
		"attempts spent":     {status(503)},
		"error":              {fails(errReset)},
		"hopeless":           {fails(&baseError{"no"})},
		"not worth a retry":  {status(404)},
		"waits for too long": {status(503, "Retry-After: 99")},
	}
	for name, steps := range tests {
		for _, getBody := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, GetBody %v", name, getBody), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var opened []*trackedBody
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
						require.Equal(t, 1, body.closes())
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
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			old = req.Body
			_, err := io.ReadFull(req.Body, make([]byte, 3))
			require.NoError(t, err)
			return status(503)(req)
		}
		n, err := old.Read(make([]byte, 3))
		require.Zero(t, n)
		require.Equal(t, errBodyOver, err)
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
	require.Equal(t, 1, body.closes())
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
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
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
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, req.Body); _ = req.Body.Close() }()
			synctest.Wait()
			return status(503)(req)
		})
		ctx, trace := WithTrace(t.Context())
		start := time.Now()
		resp, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", r).WithContext(ctx))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, sourceGrace, time.Since(start))
		require.Equal(t, BodyNotReplayable, trace.Trips()[0][0].Reason)
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
				source := &trackedBody{ReadCloser: r}
				ctx, transport := limit(t.Context())
				transport.Base = roundTripFunc(func(req *http.Request) (*http.Response, error) {
					_, err := io.ReadAll(req.Body) // as net/http's HTTP/1 does, it waits for the body
					_ = req.Body.Close()
					return nil, err
				})
				start := time.Now()
				_, err := transport.RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
				require.Error(t, err)
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, 1, source.closes())
			})
		})
	}
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
		require.Len(t, base.sent(), tt.sent)
		for _, sent := range base.sent() {
			require.True(t, sent.body == content)
		}
		if tt.sent == 1 {
			require.Equal(t, BodyNotReplayable, trace.Trips()[0][0].Reason)
			require.ErrorIs(t, trace.Trips()[0][0].Err, errNoReplay)
		}
	}
}

func TestBodyThatFailsMidway(t *testing.T) {
	broken := errors.New("disk on fire")
	base := script(status(200))
	req := newRequest(t, "PUT", io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken)))
	_, err := (&Transport{Base: base}).RoundTrip(req)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, BodyNotReplayable)
	require.Empty(t, base.sent())
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
	f := openFile(t, "content", 0)
	base := script(func(req *http.Request) (*http.Response, error) {
		require.NoError(t, os.WriteFile(f.Name(), []byte("other content"), 0o600))
		return status(503)(req)
	}, status(200))
	ctx, trace := WithTrace(t.Context())
	resp, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", f).WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, BodyNotReplayable, trace.Trips()[0][0].Reason)
	require.ErrorIs(t, trace.Trips()[0][0].Err, errFileChanged)
	require.ErrorIs(t, f.Close(), os.ErrClosed)
}

func TestGetBodyThatFails(t *testing.T) {
	tests := []struct {
		name string
		open func() (io.ReadCloser, error)
		want string
	}{
		{"error", func() (io.ReadCloser, error) { return nil, io.ErrNoProgress }, "retrip: Request.GetBody failed: " + io.ErrNoProgress.Error()},
		{"nil", func() (io.ReadCloser, error) { return nil, nil }, "retrip: Request.GetBody returned a nil body and no error"},
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
			require.EqualError(t, trace.Trips()[0][0].Err, tt.want)

			base = script(fails(errReset))
			_, err = (&Transport{Base: base}).RoundTrip(req)
			require.ErrorIs(t, err, BodyNotReplayable)
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
			require.ErrorIs(t, err, NotRetryable)
			require.Len(t, base.sent(), 1)
		}
	})
}

func TestNoBodyStaysNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			var seen []io.ReadCloser
			base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
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

// The base gets a GetBody with what is kept, and an error once that is gone.
func TestCapturedBodyHasGetBody(t *testing.T) {
	for buffer, kept := range map[int64]bool{10: true, 9: false} {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			_, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			again, err := req.GetBody()
			if !kept {
				require.Equal(t, errNoReplay, err)
				return status(200)(req)
			}
			require.NoError(t, err)
			body, err := io.ReadAll(again)
			require.NoError(t, err)
			require.Equal(t, "0123456789", string(body))
			return status(200)(req)
		})
		_, err := (&Transport{Base: base, ReplayBuffer: buffer}).RoundTrip(newRequest(t, "PUT", opaque("0123456789")))
		require.NoError(t, err)
	}
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

func noWait() *Strategy {
	s := Standard()
	s.Backoff, s.Quota = Constant{}, nil
	return s
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
		"opaque":   func() io.Reader { return onlyReader{bytes.NewReader(content)} },
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
	name := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	var received []int64
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 32<<10))
		received = append(received, n)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		return status(503 - 303*(len(received)/2))(req)
	})
	req := newRequest(t, "PUT", f)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, []int64{size, size}, received)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

// A retry of a body that can be reopened copies none of it.
func TestRetryMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
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
	once := perRequest(nopBase{&http.Response{StatusCode: 200, Body: http.NoBody}})
	calls := 0
	twice := perRequest(&Transport{Strategy: noWait(), Base: roundTripFunc(func(*http.Request) (*http.Response, error) {
		calls++
		return &http.Response{StatusCode: 200 + 303*(calls%2), Body: http.NoBody}, nil
	})})
	require.Less(t, twice-once, int64(2<<10))
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
		sources []*trackedBody
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
			if source.closes() != 1 {
				return false
			}
		}
		return true
	}, 5*time.Second, time.Millisecond, "net/http closes a body a moment after RoundTrip returned")
}
