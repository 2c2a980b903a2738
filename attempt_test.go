package retrip

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// contextBody is a body that ends with its request's context, as net/http's do.
type contextBody struct {
	ctx context.Context
	io.Reader
}

func (b contextBody) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.Reader.Read(p)
}

func (contextBody) Close() error { return nil }

// A response whose headers came in time may be read for as long as it takes.
func TestAttemptTimeoutLeavesTheBodyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempt context.Context
		base := step(func(req *http.Request) (*http.Response, error) {
			attempt = req.Context()
			time.Sleep(time.Second)
			slow := testkit.ReaderFunc(func(p []byte) (int, error) {
				time.Sleep(time.Minute)
				return copy(p, "late"), io.EOF
			})
			return &http.Response{StatusCode: 200, Body: contextBody{attempt, slow}}, nil
		})
		resp, err := (&Transport{Base: base, AttemptTimeout: 2 * time.Second}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, attempt.Err())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "late", string(body))
		require.Error(t, attempt.Err(), "the end releases the attempt's context")

		resp, err = (&Transport{Base: base, AttemptTimeout: 2 * time.Second}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Error(t, attempt.Err(), "and so does Close")
	})
}

// Headers that come at the very moment of the timeout: either the attempt
// counts as timed out, or its body can be read.
func TestAttemptTimeoutAtTheLastMoment(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			base := step(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return &http.Response{StatusCode: 200, Body: contextBody{req.Context(), testkit.ReaderFunc(func(p []byte) (int, error) {
					return 0, io.EOF
				})}}, nil
			})
			resp, err := (&Transport{Base: base, AttemptTimeout: time.Second, Strategy: noWait(attempts(1))}).RoundTrip(newRequest(t, "GET", nil))
			if err != nil {
				require.ErrorAs(t, err, new(*AttemptTimeoutError))
				return
			}
			synctest.Wait()
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		})
	}
}

// An error that merely comes while the attempt is timed is its own.
func TestAttemptTimeoutIsToldFromOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := get(t.Context(), &Transport{Base: script(fails(context.Canceled)), AttemptTimeout: time.Second})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorAs(t, err, new(*AttemptTimeoutError))
	})
}

type switched struct{ io.ReadWriteCloser }

func (switched) CloseWrite() error { return nil }

// What the connection of a 101 can do, its body can.
func TestUpgradedBodyKeepsItsMethods(t *testing.T) {
	base := step(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: switched{}}, nil
	})
	resp, err := (&Transport{Base: base, AttemptTimeout: time.Minute}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	require.Equal(t, switched{}, resp.Body)
}

// Prepare takes its own time, not the attempt's.
func TestAttemptTimeoutBeginsAfterPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(200))
		resp, err := get(t.Context(), &Transport{Base: base, AttemptTimeout: time.Second, Prepare: func(req *http.Request, _ PrepareInfo) error {
			time.Sleep(time.Minute)
			return req.Context().Err()
		}})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// An attempt that is not sent leaves nothing in the caller's context, which may
// live as long as the program.
func TestContextOfAnAttemptThatIsNotSentEnds(t *testing.T) {
	var ctx context.Context
	transport := &Transport{
		Base: script(status(200)), AttemptTimeout: time.Hour,
		Prepare: func(req *http.Request, _ PrepareInfo) error {
			ctx = req.Context()
			return io.ErrNoProgress
		},
	}
	_, err := get(t.Context(), transport)
	require.ErrorIs(t, err, ErrPrepareFailed)
	require.Error(t, ctx.Err())
}

func TestPrepareThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := get(ctx, &Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) error {
			<-req.Context().Done()
			return req.Context().Err()
		}})
		require.ErrorIs(t, err, ErrCancelled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(hangs(), status(200))
		resp, err := get(t.Context(), &Transport{Base: base, AttemptTimeout: time.Second})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)

		_, err = get(t.Context(), &Transport{Base: script(hangs()), AttemptTimeout: time.Second})
		var timeout *AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, time.Second, timeout.After)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 3, e.Attempts)
		require.True(t, e.Timeout())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		base = script(hangs())
		_, err = get(ctx, &Transport{Base: base, AttemptTimeout: time.Minute})
		require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own deadline")
		require.Len(t, base.Sent(), 1)
	})
}

func TestAttemptTimeoutEndsAtTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var attempt context.Context
		base := script(func(req *http.Request) (*http.Response, error) {
			attempt = req.Context()
			return &http.Response{StatusCode: 200, Body: r}, nil
		})
		resp, err := (&Transport{Base: base, AttemptTimeout: time.Second}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Hour) // in the bubble's time: long after the attempt's limit
			_, _ = w.Write([]byte("late"))
			_ = w.Close()
		}()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "late", string(body))
		require.Error(t, attempt.Err(), "the end of the body releases the attempt's context")
		require.NoError(t, resp.Body.Close())
	})
}
