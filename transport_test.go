package retrip

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRetriesUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503), fails(errReset), status(200))
		s := longest(Standard())
		resp, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, milliseconds(100, 200), base.waits())
		require.Equal(t, 495, s.tokens(), "two retries took 5 each, the last one's came back")
		base.requireClosed(t, 0)
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
		require.Zero(t, base.bodies[2].closes())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "the server's words", string(body))
		require.NoError(t, resp.Body.Close())
		require.Len(t, base.sent(), 3)
		base.requireClosed(t, 0)
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
	require.Len(t, base.sent(), 1)
}

// A hopeless error after a retry tells that there was one.
func TestHopelessErrorAfterARetry(t *testing.T) {
	_, err := get(t.Context(), &Transport{Base: script(status(503), fails(x509.UnknownAuthorityError{})), Strategy: noWait()})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 2, e.Attempts)
	require.Equal(t, NotRetryable, e.Reason)
}

// What may be sent twice, by method, promise and proof.
func TestSafety(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: socketerr.ConnRefused}
	tests := []struct {
		name   string
		method string
		header string
		ctx    func(context.Context) context.Context
		all    bool
		first  step
		retry  bool
	}{
		{name: "GET, server error", method: "GET", first: status(500), retry: true},
		{name: "no method is GET", method: "", first: status(500), retry: true},
		{name: "HEAD", method: "HEAD", first: status(500), retry: true},
		{name: "OPTIONS", method: "OPTIONS", first: status(500), retry: true},
		{name: "TRACE", method: "TRACE", first: status(500), retry: true},
		{name: "PUT", method: "PUT", first: status(500), retry: true},
		{name: "DELETE", method: "DELETE", first: fails(errReset), retry: true},
		{name: "QUERY", method: "QUERY", first: status(500), retry: true},
		{name: "lower case is another method", method: "get", first: status(500)},
		{name: "POST, server error", method: "POST", first: status(500)},
		{name: "POST, service unavailable", method: "POST", first: status(503)},
		{name: "POST, request timeout", method: "POST", first: status(408)},
		{name: "POST, reset", method: "POST", first: fails(errReset)},
		{name: "POST, timeout", method: "POST", first: fails(&AttemptTimeoutError{time.Second})},
		{name: "PATCH, server error", method: "PATCH", first: status(500)},
		{name: "CONNECT", method: "CONNECT", first: status(500)},
		{name: "POST, not connected", method: "POST", first: fails(refused), retry: true},
		{name: "POST, proxy not connected", method: "POST", first: fails(&net.OpError{Op: "proxyconnect", Err: socketerr.ConnRefused}), retry: true},
		{name: "POST, connected and reset", method: "POST", first: fails(&net.OpError{Op: "read", Err: socketerr.ConnReset})},
		{name: "POST, too early", method: "POST", first: status(425), retry: true},
		{name: "POST, too many", method: "POST", first: status(429), retry: true},
		{name: "POST, throttling code", method: "POST", first: jsonError(400, "ThrottlingException"), retry: true},
		{name: "POST, transient code", method: "POST", first: jsonError(400, "RequestTimeout")},
		{name: "POST, throttling code under 503", method: "POST", first: jsonError(503, "SlowDown"), retry: true},
		{name: "POST with key", method: "POST", header: "Idempotency-Key", first: status(500), retry: true},
		{name: "POST with other key", method: "POST", header: "X-Idempotency-Key", first: fails(errReset), retry: true},
		{name: "POST of an AWS SDK", method: "POST", header: "Amz-Sdk-Invocation-Id", first: status(500), retry: true},
		{name: "POST declared", method: "POST", ctx: WithIdempotent, first: fails(errReset), retry: true},
		{name: "POST, all declared", method: "POST", all: true, first: status(500), retry: true},
		{name: "POST, refused stream", method: "POST", first: fails(&wrapped{"", http2StreamError{Code: refusedStream}}), retry: true},
		{name: "POST, stream cancelled", method: "POST", first: fails(&wrapped{"", http2StreamError{Code: 0x8}})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(tt.first, status(200))
				s := Standard()
				s.RetryNonIdempotent = tt.all
				ctx, trace := WithTrace(t.Context())
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				req := newRequest(t, "GET", strings.NewReader("body")).WithContext(ctx)
				req.Method = tt.method
				if tt.header != "" {
					req.Header.Set(tt.header, "1")
				}
				resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req)
				if tt.retry {
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.Len(t, base.sent(), 2)
					require.Equal(t, "body", base.sent()[1].body)
				} else {
					require.Len(t, base.sent(), 1)
					require.Equal(t, NotIdempotent, trace.Requests()[0][0].Reason)
				}
			})
		})
	}
}

// A rule that calls a status throttled is no proof that nothing was processed.
// A 5xx may come after the work was done, whatever it is called. A 4xx refused
// the request, and Throttled says that it did so for its number.
func TestThrottledByStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Classifiers = append([]Classifier{On(Throttled, StatusIs(403, 503))}, s.Classifiers...)
		for first, want := range map[int]int{503: 503, 403: 200} {
			base := script(jsonError(first, "InternalError"), status(200))
			resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "POST", nil))
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
		}
	})
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
			base.requireClosed(t, 0)
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

func TestServerDirectedWaits(t *testing.T) {
	tests := []struct {
		name    string
		headers []string
		waits   []time.Duration // what passes between attempts; none: given up at once
	}{
		{"longer than the backoff", []string{"Retry-After: 7"}, milliseconds(7000, 7000)},
		{"shorter than the backoff", []string{"Retry-After: 0"}, milliseconds(100, 200)},
		{"above the cap", []string{"Retry-After: 61"}, nil},
		{"the sum above the cap", []string{"Retry-After: 31"}, milliseconds(31000)},
		{"overflowing", []string{"Retry-After: 9223372037"}, nil},
		{"overflowing any integer", []string{"Retry-After: 99999999999999999999999"}, nil},
		{"year 9999", []string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}, nil},
		{"negative", []string{"Retry-After: -1"}, milliseconds(100, 200)},
		{"exponent", []string{"Retry-After: 1e400"}, milliseconds(100, 200)},
		{"garbage", []string{"Retry-After: soon"}, milliseconds(100, 200)},
		{"milliseconds win", []string{"Retry-After: 7", "Retry-After-Ms: 1500.5"}, []time.Duration{1500500 * time.Microsecond, 1500500 * time.Microsecond}},
		{"AWS clamp", []string{"X-Amz-Retry-After: 10000"}, milliseconds(5100, 5200)},
		{"two hundred of them", strings.Split(strings.Repeat("Retry-After: 3\n", 199)+"Retry-After: 3", "\n"), milliseconds(3000, 3000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(status(503, tt.headers...))
				resp, err := get(t.Context(), &Transport{Base: base, Strategy: longest(Standard())})
				require.NoError(t, err)
				require.Equal(t, 503, resp.StatusCode)
				require.Equal(t, tt.waits, base.waits())
			})
		})
	}
}

func TestHintIsToldWhenItIsWhyWeStop(t *testing.T) {
	ctx, trace := WithTrace(t.Context())
	_, err := get(ctx, &Transport{Base: script(status(429, "Retry-After: 3600"))})
	require.NoError(t, err)
	e := trace.Requests()[0][0]
	require.Equal(t, WaitOverCap, e.Reason)
	require.Equal(t, time.Hour, e.Wait)
	require.Equal(t, "Retry-After", e.WaitFrom)
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
		require.Len(t, base.sent(), 1)
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
			time.Sleep(time.Hour)
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

type upgraded struct{ io.ReadWriteCloser }

func TestUpgradedBodyStaysWritable(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"without timeout": 0, "with timeout": time.Minute} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			base := roundTripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: upgraded{a}}, nil
			})
			resp, err := (&Transport{Base: base, AttemptTimeout: timeout}).RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			body, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok)
			go func() { _, _ = body.Write([]byte("hello")) }()
			got := make([]byte, 5)
			_, err = io.ReadFull(b, got)
			require.NoError(t, err)
			require.Equal(t, "hello", string(got))
			require.NoError(t, body.Close())
		})
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var preps []PrepareInfo
		base := script(status(503), jsonError(400, "Throttling"), status(200))
		transport := &Transport{Base: base, Prepare: func(req *http.Request, p PrepareInfo) error {
			preps = append(preps, p)
			req.Header.Add("Signature", p.Last.String())
			return nil
		}}
		req := newRequest(t, "PUT", strings.NewReader("body"))
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		require.Equal(t, []PrepareInfo{{Number: 1}, {Number: 2, Last: Transient}, {Number: 3, Last: Throttled}}, preps)
		for i, sent := range base.sent() {
			require.Equal(t, []string{preps[i].Last.String()}, sent.Header["Signature"], "nothing adds up over attempts")
			require.Equal(t, "body", sent.body)
		}
		require.Empty(t, req.Header, "the caller's request is untouched")
	})
}

func TestPrepareFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noKey := errors.New("no key")
		for _, failing := range []int{1, 2} {
			base := script(status(503))
			s := Adaptive()
			body := opaque("body")
			req := newRequest(t, "PUT", body)
			_, err := (&Transport{Base: base, Strategy: s, Prepare: func(_ *http.Request, p PrepareInfo) error {
				if p.Number == failing {
					return noKey
				}
				return nil
			}}).RoundTrip(req)
			require.ErrorIs(t, err, ErrPrepareFailed)
			require.ErrorIs(t, err, noKey)
			require.Len(t, base.sent(), failing-1)
			require.Equal(t, 500, s.tokens())
			require.Equal(t, 1, body.closes())
		}
	})
}

func TestStackedTransportsAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503))
		inner := &Transport{Base: base}
		outer := &Transport{Base: inner}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Len(t, base.sent(), 3+2)
	})
}

// The inner transport leaves the retrying to the outer one, and nothing else.
func TestInnerTransportStillDoesItsDuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503), status(503), status(503), hangs(), status(200))
		var observed int
		inner := &Transport{Base: base, AttemptTimeout: time.Second, Observe: func(Event) { observed++ },
			Prepare: func(req *http.Request, _ PrepareInfo) error {
				req.Header.Set("Authorization", "signed")
				return nil
			}}
		outer := &Transport{Base: inner, Prepare: func(req *http.Request, p PrepareInfo) error {
			req.URL.RawQuery = "attempt=" + strconv.Itoa(p.Number) // what marks a retry is what is sent
			return nil
		}}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, base.sent(), 3+2)
		require.Equal(t, 5, observed)
		for _, sent := range base.sent() {
			require.Equal(t, "signed", sent.Header.Get("Authorization"))
		}
	})
}

// A token fetched inside the base, with the same context, is another request.
func TestInnerRequestsKeepTheirRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := script(status(503), status(503), status(200))
		tokenClient := &Transport{Base: tokens}
		attempts := 0
		outer := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				return status(503)(req)
			}
			fetch, err := http.NewRequestWithContext(req.Context(), "GET", "https://example.com/token", nil)
			if err != nil {
				return nil, err
			}
			return tokenClient.RoundTrip(fetch)
		})}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, tokens.sent(), 3)
	})
}

func TestBaseThatBreaksItsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(func(*http.Request) (*http.Response, error) { return nil, nil })
		_, err := get(t.Context(), &Transport{Base: base})
		require.EqualError(t, err, "retrip: the base RoundTripper returned neither a response nor an error")
		require.Len(t, base.sent(), 1)

		base = script(func(req *http.Request) (*http.Response, error) {
			resp, _ := status(500)(req)
			return resp, errReset
		}, status(200))
		resp, err := get(t.Context(), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		base.requireClosed(t, 0)

		for _, code := range []int{200, 503} {
			resp, err = (&Transport{Base: roundTripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: code}, nil
			}), AttemptTimeout: time.Second}).RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
		}
	})
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*http.Request)
		want  string
	}{
		{"no URL", func(r *http.Request) { r.URL = nil }, "retrip: Request.URL is nil: build the request with http.NewRequestWithContext"},
		{"no header", func(r *http.Request) { r.Header = nil }, "retrip: Request.Header is nil: build the request with http.NewRequestWithContext"},
		{"no attempts", func(r *http.Request) { *r = *r.WithContext(WithMaxAttempts(r.Context(), 0)) }, "retrip: WithMaxAttempts got 0: use 1 or more"},
		{"odd strategy", func(r *http.Request) {
			*r = *r.WithContext(WithMaxAttempts(WithStrategy(WithMaxAttempts(r.Context(), 0), new(Strategy)), 2))
		}, "retrip: WithStrategy.MaxAttempts is 0: use 1 for no retries, or more\nretrip: WithStrategy.Backoff is nil: set it, or take a strategy from Standard() or another mode"},
		{"nil strategy", func(r *http.Request) { *r = *r.WithContext(WithStrategy(r.Context(), nil)) }, "retrip: WithStrategy is nil: use Standard() or another mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := script(status(200))
			body := opaque("body")
			req := newRequest(t, "POST", body)
			tt.spoil(req)
			_, err := (&Transport{Base: base}).RoundTrip(req)
			require.EqualError(t, err, tt.want)
			require.Empty(t, base.sent())
			require.Equal(t, 1, body.closes())
		})
	}
	_, err := (&Transport{}).RoundTrip(nil)
	require.ErrorContains(t, err, "request is nil")
}

func TestValidate(t *testing.T) {
	spoiled := func(spoil func(*Strategy)) *Transport {
		s := Adaptive()
		spoil(s)
		return &Transport{Strategy: s}
	}
	self := &Transport{}
	self.Base = self
	tests := []struct {
		transport *Transport
		want      string
	}{
		{&Transport{MaxKeys: -1}, "retrip: Transport.MaxKeys is -1: use 0 for 32768, or more"},
		{&Transport{AttemptTimeout: -1}, "retrip: Transport.AttemptTimeout is -1ns: use 0 for none, or more"},
		{&Transport{ReplayBuffer: -1}, "retrip: Transport.ReplayBuffer is -1: use 0 for 1048576, or more"},
		{&Transport{Base: (*http.Transport)(nil)}, "retrip: Transport.Base is a nil *http.Transport: leave the field nil, or set the transport to wrap"},
		{&Transport{Base: roundTripFunc(nil)}, "retrip: Transport.Base is a nil retrip.roundTripFunc: leave the field nil, or set the transport to wrap"},
		{self, "retrip: Transport.Base is the Transport itself: leave it nil, or set the transport to wrap"},
		{&Transport{Strategy: Standard(), PerKey: func(string) *Strategy { return nil }}, "retrip: Transport.Strategy and PerKey are both set: leave one nil"},
		{&Transport{Strategy: &Strategy{}}, "retrip: Transport.Strategy.MaxAttempts is 0: use 1 for no retries, or more\nStrategy.Backoff is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.MaxRetryAfter = -1 }), "retrip: Transport.Strategy.MaxRetryAfter is -1ns: use 0 or more"},
		{spoiled(func(s *Strategy) { s.MinSkew = -1 }), "retrip: Transport.Strategy.MinSkew is -1ns: use 0 for more than 4 minutes, or more"},
		{spoiled(func(s *Strategy) { s.MaxLimiterWait = -1 }), "retrip: Transport.Strategy.MaxLimiterWait is -1ns: use 0 for no limit, or more"},
		{spoiled(func(s *Strategy) { s.Cost = -1 }), "retrip: Transport.Strategy.Cost is -1: use 0 for free retries, or more"},
		{spoiled(func(s *Strategy) { s.ThrottleCost = -1 }), "retrip: Transport.Strategy.ThrottleCost is -1: use 0 for free retries, or more"},
		{spoiled(func(s *Strategy) { s.Quota = NewBucket(-1) }), "retrip: Transport.Strategy.Quota has a capacity of -1: use 0 or more"},
		{spoiled(func(s *Strategy) { s.Quota = (*Bucket)(nil) }), "retrip: Transport.Strategy.Quota is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.Backoff = FullJitter{2, 1} }), "retrip: Transport.Strategy.Backoff starts at 2ns, above its cap of 1ns: lower the base or raise the cap"},
		{spoiled(func(s *Strategy) { s.ThrottleBackoff = Constant{Wait: -1} }), "retrip: Transport.Strategy.ThrottleBackoff waits -1ns, which is negative: use 0 or more"},
		{spoiled(func(s *Strategy) { s.Classifiers[0] = nil }), "retrip: Transport.Strategy.Classifiers[0] is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.Classifiers[0] = On(77, StatusIs(400)) }), "retrip: Transport.Strategy.Classifiers[0] has the class retrip.Class(77), which does not exist: use one of Success to Permanent"},
		{spoiled(func(s *Strategy) { s.Hints[0] = HintHeader{} }), "retrip: Transport.Strategy.Hints[0] has no header name: name the header to read"},
	}
	for _, tt := range tests {
		require.EqualError(t, tt.transport.Validate(), tt.want)
		if tt.transport == self {
			continue // sends nothing, and would not know where
		}
		base := script(status(200))
		if tt.transport.Base == nil {
			tt.transport.Base = base
		}
		_, err := get(t.Context(), tt.transport)
		require.EqualError(t, err, tt.want)
		require.Empty(t, base.sent())
	}
	require.NoError(t, (&Transport{}).Validate())
}

func TestNilStrategyFromPerKey(t *testing.T) {
	base := script(status(200))
	_, err := get(t.Context(), &Transport{Base: base, PerKey: func(key string) *Strategy {
		if key == "example.com" {
			return nil
		}
		return Standard()
	}})
	require.EqualError(t, err, `retrip: Transport.PerKey("example.com") is nil: use Standard() or another mode`)
	require.Empty(t, base.sent())
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

func TestOverridesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503))
		_, err := get(WithMaxAttempts(t.Context(), 5), &Transport{Base: base})
		require.NoError(t, err)
		require.Len(t, base.sent(), 5)

		base = script(status(503))
		_, err = get(WithMaxAttempts(t.Context(), 1), &Transport{Base: base})
		require.NoError(t, err)
		require.Len(t, base.sent(), 1)

		base = script(status(503))
		s := longest(Legacy())
		s.Backoff = Constant{Wait: time.Second}
		_, err = get(WithStrategy(t.Context(), s), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, milliseconds(1000, 1000, 1000), base.waits())
	})
}

// What a context says adds up.
func TestOverridesAddUp(t *testing.T) {
	base := script(status(503))
	ctx := WithMaxAttempts(WithIdempotent(WithStrategy(t.Context(), noWait())), 2)
	_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "POST", nil).WithContext(ctx))
	require.NoError(t, err)
	require.Len(t, base.sent(), 2)
}

func TestEventsAndTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Event
		transport := &Transport{
			Base:    script(status(429, "Retry-After: 2"), jsonError(400, "SlowDown"), fails(errReset), status(404)),
			PerKey:  func(string) *Strategy { s := longest(Standard()); s.MaxAttempts = 4; return s },
			Observe: func(e Event) { seen = append(seen, e) },
		}
		ctx, trace := WithTrace(t.Context())
		resp, err := get(ctx, transport)
		require.NoError(t, err)
		require.Equal(t, 404, resp.StatusCode)
		require.Equal(t, [][]Event{seen}, trace.Requests())

		type line struct {
			attempt, status, tokens int
			class                   Class
			code, from              string
			wait, elapsed           time.Duration
			reason                  Reason
			final                   bool
		}
		var lines []line
		for _, e := range seen {
			require.Equal(t, "example.com", e.Key)
			lines = append(lines, line{e.Attempt, e.Status, e.Tokens, e.Class, e.Code, e.WaitFrom, e.Wait, e.Elapsed, e.Reason, e.Final})
		}
		require.Equal(t, []line{
			{1, 429, 495, Throttled, "", "Retry-After", 2 * time.Second, 0, 0, false},
			{2, 400, 490, Throttled, "SlowDown", "backoff", 2 * time.Second, 2 * time.Second, 0, false},
			{3, 0, 485, Transient, "", "backoff", 400 * time.Millisecond, 4 * time.Second, 0, false},
			{4, 404, 485, Permanent, "", "", 0, 4400 * time.Millisecond, NotRetryable, true},
		}, lines)
		require.ErrorIs(t, seen[2].Err, socketerr.ConnReset)
	})
}

// A request that ends while it waits still has exactly one final event.
func TestFinalEventOfACancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Backoff = Constant{Wait: time.Hour}
		ctx, trace := WithTrace(t.Context())
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Minute, cancel)
		_, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.Error(t, err)
		events := trace.Requests()[0]
		require.Len(t, events, 2)
		require.False(t, events[0].Final)
		require.True(t, events[1].Final)
		require.Equal(t, Cancelled, events[1].Reason)
		require.Equal(t, time.Minute, events[1].Elapsed)
		require.Zero(t, events[1].Sent, "it is not an attempt's")
		require.Zero(t, events[1].Wait)
	})
}

func TestCodeOutsideTheListsIsNotRepeated(t *testing.T) {
	ctx, trace := WithTrace(t.Context())
	_, err := get(ctx, &Transport{Base: script(jsonError(400, "password=hunter2"))})
	require.NoError(t, err)
	require.Empty(t, trace.Requests()[0][0].Code)
}

func TestQuotaIsExactUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.MaxAttempts = 2
		s.Quota = NewBucket(10 * s.Cost)
		base := script(status(503))
		transport := &Transport{Base: base, Strategy: s}
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				resp, err := get(t.Context(), transport)
				assert.NoError(t, err)
				assert.Equal(t, 503, resp.StatusCode)
			})
		}
		wg.Wait()
		require.Len(t, base.sent(), 1010)
		require.Zero(t, s.tokens())
	})
}

func TestQuotaSpentKeepsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Quota = NewBucket(4)
		ctx, trace := WithTrace(t.Context())
		resp, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, QuotaExhausted, trace.Requests()[0][0].Reason)

		s.Quota = nil // circuit breaking off
		base := script(status(503))
		_, err = get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Len(t, base.sent(), 3)
	})
}

func TestStrategiesCanShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewBucket(500)
		transport := &Transport{Base: script(status(503)), PerKey: func(string) *Strategy {
			s := Standard()
			s.Quota = shared
			return s
		}}
		for _, host := range []string{"a", "b"} {
			req := newRequest(t, "GET", nil)
			req.URL.Host = host
			_, err := transport.RoundTrip(req)
			require.NoError(t, err)
		}
		require.Equal(t, 480, shared.Tokens())
	})
}

func TestSkewIsMeasuredAndSignedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 10 * time.Minute
		var signed []time.Duration
		refuse := func(req *http.Request) (*http.Response, error) {
			resp, _ := jsonError(403, "RequestTimeTooSkewed")(req)
			return resp, nil
		}
		withDate := func(play step) step {
			return func(req *http.Request) (*http.Response, error) {
				time.Sleep(2 * time.Second)
				resp, err := play(req)
				resp.Header.Set("Date", time.Now().Add(ahead-time.Second).UTC().Format(http.TimeFormat))
				resp.TLS = tlsState
				return resp, err
			}
		}
		base := script(withDate(refuse), withDate(status(200)))
		transport := &Transport{Base: base, Prepare: func(_ *http.Request, p PrepareInfo) error {
			signed = append(signed, p.Skew)
			return nil
		}}
		for range 2 {
			resp, err := get(t.Context(), transport)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
		}
		require.Len(t, signed, 3)
		require.Zero(t, signed[0])
		for _, s := range signed[1:] { // the Date header has no fraction
			require.InDelta(t, ahead.Seconds(), s.Seconds(), 1)
		}

		base = script(withDate(refuse), withDate(status(200)))
		resp, err := get(t.Context(), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, 403, resp.StatusCode, "without Prepare the next signature would be as wrong")
	})
}

func TestCloneIsFresh(t *testing.T) {
	s := Adaptive()
	require.True(t, s.Quota.(*Bucket).take(100))
	c := s.Clone()
	require.Equal(t, 500, c.tokens())
	require.NotSame(t, s.Limiter, c.Limiter)
	c.Classifiers[0], c.Hints[0] = nil, nil
	require.NotNil(t, s.Classifiers[0])
	require.NotNil(t, s.Hints[0])
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
	require.Equal(t, "body", base.sent()[1].body)
}
