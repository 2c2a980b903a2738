package retrip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// Who closes a body, and what is let go of when: with Prepare, bases and sources
// that do as they please.

// A progress wraps a body, as a Prepare that measures or limits does.
type progress struct {
	io.ReadCloser
	n int
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.n += n
	return n, err
}

// Prepare wraps the body. It is closed once, and the request succeeds.
func TestPrepareMayWrapABody(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	}))
	defer srv.Close()
	f := testkit.OpenFile(t, "content", 0)
	req, _ := http.NewRequest("PUT", srv.URL, f)
	req.ContentLength = 7
	req.GetBody = func() (io.ReadCloser, error) { return os.Open(f.Name()) }
	tr := &Transport{Strategy: noWait(), Prepare: func(out *http.Request, _ PrepareInfo) error {
		out.Body = &progress{ReadCloser: out.Body}
		return nil
	}}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "content", string(b))
	_ = resp.Body.Close()
}

func TestPrepareThatWrapsABodyClosesItOnce(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		var bodies []*testkit.Body
		open := func() (io.ReadCloser, error) {
			bodies = append(bodies, opaque("body"))
			return bodies[len(bodies)-1], nil
		}
		body, _ := open()
		req := newRequest(t, "PUT", body)
		req.GetBody = open
		ctx := WithMaxAttempts(req.Context(), attempts)
		base := script(status(503), status(200))
		_, err := (&Transport{Base: base, Strategy: noWait(), Prepare: func(out *http.Request, _ PrepareInfo) error {
			out.Body = &progress{ReadCloser: out.Body}
			return nil
		}}).RoundTrip(req.WithContext(ctx))
		require.NoError(t, err)
		for i, b := range bodies {
			require.Equal(t, 1, b.Closes(), "attempts %d, body %d", attempts, i)
		}
	}
}

// The caller's body is closed with the one that Prepare made of it, also if
// that one's Close does not pass it on and the server answers before it is read.
func TestPrepareThatWrapsABodyWithoutItsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := opaque("body")
		_, err := (&Transport{
			Base: step(func(req *http.Request) (*http.Response, error) {
				_ = req.Body.Close()
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			}),
			Prepare: func(out *http.Request, _ PrepareInfo) error {
				out.Body = io.NopCloser(out.Body)
				return nil
			},
		}).RoundTrip(newRequest(t, "PUT", source))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, source.Closes())
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

// Prepare reads the body itself, replaces it, and forgets a copy.
func TestPrepareThatReadsABodyAndForgetsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := opaque("body")
		_, err := (&Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) error {
			_, _ = req.GetBody() // forgotten
			b, _ := io.ReadAll(req.Body)
			_ = req.Body.Close()
			req.Body = io.NopCloser(bytes.NewReader(b))
			return nil
		}}).RoundTrip(newRequest(t, "PUT", src))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, src.Closes())
	})
}

// What an earlier attempt has read is freed as the last one reads it, also if
// it was answered before that.
func TestCaptureIsFreedAsTheLastAttemptReadsIt(t *testing.T) {
	const each, requests = 1 << 20, 20
	testkit.HeapInUse() // what others left behind takes a second collection
	before := testkit.HeapInUse()
	content, buffer := make([]byte, each), make([]byte, each)
	for range requests {
		r, w := io.Pipe()
		go func() { _, _ = w.Write(content) }()
		first := true
		var body io.ReadCloser
		base := step(func(req *http.Request) (*http.Response, error) {
			if first {
				first = false
				_, _ = io.ReadFull(req.Body, buffer)
				return status(503)(req)
			}
			body = req.Body
			return status(200)(req)
		})
		_, err := (&Transport{Base: base, Strategy: noWait(), ReplayBuffer: 2 * each}).RoundTrip(newRequest(t, "PUT", r))
		require.NoError(t, err)
		_, err = io.ReadFull(body, buffer)
		require.NoError(t, err)
		defer body.Close()
		go func() { _, _ = body.Read(make([]byte, 1)) }() // waits for more
	}
	require.Eventually(t, func() bool { return (testkit.HeapInUse()-before)/requests < each/4 }, 5*time.Second, time.Millisecond)
}

// A source whose Read ends its goroutine, as t.FailNow does.
func TestSourceThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := testkit.ReaderFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })
		_, err := (&Transport{Base: script(status(200)), Strategy: noWait()}).RoundTrip(newRequest(t, "PUT", src))
		require.ErrorContains(t, err, "ended its goroutine")
	})
}

// A body that Prepare put in place is closed if Prepare then fails.
func TestPrepareThatFailsAfterReplacingABody(t *testing.T) {
	repl := opaque("x")
	_, err := (&Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) error {
		req.Body = repl
		return errors.New("no key")
	}}).RoundTrip(newRequest(t, "PUT", opaque("body")))
	require.ErrorIs(t, err, ErrPrepareFailed)
	require.Equal(t, 1, repl.Closes())
}

// File read to the end by a base and left open.
func TestBaseForgetsACopyOfAFile(t *testing.T) {
	base := step(func(req *http.Request) (*http.Response, error) {
		dump, err := req.GetBody()
		require.NoError(t, err)
		_, err = io.ReadAll(dump)
		require.NoError(t, err)
		return script(status(200)).RoundTrip(req)
	})
	f := testkit.OpenFile(t, "content", 0)
	_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", f))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := f.Stat(); return errors.Is(err, os.ErrClosed) }, 5*time.Second, time.Millisecond)
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
