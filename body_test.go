package retrip

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

// A body is sent again whole, or not at all.

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
			resp, err := (&Transport{Base: base, Strategy: noWait(tokens(500))}).RoundTrip(newRequest(t, "PUT", body(t)))
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Len(t, base.Sent(), 3)
			for _, sent := range base.Sent() {
				require.True(t, sent.Content == want, "got %d bytes", len(sent.Content))
			}
		})
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
	body := opaque("0123456789")
	resp, err := (&Transport{Base: base, Strategy: noWait(tokens(500))}).RoundTrip(newRequest(t, "PUT", body))
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
		resp, err := (&Transport{Base: base, Strategy: noWait(tokens(500))}).RoundTrip(newRequest(t, "PUT", r))
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

func TestBodyBeyondTheBufferIsSentOnce(t *testing.T) {
	content := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		buffer int64
		sent   int
	}{{199_999, 1}, {200_000, 2}} {
		base := script(status(503), status(200))
		ctx, trace := WithTrace(t.Context())
		_, err := (&Transport{Base: base, Strategy: noWait(tokens(500)), ReplayBuffer: tt.buffer}).
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
