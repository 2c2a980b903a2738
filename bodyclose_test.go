package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Who closes a body, and when: every body is closed once, whatever bases and
// sources do.

// The request body is closed once, by the code that gets it.
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
					bodies := testkit.Reopener{Content: "body"}
					body, _ := bodies.Open()
					req := newRequest(t, "PUT", body)
					if getBody {
						req.GetBody = bodies.Open
					}
					_, _ = (&Transport{Base: script(steps...)}).RoundTrip(req)
					for _, body := range bodies.Opened {
						require.Equal(t, 1, body.Closes())
					}
					require.Equal(t, body, req.Body, "the caller's request keeps its body")
				})
			})
		}
	}
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
			time.Sleep(time.Hour) // in the bubble's time: the base is slow to notice
			return nil, errors.Join(context.Cause(req.Context()), req.Body.Close())
		})
		time.AfterFunc(2*time.Second, func() { assert.Equal(t, 1, source.Closes()) })
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", source).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, 1, source.Closes())
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
	source, file := opaque("body"), testkit.OpenFile(t, "body", 0)
	for _, body := range []io.Reader{source, file} {
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", body))
		require.NoError(t, err)
	}
	require.Equal(t, 1, source.Closes())
	testkit.Eventually(t, func() bool { return testkit.Closed(file) }, "the close of the file")
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

// A response body that panics while it is discarded is closed.
func TestBodyThatPanicsWhileDiscardedIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &testkit.Body{ReadCloser: io.NopCloser(testkit.ReaderFunc(func([]byte) (int, error) { panic("on fire") }))}
		n := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			if n++; n > 1 {
				return status(200)(req)
			}
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: body, ContentLength: -1, Request: req}, nil
		})
		_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, body.Closes())
	})
}

type closePanics struct{ io.Reader }

func (closePanics) Close() error { panic("close on fire") }

// A source whose Close panics does not take the process along.
func TestSourceWhoseClosePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rt := range []http.RoundTripper{
			&Transport{Base: script(status(200))},
			&Transport{Base: step(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Body: closePanics{iotest.ErrReader(io.EOF)}, ContentLength: -1}, nil
			}), Strategy: noWait()},
		} {
			_, err := rt.RoundTrip(newRequest(t, "PUT", closePanics{strings.NewReader("x")}))
			require.NoError(t, err)
			synctest.Wait() // until the goroutines that closed have ended: a panic in one would end the process
		}
	})
}

// A stalled error body delays a retry by no more than the backoff, whether or
// not it is looked into, and is closed.
func TestStalledErrorBodies(t *testing.T) {
	for _, contentType := range []string{"text/plain", "application/json", "application/xml"} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			defer func() { _ = w.Close() }()
			body := &testkit.Body{ReadCloser: r}
			base := script(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1}, nil
			}, status(200))
			s := Standard()
			s.Backoff = Constant{Wait: time.Second}
			ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
			defer cancel()
			resp, err := get(ctx, &Transport{Base: base, Strategy: s})
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, milliseconds(1000), base.Waits(), contentType)
			synctest.Wait()
			require.Equal(t, 1, body.Closes())
		})
	}
}

// A caller may use its request again once RoundTrip has returned an error, while
// the base still has the body of the first time.
func TestRequestIsUsedAgainWithAnotherBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late io.ReadCloser
		base := step(func(req *http.Request) (*http.Response, error) {
			late = req.Body
			return nil, &baseError{"no"}
		})
		first, second := opaque("first"), opaque("second")
		req := newRequest(t, "PUT", first)
		req.ContentLength = 5
		_, err := (&Transport{Base: base}).RoundTrip(req)
		require.Error(t, err)
		req.Body, req.ContentLength = second, 6
		got, err := io.ReadAll(late)
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
		require.NoError(t, late.Close())
		synctest.Wait()
		require.Equal(t, 1, first.Closes())
		require.Zero(t, second.Closes())
	})
}

// A source whose Read ends its goroutine, as t.FailNow does.
func TestSourceThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := testkit.ReaderFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })
		_, err := (&Transport{Base: script(status(200)), Strategy: noWait()}).RoundTrip(newRequest(t, "PUT", src))
		require.ErrorContains(t, err, "ended its goroutine")
	})
}
