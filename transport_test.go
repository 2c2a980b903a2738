package retrip

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/socketerr"
)

func TestRetriesUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503), fails(errReset), status(200))
		s := longest(Standard())
		resp, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, milliseconds(100, 200), base.Waits())
		require.Equal(t, 495, s.tokens(), "two retries took 5 each, the last one's came back")
		base.RequireClosed(t, 0)
	})
}

func TestLastResponseIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(500), status(502), answer(503, "the server's words"))
		req := newRequest(t, "GET", nil)
		resp, err := (&Transport{Base: base}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Same(t, req, resp.Request)
		synctest.Wait() // for what is done on the side
		require.Zero(t, base.Bodies()[2].Closes())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "the server's words", string(body))
		require.NoError(t, resp.Body.Close())
		require.Len(t, base.Sent(), 3)
		base.RequireClosed(t, 0)
	})
}

func TestLastErrorNamesAttemptsAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := get(t.Context(), &Transport{Base: script(status(503), fails(errReset))})
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 3, e.Attempts)
		require.ErrorIs(t, err, ErrAttemptsExhausted)
		require.NotErrorIs(t, err, ErrQuotaExhausted)
		require.ErrorIs(t, err, socketerr.ConnReset)
		require.False(t, e.Timeout())
		require.EqualError(t, err, "retrip: attempts exhausted after 3 attempts: read tcp: connection reset by peer")
	})
}

func TestHopelessErrorIsReturnedAsItCame(t *testing.T) {
	notFound := &net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true}
	base := script(fails(notFound))
	_, err := get(t.Context(), &Transport{Base: base})
	require.Same(t, notFound, err)
	require.Len(t, base.Sent(), 1)
}

// A hopeless error after a retry tells that there was one.
func TestHopelessErrorAfterARetry(t *testing.T) {
	_, err := get(t.Context(), &Transport{Base: script(status(503), fails(x509.UnknownAuthorityError{})), Strategy: noWait()})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 2, e.Attempts)
	require.Equal(t, NotRetryable, e.Reason)
}

func TestCancelDuringWait(t *testing.T) {
	cause := errors.New("the user closed the window")
	for _, first := range []step{status(503), fails(errReset)} {
		synctest.Test(t, func(t *testing.T) {
			base := script(first)
			s := longest(Standard())
			s.Backoff = Constant{Wait: time.Hour}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := get(ctx, &Transport{Base: base, Strategy: s})
			require.Equal(t, time.Second, time.Since(start), "it returns at once")
			require.ErrorIs(t, err, ErrCancelled)
			require.ErrorIs(t, err, cause)
			require.ErrorIs(t, err, context.Canceled)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.True(t, e.Status == 503 || errors.Is(err, socketerr.ConnReset), "the last failure is reachable")
			require.Equal(t, 500, s.tokens(), "the tokens are back")
			base.RequireClosed(t, 0)
		})
	}
}

func TestRequestCancelDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Backoff = Constant{Wait: time.Hour}
		req := newRequest(t, "GET", nil)
		cancel := make(chan struct{})
		//lint:ignore SA1019 what http.Client.Timeout still uses over us
		req.Cancel = cancel
		time.AfterFunc(time.Second, func() { close(cancel) })
		start := time.Now()
		_, err := (&Transport{Base: script(status(503)), Strategy: s}).RoundTrip(req)
		require.ErrorIs(t, err, ErrCancelled)
		require.Equal(t, time.Second, time.Since(start), "it returns at once")
	})
}

func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Backoff = Constant{Wait: time.Minute}
		client := &http.Client{Transport: &Transport{Base: script(status(503)), Strategy: s}, Timeout: time.Second}
		resp, err := client.Get("https://example.com/")
		require.NoError(t, err, "the wait would outlive the client's timeout: here is the answer")
		require.Equal(t, 503, resp.StatusCode)

		client.Transport = &Transport{Base: script(hangs())}
		_, err = client.Get("https://example.com/")
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWaitBeyondDeadlineFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		s := Standard()
		resp, err := get(ctx, &Transport{Base: script(status(503, "Retry-After: 2")), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Zero(t, time.Since(start))
		require.Equal(t, 500, s.tokens(), "the quota is asked last")

		s.Backoff = Constant{Wait: 2 * time.Second}
		_, err = get(ctx, &Transport{Base: script(fails(errReset)), Strategy: s})
		require.ErrorIs(t, err, ErrWaitOverDeadline)
		require.ErrorIs(t, err, socketerr.ConnReset)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.Timeout())
	})
}

func TestBaseThatBreaksItsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(func(*http.Request) (*http.Response, error) { return nil, nil })
		_, err := get(t.Context(), &Transport{Base: base})
		require.EqualError(t, err, "retrip: the base RoundTripper returned neither a response nor an error")
		require.Len(t, base.Sent(), 1)

		base = script(func(req *http.Request) (*http.Response, error) {
			resp, _ := status(500)(req)
			return resp, errReset
		}, status(200))
		resp, err := get(t.Context(), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		base.RequireClosed(t, 0)

		for _, code := range []int{200, 503} {
			resp, err = (&Transport{Base: step(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: code}, nil
			}), AttemptTimeout: time.Second}).RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
		}
	})
}

type idleCloser struct {
	http.RoundTripper
	closed int
}

func (c *idleCloser) CloseIdleConnections() { c.closed++ }

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	base := &idleCloser{RoundTripper: script(status(200))}
	transport := &Transport{Base: base}
	(&http.Client{Transport: transport}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	require.Same(t, base, transport.Unwrap())
	(&Transport{Base: script(status(200))}).CloseIdleConnections() // has none, and that is fine
}

func TestDefaultBaseIsNobodyElses(t *testing.T) {
	a, b := &Transport{}, &Transport{}
	require.NotSame(t, a.Unwrap(), b.Unwrap())
	require.NotSame(t, http.DefaultTransport, a.Unwrap())
	require.Same(t, a.Unwrap(), a.Unwrap())
}

func TestRedirectsAreTheClients(t *testing.T) {
	base := script(status(307, "Location: https://example.com/there"), status(200))
	asked := 0
	client := &http.Client{Transport: &Transport{Base: base}, CheckRedirect: func(*http.Request, []*http.Request) error {
		asked++
		return nil
	}}
	resp, err := client.Post("https://example.com/here", "text/plain", bytes.NewReader([]byte("body")))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 1, asked)
	require.Equal(t, "body", base.Sent()[1].Content)
}
