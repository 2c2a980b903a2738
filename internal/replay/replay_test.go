package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

const content = "0123456789"

var opaque = testkit.Opaque

// An upload is a request and its body.
type upload struct {
	*testing.T
	req *http.Request
	replay.Body
}

func newUpload(t *testing.T, body io.ReadCloser, limit int64, edits ...func(*http.Request)) *upload {
	t.Helper()
	req := testkit.NewRequest(t, "PUT", nil)
	req.Body = body
	for _, edit := range edits {
		edit(req)
	}
	u := &upload{T: t, req: req}
	u.Body.Begin(req)
	u.Keep(limit)
	return u
}

// within gives a request a context.
func within(ctx context.Context) func(*http.Request) {
	return func(req *http.Request) { *req = *req.WithContext(ctx) }
}

// reopened gives a request a GetBody.
func reopened(open func() (io.ReadCloser, error)) func(*http.Request) {
	return func(req *http.Request) { req.GetBody = open }
}

// begin opens the body for an attempt.
func (u *upload) begin() *http.Request {
	u.Helper()
	out := u.req.WithContext(u.req.Context())
	require.NoError(u, u.Open(out.Context(), out))
	return out
}

// again passes from one attempt to the next.
func (u *upload) again() *http.Request {
	u.Helper()
	u.Sent()
	require.NoError(u, u.Hold())
	require.NoError(u, u.Reopen())
	u.Fence()
	return u.begin()
}

func (u *upload) requireRead(want string, body io.Reader) {
	u.Helper()
	got, err := io.ReadAll(body)
	require.NoError(u, err)
	require.Equal(u, want, string(got))
}

// Each attempt gets the whole body, however much earlier ones have read.
func TestEachAttemptReadsAll(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{
		"stream":        opaque(content),
		"byte by byte":  io.NopCloser(iotest.OneByteReader(strings.NewReader(content))),
		"EOF with data": io.NopCloser(iotest.DataErrReader(strings.NewReader(content))),
		"in memory":     io.NopCloser(strings.NewReader(content)),
		"file":          testkit.OpenFile(t, "skipped"+content, 7),
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpload(t, body, 10)
			out := u.begin()
			for n := range len(content) + 1 {
				_, err := io.ReadFull(out.Body, make([]byte, n))
				require.NoError(t, err)
				out = u.again()
			}
			u.requireRead(content, out.Body)
			u.Sent()
			u.Finish()
			u.requireRead("", out.Body)
			require.NoError(t, out.Body.Close())
			if f, ok := body.(*os.File); ok {
				_, err := f.Stat()
				require.ErrorIs(t, err, os.ErrClosed)
			}
		})
	}
}

func TestReopenedBodyIsClosedOnce(t *testing.T) {
	bodies := testkit.Reopener{Content: content}
	body, _ := bodies.Open()
	u := newUpload(t, body, 1, reopened(bodies.Open))
	require.False(t, u.Kept())
	u.requireRead(content, u.begin().Body)
	u.requireRead(content, u.again().Body)
	u.Finish() // the second was never sent
	require.Zero(t, bodies.Opened[0].Closes(), "its base closes it")
	require.Equal(t, 1, bodies.Opened[1].Closes())
	u.Finish()
	require.Equal(t, 1, bodies.Opened[1].Closes())
}

func TestNoBodyStaysNone(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		u := newUpload(t, body, 1)
		for range 3 {
			out := u.begin()
			u.Lend(out)
			u.Choose(out, nil)
			require.Equal(t, body, out.Body)
			u.again()
		}
		u.Finish()
	}
	var b replay.Body
	b.Begin(nil)
	b.Finish()
}

// An attempt that is over gets no byte, and no copy.
func TestFenceEndsAnAttempt(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"stream": opaque(content), "file": testkit.OpenFile(t, content, 0)} {
		u := newUpload(t, body, 10)
		old := u.begin()
		copied, err := old.GetBody()
		require.NoError(t, err)
		out := u.again()
		for _, body := range []io.Reader{old.Body, copied} {
			n, err := body.Read(make([]byte, 1))
			require.Zero(t, n, name)
			require.Equal(t, replay.ErrOver, err, name)
		}
		_, err = old.GetBody()
		require.Equal(t, replay.ErrOver, err, name)
		require.NoError(t, old.Body.Close())
		u.requireRead(content, out.Body)
	}
}

// Check says why a body can't be sent again, and stops nothing; Hold does.
func TestWhyABodyIsNotSentAgain(t *testing.T) {
	broken := errors.New("disk on fire")
	changing := testkit.OpenFile(t, content, 0)
	for name, tt := range map[string]struct {
		body io.ReadCloser
		play func(*upload, *http.Request)
		want error
	}{
		"at the limit": {opaque(content), func(_ *upload, out *http.Request) { _, _ = io.ReadAll(out.Body) }, nil},
		"too long":     {opaque(content + "0"), func(_ *upload, out *http.Request) { _, _ = io.ReadAll(out.Body) }, replay.ErrTooLong},
		"failed": {io.NopCloser(iotest.ErrReader(broken)), func(_ *upload, out *http.Request) {
			_, err := io.ReadAll(out.Body)
			require.Equal(t, broken, err)
		}, replay.ErrFailed},
		"quit": {io.NopCloser(testkit.ReaderFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })), func(_ *upload, out *http.Request) {
			_, err := io.ReadAll(out.Body)
			require.ErrorContains(t, err, "ended its goroutine")
		}, replay.ErrFailed},
		"lying": {io.NopCloser(testkit.ReaderFunc(func(p []byte) (int, error) { return len(p) + 1, nil })), func(_ *upload, out *http.Request) {
			_, err := io.ReadAll(out.Body)
			require.ErrorContains(t, err, "Read returned")
		}, replay.ErrFailed},
		"file changed": {changing, func(*upload, *http.Request) {
			require.NoError(t, os.WriteFile(changing.Name(), []byte("other content"), 0o600))
		}, replay.ErrFileChanged},
		"closed": {opaque(content), func(u *upload, out *http.Request) { u.Finish() }, replay.ErrOver},
		"GetBody is gone": {nil, func(u *upload, _ *http.Request) {
			u.req.Body = opaque(content)
		}, errors.New("Request.GetBody was set at first and is nil now: leave it as it was")},
	} {
		u := newUpload(t, tt.body, 10)
		out := u.begin()
		tt.play(u, out)
		for range 2 {
			require.Equal(t, tt.want, u.Check(), name)
			require.Equal(t, tt.want, u.Hold(), name)
		}
	}
}

// Check lets a source be read on, and Hold stops it until Fence or Finish.
func TestHoldStopsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpload(t, opaque(content), 10)
		out := u.begin()
		require.NoError(t, u.Check())
		_, err := io.ReadFull(out.Body, make([]byte, 3))
		require.NoError(t, err)
		u.Sent()
		require.NoError(t, u.Hold())
		rest := make(chan string)
		go func() {
			b, _ := io.ReadAll(iotest.OneByteReader(out.Body))
			rest <- string(b)
		}()
		synctest.Wait()
		select {
		case b := <-rest:
			t.Fatalf("read on: %q", b)
		default:
		}
		u.Finish()
		require.Equal(t, content[3:], <-rest)
	})
}

// A Read under way gets its grace, and what it gives is not lost.
func TestReadUnderWayGetsItsGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // what comes then
		do    func(w *io.PipeWriter, cancel context.CancelFunc, requestCancel chan struct{})
		want  error
		took  time.Duration
	}{
		"in time":   {20 * time.Millisecond, func(w *io.PipeWriter, _ context.CancelFunc, _ chan struct{}) { _, _ = w.Write([]byte(content)) }, nil, 20 * time.Millisecond},
		"late":      {time.Second, func(w *io.PipeWriter, _ context.CancelFunc, _ chan struct{}) { _ = w.Close() }, replay.ErrBlocked, replay.Grace},
		"cancelled": {20 * time.Millisecond, func(_ *io.PipeWriter, cancel context.CancelFunc, _ chan struct{}) { cancel() }, context.Canceled, 20 * time.Millisecond},
		"Request.Cancel": {20 * time.Millisecond, func(_ *io.PipeWriter, _ context.CancelFunc, c chan struct{}) { close(c) },
			replay.ErrBlocked, 20 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			requestCancel := make(chan struct{})
			u := newUpload(t, r, 10, within(ctx), func(req *http.Request) {
				//lint:ignore SA1019 what http.Client.Timeout still uses
				req.Cancel = requestCancel
			})
			out := u.begin()
			go func() { _, _ = out.Body.Read(make([]byte, 10)) }()
			synctest.Wait()
			u.Sent()
			time.AfterFunc(tt.after, func() { tt.do(w, cancel, requestCancel) })
			begun := time.Now()
			err := u.Hold()
			require.Equal(t, tt.took, time.Since(begun), name)
			if tt.want == context.Canceled { // the source may be closed by then
				require.Error(t, err)
				return
			}
			require.Equal(t, tt.want, err, name)
			if err == nil {
				u.Fence()
				got := make([]byte, 10)
				_, err := io.ReadFull(u.begin().Body, got)
				require.NoError(t, err)
				require.Equal(t, content, string(got))
			}
		})
	}
}

// What may happen to an upload before its source must be closed.
var uploadEnds = map[string]func(*upload, context.CancelFunc){
	"never opened":     func(u *upload, _ context.CancelFunc) { u.Finish() },
	"never sent":       func(u *upload, _ context.CancelFunc) { u.begin(); u.Finish() },
	"copy, never sent": func(u *upload, _ context.CancelFunc) { _, _ = u.begin().GetBody(); u.Finish() },
	"read":             func(u *upload, _ context.CancelFunc) { u.requireRead(content, u.begin().Body); u.Sent(); u.Finish() },
	"closed": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		u.Sent()
		u.Finish()
		require.NoError(u, out.Body.Close())
		require.NoError(u, out.Body.Close())
	},
	"copy forgotten": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		for range 2 {
			_, err := out.GetBody()
			require.NoError(u, err)
		}
		last, err := out.GetBody()
		require.NoError(u, err)
		u.Sent()
		u.Finish()
		u.requireRead(content, last)
		require.NoError(u, out.Body.Close())
	},
	"context ended": func(u *upload, cancel context.CancelFunc) {
		out := u.begin()
		cancel()
		synctest.Wait()
		_, err := io.ReadAll(out.Body)
		require.Equal(u, context.Canceled, err)
		u.Finish()
	},
	"wrapped by Prepare": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		u.Lend(out)
		out.Body = io.NopCloser(io.MultiReader(out.Body, strings.NewReader("")))
		u.Choose(out, nil)
		u.Sent()
		u.Finish()
		u.requireRead(content, out.Body)
		require.NoError(u, out.Body.Close())
	},
	"rewound by Prepare": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		u.requireRead(content, out.Body)
		out.Body, _ = out.GetBody()
		u.Choose(out, nil)
		u.Sent()
		u.Finish()
		u.requireRead(content, out.Body)
		require.NoError(u, out.Body.Close())
	},
	"taken away by Prepare": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		out.Body = nil
		u.Choose(out, nil)
		require.Nil(u, out.Body)
		u.Finish()
	},
	"Prepare failed": func(u *upload, _ context.CancelFunc) {
		out := u.begin()
		u.Choose(out, io.ErrNoProgress)
		u.Finish()
	},
}

// The source is closed once: when the last reader of the last attempt is done
// with it, or the request's context ends.
func TestSourceIsClosedOnce(t *testing.T) {
	for name, play := range uploadEnds {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			src := opaque(content)
			u := newUpload(t, src, 10, within(ctx))
			play(u, cancel)
			synctest.Wait()
			require.Equal(t, 1, src.Closes(), name)
		})
	}
}

// Whatever many readers do at once, each gets the bytes of the body in order, a
// clean end only behind the last of them, and no more than one Read of the source
// is under way.
func TestReadersAtOnce(t *testing.T) {
	whole := bytes.Repeat([]byte(content), 2000)
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var reading atomic.Int32
		rest := bytes.NewReader(whole)
		src := testkit.Source(testkit.ReaderFunc(func(p []byte) (int, error) {
			if reading.Add(1) > 1 {
				t.Error("two Reads of the source at once")
			}
			defer reading.Add(-1)
			return rest.Read(p[:min(len(p), 1+int(seed)*20)])
		}))
		u := newUpload(t, src, int64(rng.IntN(2*len(whole))))
		out := u.begin()
		for range 3 {
			readAtOnce(u, out, whole, rng)
			u.Sent()
			if u.Hold() != nil {
				break
			}
			u.Fence()
			out = u.begin()
		}
		u.Finish()
		_ = out.Body.Close()
		require.Eventually(t, func() bool { return src.Closes() == 1 }, 5*time.Second, time.Millisecond, "seed %d", seed)
	}
}

func readAtOnce(u *upload, out *http.Request, whole []byte, rng *rand.Rand) {
	var wg sync.WaitGroup
	bodies := []io.ReadCloser{out.Body}
	for range rng.IntN(3) {
		if body, err := out.GetBody(); err == nil {
			bodies = append(bodies, body)
		}
	}
	for _, body := range bodies {
		size, stop := 1+rng.IntN(5000), rng.IntN(2*len(whole))
		wg.Go(func() {
			defer body.Close()
			got := 0
			for p := make([]byte, size); got < stop; {
				n, err := body.Read(p)
				if !bytes.Equal(p[:n], whole[got:got+n]) {
					u.Error("other bytes at", got)
				}
				if got += n; err == io.EOF && got != len(whole) {
					u.Error("a clean end after", got)
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// A body in memory is known for one.
func TestBodyInMemoryIsKnown(t *testing.T) {
	memory := strings.NewReader(content)
	for want, bodies := range map[bool][]io.ReadCloser{
		true: {
			io.NopCloser(memory), io.NopCloser(bytes.NewReader(nil)), io.NopCloser(new(bytes.Buffer)), io.NopCloser(io.LimitReader(memory, 3)),
		},
		false: {
			nil, http.NoBody, opaque(content), io.NopCloser(iotest.OneByteReader(memory)), io.NopCloser(io.LimitReader(iotest.OneByteReader(memory), 3)),
			io.NopCloser((*bytes.Reader)(nil)), io.NopCloser(io.LimitReader((*strings.Reader)(nil), 3)), io.NopCloser((*io.LimitedReader)(nil)),
		},
	} {
		for _, body := range bodies {
			require.Equal(t, want, replay.InMemory(body), fmt.Sprintf("%T", body))
		}
	}
}
