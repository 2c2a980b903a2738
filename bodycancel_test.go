package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// After the end of the caller's context, every error carries the context's
// error and its cause, whoever noticed the end first.

var errWindowClosed = errors.New("the user closed the window")

// contextEnds are the ways in which a context ends, each after a second.
var contextEnds = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	},
	"cancelled with a cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(errWindowClosed) })
		return ctx, func() { cancel(nil) }
	},
	"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	},
	"deadline with a cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, time.Second, errWindowClosed)
	},
}

// requireEnd checks that err says how ctx ended.
func requireEnd(t *testing.T, ctx context.Context, err error) {
	t.Helper()
	require.ErrorIs(t, err, ctx.Err())
	require.ErrorIs(t, err, context.Cause(ctx))
	timeout, ok := err.(net.Error) // http.Client asserts on the error itself
	require.Equal(t, ctx.Err() == context.DeadlineExceeded, ok && timeout.Timeout(), "%v", err)
}

// awaitEnd plays a base that fails with an error of its own once the context
// has ended.
func awaitEnd(err error) step {
	return func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, err
	}
}

// readToTheEnd plays a base that fails with its body's error, as net/http does
// over HTTP/1 if the body notices the end first.
func readToTheEnd(wrap string) step {
	return func(req *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return nil, fmt.Errorf(wrap, err)
	}
}

func TestErrorAfterTheContextEndedTellsHow(t *testing.T) {
	bases := map[string]http.RoundTripper{
		"error of its own": awaitEnd(errReset),
		"context.Canceled": awaitEnd(context.Canceled),
		"context's error": step(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}),
		"context's cause": step(hangs()),
		"wrapped cause": step(func(req *http.Request) (*http.Response, error) {
			_, err := hangs()(req)
			return nil, fmt.Errorf("write: %w", err)
		}),
		"neither response nor error": awaitEnd(nil),
		"not worth a retry":          awaitEnd(&baseError{"no"}),
		"body's error":               readToTheEnd("%w"),
		"body's error, wrapped":      readToTheEnd("write error: %w"),
		"body's error, as text":      readToTheEnd("write error: %v"),
	}
	for name, base := range bases {
		for how, end := range contextEnds {
			for config, transport := range map[string]*Transport{
				"first":  {Strategy: noWait()},
				"second": {Strategy: noWait()},
				"timed":  {Strategy: noWait(), AttemptTimeout: time.Hour},
			} {
				t.Run(name+"/"+how+"/"+config, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						source, w := io.Pipe()
						defer w.Close()
						ctx, cancel := end(t.Context())
						defer cancel()
						attempts := 0
						transport.Base = step(func(req *http.Request) (*http.Response, error) {
							if attempts++; attempts == 1 && config == "second" {
								return status(503)(req)
							}
							return base.RoundTrip(req)
						})
						_, err := transport.RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
						requireEnd(t, ctx, err)
					})
				})
			}
		}
	}
}

// The base's own error is returned as it is if it says all of that.
func TestErrorThatTellsTheEndIsTheBasesOwn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	own := fmt.Errorf("read: %w", context.Canceled)
	_, err := get(ctx, &Transport{Base: step(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, own
	})})
	require.Same(t, own, err)
}

// http.Client's own timeout comes as a deadline, too.
func TestClientTimeoutUnderABlockedBody(t *testing.T) {
	for name, base := range map[string]http.RoundTripper{
		"error of its own": awaitEnd(errReset), "body's error": readToTheEnd("write error: %v"),
	} {
		synctest.Test(t, func(t *testing.T) {
			source, w := io.Pipe()
			defer w.Close()
			client := &http.Client{Transport: &Transport{Base: base}, Timeout: time.Second}
			_, err := client.Do(newRequest(t, "PUT", source))
			var timeout net.Error
			require.ErrorAs(t, err, &timeout, name)
			require.True(t, timeout.Timeout(), "%s: %v", name, err)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		})
	}
}

// Over a real connection, the body and the connection notice the end of the
// context in any order.
func TestCancelledUploadTellsWhy(t *testing.T) {
	testkit.NoLeaks(t)
	times := 20
	if *long {
		times = 300
	}
	for _, protocol := range testkit.AllProtocols {
		url, base := testkit.Serve(t, protocol, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		for _, how := range []string{"cancelled", "deadline"} {
			t.Run(protocol+"/"+how, func(t *testing.T) {
				for range times {
					source, w := io.Pipe()
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
					if how == "cancelled" {
						ctx, cancel = context.WithCancel(t.Context())
						time.AfterFunc(2*time.Millisecond, cancel)
					}
					req := testkit.RequestTo(t, "PUT", url, source).WithContext(ctx)
					_, err := (&Transport{Base: base}).RoundTrip(req)
					requireEnd(t, ctx, err)
					cancel()
					_ = w.Close()
				}
			})
		}
	}
}
