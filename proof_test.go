package retrip_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
)

// dialError is what net/http returns for a connection that can't be made.
var dialError = &net.OpError{Op: "dial", Net: "tcp", Err: socketerr.ConnRefused}

// breaking gives some bytes and then an error that looks like a failed dial.
func breaking() io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<16)), brokenReader{}))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, dialError }

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
			req.Body = io.NopCloser(io.MultiReader(req.Body, brokenReader{}))
			req.ContentLength = -1
		}},
		"around an opaque one": {bytesReader{strings.NewReader("order")}, func(req *http.Request) {
			req.Body = io.NopCloser(io.MultiReader(req.Body, brokenReader{}))
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
			req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, row.body)
			require.NoError(t, err)
			_, err = transport.RoundTrip(req)
			require.ErrorIs(t, err, socketerr.ConnRefused)
			server.CloseClientConnections()
			require.LessOrEqual(t, posts.Load(), int32(1), "POSTs that the server saw")
		})
	}
}

// A copy of the body for the retry fails where the first, in memory, did not.
func TestErrorOfAReopenedBodyProvesNothing(t *testing.T) {
	var sent atomic.Int32
	transport := &retrip.Transport{Strategy: immediately(), Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if sent.Add(1) == 1 {
			return nil, dialError // proof: the body was not read
		}
		_, err := io.Copy(io.Discard, req.Body)
		return nil, err
	})}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.com/", strings.NewReader("order"))
	require.NoError(t, err)
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(brokenReader{}), nil }
	_, err = transport.RoundTrip(req)
	require.ErrorIs(t, err, retrip.ErrNotIdempotent)
	require.EqualValues(t, 2, sent.Load())
}

// A dial that failed is proof whatever body waits for it, also one that Prepare
// has put there.
func TestFailedDialIsProofUnderPrepare(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"none": nil, "in memory": strings.NewReader("order"), "opaque": bytesReader{strings.NewReader("order")},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			transport := &retrip.Transport{Strategy: immediately(),
				Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					sent++
					if sent < 3 {
						require.NoError(t, req.Body.Close())
						return nil, dialError
					}
					got, err := io.ReadAll(req.Body)
					require.NoError(t, err)
					require.Equal(t, "signed", string(got))
					require.NoError(t, req.Body.Close())
					return answerWith(req, 200, ""), nil
				}),
				Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
					if req.Body != nil {
						require.NoError(t, req.Body.Close())
					}
					req.Body, req.ContentLength = io.NopCloser(bytes.NewReader([]byte("signed"))), 6
					return nil
				},
			}
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.com/", body)
			require.NoError(t, err)
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
		transport := &retrip.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			return nil, err
		})}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://example.com/", failingReader{failure})
		require.NoError(t, err)
		_, err = transport.RoundTrip(req)
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
		Base:     roundTrip(func(*http.Request) (*http.Response, error) { return nil, failure }),
	}}
	_, err := client.Get("http://example.com/")
	require.ErrorIs(t, err, retrip.ErrWaitOverDeadline)
	require.ErrorIs(t, err, failure)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// A bytesReader hides what else a reader can do.
type bytesReader struct{ io.Reader }

// immediately is the standard mode without backoff.
func immediately() *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff, s.ThrottleBackoff = retrip.Constant{}, nil
	return s
}
