package retrip_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// breaking gives some bytes and then an error that looks like a failed dial.
func breaking() io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<16)), iotest.ErrReader(dialError)))
}

// The error of a request body is no proof that nothing was sent, whatever it
// looks like and whoever put the body there: the server has seen the beginning
// of each attempt.
func TestErrorOfABodyProvesNothing(t *testing.T) {
	type change = func(*http.Request)
	getBroken := func() (io.ReadCloser, error) { return breaking(), nil }
	rows := map[string]struct {
		body    io.Reader
		prepare change
	}{
		"of the caller, opaque": {body: breaking()},
		"in place of one that is in memory": {strings.NewReader("order"), func(req *http.Request) {
			req.Body, req.GetBody, req.ContentLength = breaking(), getBroken, -1
		}},
		"in place of none": {nil, func(req *http.Request) { req.Body, req.GetBody, req.ContentLength = breaking(), getBroken, -1 }},
		"around one that is in memory": {strings.NewReader("order"), func(req *http.Request) {
			req.Body = io.NopCloser(io.MultiReader(req.Body, iotest.ErrReader(dialError)))
			req.ContentLength = -1
		}},
		"around an opaque one": {testkit.OnlyReader(strings.NewReader("order")), func(req *http.Request) {
			req.Body = io.NopCloser(io.MultiReader(req.Body, iotest.ErrReader(dialError)))
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
			}))
			defer server.Close()
			transport := &retrip.Transport{Strategy: immediately()}
			defer transport.CloseIdleConnections()
			if row.prepare != nil {
				transport.Prepare = func(req *http.Request, _ retrip.PrepareInfo) error { row.prepare(req); return nil }
			}
			req := testkit.RequestTo(t, "POST", server.URL, row.body)
			_, err := transport.RoundTrip(req)
			require.ErrorIs(t, err, socketerr.ConnRefused)
			server.CloseClientConnections()
			require.LessOrEqual(t, posts.Load(), int32(1), "POSTs that the server saw")
		})
	}
}

// A copy of the body for the retry fails where the first, in memory, did not.
func TestErrorOfAReopenedBodyProvesNothing(t *testing.T) {
	var sent atomic.Int32
	transport := &retrip.Transport{Strategy: immediately(), Base: step(func(req *http.Request) (*http.Response, error) {
		if sent.Add(1) == 1 {
			return nil, dialError // proof: the body was not read
		}
		_, err := io.Copy(io.Discard, req.Body)
		return nil, err
	})}
	req := newRequest(t, "POST", strings.NewReader("order"))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(dialError)), nil }
	_, err := transport.RoundTrip(req)
	require.ErrorIs(t, err, retrip.ErrNotIdempotent)
	require.EqualValues(t, 2, sent.Load())
}

// A dial that failed is proof whatever body waits for it, also one that Prepare
// has put there.
func TestFailedDialIsProofUnderPrepare(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"none": nil, "in memory": strings.NewReader("order"), "opaque": testkit.OnlyReader(strings.NewReader("order")),
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			transport := &retrip.Transport{Strategy: immediately(),
				Base: step(func(req *http.Request) (*http.Response, error) {
					sent++
					if sent < 3 {
						require.NoError(t, req.Body.Close())
						return nil, dialError
					}
					got, err := io.ReadAll(req.Body)
					require.NoError(t, err)
					require.Equal(t, "signed", string(got))
					require.NoError(t, req.Body.Close())
					return answer(200, "")(req)
				}),
				Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
					if req.Body != nil {
						require.NoError(t, req.Body.Close())
					}
					req.Body, req.ContentLength = io.NopCloser(bytes.NewReader([]byte("signed"))), 6
					return nil
				},
			}
			req := newRequest(t, "POST", body)
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 3, sent)
		})
	}
}

// A request whose own body failed is not idempotent whatever its method. The
// caller gets the error as the base returned it.
func TestErrorOfTheCallersBodyIsReturnedAsItIs(t *testing.T) {
	failure := errors.New("the disk is gone")
	for _, method := range []string{"PUT", "POST"} {
		transport := &retrip.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			return nil, err
		})}
		req := newRequest(t, method, iotest.ErrReader(failure))
		_, err := transport.RoundTrip(req)
		require.True(t, err == failure, "%s: %v", method, err)
	}
}

// A wait that would outlive the deadline ends the request as the deadline
// itself would have, only sooner.
func TestFailingFastForADeadlineIsATimeout(t *testing.T) {
	failure := errors.New("connection lost")
	s := retrip.Standard()
	s.Backoff = retrip.Constant{Wait: time.Hour}
	client := &http.Client{Timeout: time.Minute, Transport: &retrip.Transport{
		Strategy: s,
		Base:     step(func(*http.Request) (*http.Response, error) { return nil, failure }),
	}}
	_, err := client.Get("http://example.com/")
	require.ErrorIs(t, err, retrip.ErrWaitOverDeadline)
	require.ErrorIs(t, err, failure)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}

// A file that can't be read fails every attempt alike, and the caller gets the
// error as the base returned it.
func TestErrorOfAFileProvesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(path, []byte("order"), 0o600))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	sent := 0
	var failure error
	transport := &retrip.Transport{Strategy: immediately(), Base: step(func(req *http.Request) (*http.Response, error) {
		sent++
		_, failure = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return nil, failure
	})}
	req := newRequest(t, "PUT", file)
	_, err = transport.RoundTrip(req)
	require.Error(t, err)
	require.True(t, err == failure, "%v", err)
	require.Equal(t, 1, sent)
	require.ErrorIs(t, file.Close(), os.ErrClosed)
}

// The base may send a copy of the body that Prepare put there. Its error is no
// proof either.
func TestErrorOfACopyProvesNothing(t *testing.T) {
	sent := 0
	transport := &retrip.Transport{
		Strategy: immediately(),
		Base: step(func(req *http.Request) (*http.Response, error) {
			sent++
			require.NoError(t, req.Body.Close())
			another, err := req.GetBody()
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, another)
			require.NoError(t, another.Close())
			return nil, err
		}),
		Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
			req.Body, req.ContentLength = breaking(), -1
			req.GetBody = func() (io.ReadCloser, error) { return breaking(), nil }
			return nil
		},
	}
	req := newRequest(t, "POST", nil)
	_, err := transport.RoundTrip(req)
	require.ErrorIs(t, err, error(dialError))
	require.Equal(t, 1, sent)
}

// unread plays its steps without reading the request's body.
func unread(steps ...step) step {
	n := 0
	return func(req *http.Request) (*http.Response, error) {
		n++
		return steps[n-1](req)
	}
}

// A body from GetBody that was not read did not fail: a failed dial of a retry
// proves that nothing was sent.
func TestFailedDialIsProofAfterGetBody(t *testing.T) {
	base := testkit.Count(unread(answer(429, ""), fails(dialError), answer(200, "")))
	req := newRequest(t, "POST", strings.NewReader("order"))
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(testkit.OnlyReader(strings.NewReader("order"))), nil
	}
	resp, err := (&retrip.Transport{Strategy: immediately(), Base: base}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 3, base.Calls())
}

// A dial error may be the body's own: no proof that nothing was sent.
func TestDialErrorOfTheBody(t *testing.T) {
	for _, getBody := range []bool{false, true} {
		open := func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(dialError)), nil }
		body, _ := open()
		req := newRequest(t, "POST", body)
		if getBody {
			req.GetBody = open
		}
		base := testkit.Count(script(status(200)))
		_, err := (&retrip.Transport{Strategy: immediately(), Base: base}).RoundTrip(req)
		require.ErrorIs(t, err, error(dialError))
		require.Equal(t, 1, base.Calls())
	}
}

// A part of what is in memory can't fail either: a dial error is not its own.
func TestPartOfMemoryIsInMemory(t *testing.T) {
	for name, source := range map[string]io.Reader{
		"all":  strings.NewReader("body"),
		"part": io.LimitReader(strings.NewReader("body"), 3),
	} {
		req := newRequest(t, "POST", nil)
		req.Body = io.NopCloser(source)
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		base := unread(fails(dialError), status(200))
		resp, err := (&retrip.Transport{Strategy: immediately(), Base: base}).RoundTrip(req)
		require.NoError(t, err, name)
		require.Equal(t, 200, resp.StatusCode)
	}
}

// The error of a body that the base opened itself proves nothing either, also in
// a retry: net/http opens one when a connection turns out to be stale.
func TestErrorOfACopyProvesNothingInARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req, opened := newRequest(t, "POST", nil), 0
		req.Body = io.NopCloser(testkit.OnlyReader(strings.NewReader("abc")))
		req.GetBody = func() (io.ReadCloser, error) {
			if opened++; opened == 1 {
				return io.NopCloser(testkit.OnlyReader(strings.NewReader("abc"))), nil
			}
			gone := &net.OpError{Op: "dial", Err: errors.New("source gone")}
			return io.NopCloser(io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(gone))), nil
		}
		calls := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			calls++
			if calls == 1 {
				_, _ = io.Copy(io.Discard, req.Body)
				_ = req.Body.Close()
				return status(429)(req)
			}
			_ = req.Body.Close()
			again, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			defer again.Close()
			_, err = io.ReadAll(again) // and sent
			return nil, err
		})
		s := immediately(func(s *retrip.Strategy) { s.MaxAttempts = 5 })
		_, err := (&retrip.Transport{Base: base, Strategy: s}).RoundTrip(req)
		require.ErrorContains(t, err, "source gone")
		require.Equal(t, 2, calls)
	})
}
