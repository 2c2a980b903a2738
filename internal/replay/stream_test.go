package replay_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

// What is kept of a stream, for how long, and who gets what is not.

// The base gets a GetBody with what is kept, and an error once that is gone.
func TestCopyOfWhatIsKept(t *testing.T) {
	for limit, kept := range map[int64]bool{10: true, 9: false} {
		u := newUpload(t, opaque(content), limit)
		out := u.begin()
		u.requireRead(content, out.Body)
		again, err := out.GetBody()
		if !kept {
			require.Equal(t, replay.ErrTooLong, err)
			continue
		}
		require.NoError(t, err)
		u.requireRead(content, again)
	}
}

// A copy that is left unread, or fails for being too long, does not harm the
// body itself.
func TestCopiesAreIndependent(t *testing.T) {
	long := strings.Repeat(content, 1000)
	src := opaque(long)
	u := newUpload(t, src, 5000)
	out := u.begin()
	unread, err := out.GetBody()
	require.NoError(t, err)
	greedy, err := out.GetBody()
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, greedy)
	require.ErrorIs(t, err, replay.ErrTooLong)
	u.requireRead(long, out.Body)
	_, err = unread.Read(make([]byte, 1))
	require.ErrorIs(t, err, replay.ErrTooLong)
	for _, body := range []io.Closer{out.Body, unread, greedy} {
		require.NoError(t, body.Close())
	}
	u.Sent()
	u.Finish()
	require.Equal(t, 1, src.Closes())
}

// Just past the limit, Reads of the source are as large as they are asked for.
func TestStreamingReadsAreLarge(t *testing.T) {
	reads, most := 0, 0
	u := newUpload(t, io.NopCloser(testkit.ReaderFunc(func(p []byte) (int, error) {
		most = max(most, len(p))
		if reads++; reads > 64 {
			return 0, io.EOF
		}
		return len(p), nil
	})), 4096)
	body := u.begin().Body
	for frame := make([]byte, 4097); ; {
		if _, err := io.ReadFull(body, frame); err != nil {
			break
		}
	}
	require.Equal(t, 4097, most)
}

// A body of unknown length is not read byte by byte to begin with.
func TestUnknownLengthIsReadInLargePieces(t *testing.T) {
	var sizes []int
	u := newUpload(t, io.NopCloser(testkit.ReaderFunc(func(p []byte) (int, error) {
		sizes = append(sizes, len(p))
		return len(p), nil
	})), 1<<20) // ContentLength 0 with a body: net/http takes the length for unknown
	body := u.begin().Body
	for range 3 {
		_, err := body.Read(make([]byte, 16<<10))
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, sizes[0], 1<<10, "%v", sizes)
}

// Copies that were opened and forgotten hold nothing, under a context that lives
// on.
func TestForgottenCopyHoldsNoMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var freed atomic.Int64
	const n = 20
	for range n {
		func() {
			src := opaque(content)
			runtime.AddCleanup(src, func(int) { freed.Add(1) }, 0)
			req, err := http.NewRequestWithContext(ctx, "PUT", "http://example.com/", src)
			require.NoError(t, err)
			var b replay.Body
			b.Begin(req)
			b.Keep(10)
			out := req.WithContext(ctx)
			require.NoError(t, b.Open(ctx, out))
			require.NoError(t, out.Body.Close())
			_, _ = out.GetBody() // forgotten, as http2shouldRetryRequest does
			body, err := out.GetBody()
			require.NoError(t, err)
			_, _ = io.ReadAll(body)
			require.NoError(t, body.Close())
			b.Sent()
			b.Finish()
			require.Eventually(t, func() bool { return src.Closes() == 1 }, time.Second, time.Millisecond)
		}()
	}
	require.Eventually(t, func() bool { runtime.GC(); return freed.Load() == n }, 5*time.Second, time.Millisecond,
		"the context still holds some")
}

// What is kept is freed when no retry can follow, though the source is idle.
func TestCaptureIsFreedWhileTheSourceIsIdle(t *testing.T) {
	const each = 1 << 20
	var held []*upload
	var rests []io.Closer
	testkit.HeapInUse() // what others left behind takes a second collection
	before := testkit.HeapInUse()
	for range 20 {
		r, w := io.Pipe()
		go func() { _, _ = w.Write(make([]byte, each)) }()
		u := newUpload(t, r, 2<<20)
		out := u.begin()
		_, err := io.ReadFull(out.Body, make([]byte, each))
		require.NoError(t, err)
		go func() { _, _ = out.Body.Read(make([]byte, 1)) }() // full duplex: waits for more
		u.Sent()
		u.Finish()
		held, rests = append(held, u), append(rests, out.Body)
	}
	require.Eventually(t, func() bool { return (testkit.HeapInUse()-before)/20 < 256<<10 }, 5*time.Second, time.Millisecond)
	for _, rest := range rests {
		require.NoError(t, rest.Close())
	}
	runtime.KeepAlive(held)
}

// A source that gives nothing for a while is asked again by the reader, which may
// lose its patience.
func TestSourceThatGivesNothing(t *testing.T) {
	body := newUpload(t, io.NopCloser(testkit.ReaderFunc(func([]byte) (int, error) { return 0, nil })), 10).begin().Body
	for range 3 {
		n, err := body.Read(make([]byte, 1))
		require.Zero(t, n)
		require.NoError(t, err)
	}
}

// A copy keeps the source open while it is read, also if it was dropped before
// that for being forgotten.
func TestCopyThatIsReadKeepsTheSourceOpen(t *testing.T) {
	for name, first := range map[string]int{"read before another is opened": 1, "read after that": 0} {
		src := opaque(content)
		u := newUpload(t, src, 10)
		out := u.begin()
		copied, err := out.GetBody()
		require.NoError(t, err)
		_, err = io.ReadFull(copied, make([]byte, first))
		require.NoError(t, err)
		other, err := out.GetBody()
		require.NoError(t, err)
		_, err = io.ReadFull(copied, make([]byte, 1))
		require.NoError(t, err)
		u.Sent()
		u.Finish()
		require.NoError(t, out.Body.Close())
		require.NoError(t, other.Close())
		u.requireRead(content[first+1:], copied)
		require.Eventually(t, func() bool { return src.Closes() == 1 }, time.Second, time.Millisecond, name)
	}
}

// A copy that Prepare has begun to read, and forgot, keeps nothing open. A body
// of Prepare's making may open and read copies until it is closed.
func TestPrepareAndCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := opaque(content)
		u := newUpload(t, src, 10)
		out := u.begin()
		forgotten, err := out.GetBody()
		require.NoError(t, err)
		_, err = forgotten.Read(make([]byte, 1))
		require.NoError(t, err)
		u.Choose(out, nil)
		u.Last()
		u.requireRead(content, out.Body)
		synctest.Wait()
		require.Equal(t, 1, src.Closes())

		src = opaque(content)
		u = newUpload(t, src, 10)
		out = u.begin()
		u.requireRead(content, out.Body)
		getBody := out.GetBody
		out.Body = io.NopCloser(testkit.ReaderFunc(func(p []byte) (int, error) {
			body, err := getBody()
			if err != nil {
				return 0, err
			}
			n, _ := io.ReadFull(body, p[:len(content)])
			return n, io.EOF
		}))
		u.Choose(out, nil)
		u.Last()
		u.requireRead(content, out.Body)
		require.Zero(t, src.Closes())
		require.NoError(t, out.Body.Close())
		synctest.Wait()
		require.Equal(t, 1, src.Closes())
	})
}

// A source may give bytes after it was closed.
func TestLateBytesOfAClosedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		u := newUpload(t, io.NopCloser(testkit.ReaderFunc(func(p []byte) (int, error) {
			time.Sleep(time.Second)
			return len(p), nil
		})), 10, within(ctx))
		body := u.begin().Body
		time.AfterFunc(time.Millisecond, cancel)
		begun := time.Now()
		_, err := body.Read(make([]byte, 1))
		require.Equal(t, context.Canceled, err)
		require.Equal(t, time.Millisecond, time.Since(begun))
		time.Sleep(time.Minute)
		require.Equal(t, context.Canceled, u.Check())
	})
}

// A file that fails is not sent again.
func TestFileThatFailsIsNotSentAgain(t *testing.T) {
	f := testkit.OpenFile(t, content, 0)
	u := newUpload(t, f, 10)
	body := u.begin().Body
	require.NoError(t, f.Close())
	_, err := body.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrClosed)
	require.Equal(t, replay.ErrFailed, u.Hold())
}

// A panic of the source comes up in whoever reads.
func TestPanicOfTheSourceReachesTheReader(t *testing.T) {
	body := newUpload(t, io.NopCloser(testkit.ReaderFunc(func([]byte) (int, error) { panic("on fire") })), 10).begin().Body
	for range 2 {
		require.PanicsWithValue(t, "on fire", func() { _, _ = body.Read(make([]byte, 1)) })
	}
}
