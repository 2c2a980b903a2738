package retrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// The documentation of http.RoundTripper, clause by clause, over real
// connections; and below it what other libraries get wrong, of which each is
// the subject of a test:
//
//	 1 early answer to a large PUT             TestEarlyAnswerTwoHundredTimes, TestEarlyAnswerToALargeBody, TestEarlyAnswerOverHTTP2
//	 2 nothing read ahead, bodies closed       TestBodyIsReadByTheBaseAlone, TestBodyWithGetBodyIsLeftToTheBase, TestEveryExitClosesTheBody
//	 3 opaque body over the buffer             TestBodyBeyondTheBufferIsSentOnce, TestLongOpaqueBodyTakesNoMemory, TestFaults
//	 4 opaque body has GetBody for the base    TestCopyOfWhatIsKept, TestFaults (REFUSED_STREAM, GOAWAY)
//	 5 framing is as without us                TestFramingIsTheSame, TestFramingIsTheSameOverHTTP2, TestNoBodyStaysNoBody
//	 6 exhausted: the last answer              TestEveryStatusIsAResponse, TestLastErrorNamesAttemptsAndReason
//	 7 Retry-After                             TestWaitHeaders, TestFirstOfSeveralRetryAfters, TestRetryAfterFloods
//	 8 a wait beyond deadline or cap           TestWaitBeyondDeadlineFailsFast, TestServerDirectedWaits
//	 9 cancelled while it waits                TestCancelDuringWait, TestRequestCancelDuringWait
//	10 timeout of an attempt                   TestAttemptTimeout, TestAttemptTimeoutEndsAtTheHeaders, TestAttemptTimeoutOverTheNetwork, TestFaults (stalled)
//	11 POST is sent twice only with a promise  TestSafety, TestFaults
//	12 discarded responses                     TestDiscard, TestErrorBodiesWithoutEnd, TestErrorBodiesAndDeadlines, TestErrorPagesKeepTheConnection
//	13 other hosts' connections                TestFailuresLeaveOtherHostsConnections, TestCloseIdleConnectionsReachesTheBase
//	14 101 and streams                         TestUpgradeOverTheNetwork, TestServerSentEventsAreNotBuffered
//	15 the caller's request                    TestNoFieldOfTheRequestChanges, TestRequestIsNotModified, TestRequestMayBeReused, TestPrepare
//	16 redirects and cookies                   TestHigherLevelsAreTheClients, TestRedirectsAreTheClients
//	17 hopeless errors                         TestHopelessErrorsOfNetHTTP, TestErrors, TestNameThatDoesNotExist, TestFaults (TLS)
//	18 adaptive hears all, tokens come back    TestAdaptiveHearsEveryAttempt, TestCancelDuringWait, TestPermitsComeBack
//	19 quota exhausted under load                  TestQuotaSpentUnderLoad, TestQuotaSpentIsATypedError, TestLongPollWaitsWithItsAnswer
//	20 the published vectors (also in ./aws)   TestVectorsQuota, TestVectorsBackoff, TestVectorsServerWaitsOfSDKs
//	21 quota is exact                          TestQuotaIsExactUnderContention, TestZeroBucketRefuses
//	22 clock skew                              TestConcurrentSkew, TestVectorsClockSkewDecisions
//	23 published simulations                   TestSimulatedContention, TestSimulatedQuota, TestSimulatedCollapse
//	24 cost                                    TestSuccessAllocatesNothing, TestNoGoroutineForARequest, TestSaysNothingByItself, TestLogsKeepSecrets
//	25 stacked retriers                        TestStackedTransportsAdd, TestOuterRetrierIsNotMultiplied

// "must return err == nil if it obtained a response, regardless of the
// response's HTTP status code."
func TestEveryStatusIsAResponse(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			code, _ := strconv.Atoi(r.URL.Query().Get("status"))
			w.Header().Set("Words", "the server's")
			w.WriteHeader(code)
			if code >= 300 && code != 304 {
				_, _ = fmt.Fprint(w, code)
			}
		})
		atOnce := noWait()
		atOnce.ThrottleBackoff = nil
		transport := &Transport{Base: base, Strategy: atOnce}
		for _, code := range []int{
			200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 303, 304, 307, 308, 399, 400, 401, 403, 404, 407, 408, 409, 412,
			413, 417, 418, 421, 422, 425, 426, 429, 451, 499, 500, 501, 502, 503, 504, 505, 507, 511, 520, 599,
		} {
			req := testkit.RequestTo(t, "GET", fmt.Sprint(url, "?status=", code), nil)
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
			require.Same(t, req, resp.Request)
			require.Equal(t, "the server's", resp.Header.Get("Words"))
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			if code >= 300 && code != 304 {
				require.Equal(t, fmt.Sprint(code), string(body))
			}
			require.NoError(t, resp.Body.Close())
		}
	}
}

// "A non-nil err should be reserved for failure to obtain a response": then
// there is none.
func TestErrorComesWithoutResponse(t *testing.T) {
	testkit.NoLeaks(t)
	server := faultserver.Start(faultserver.Refuse)
	defer server.Close()
	for name, transport := range map[string]*Transport{
		"real": {Base: &http.Transport{DialContext: server.Dial}, Strategy: noWait()},
		"both": {Strategy: noWait(), Base: step(func(req *http.Request) (*http.Response, error) {
			resp, _ := status(503)(req)
			return resp, errReset
		})},
	} {
		resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", server.URL, nil))
		require.Nil(t, resp, name)
		require.ErrorIs(t, err, ErrAttemptsExhausted, name)
	}
}

// "should not attempt to handle higher-level protocol details such as
// redirects, authentication, or cookies."
func TestHigherLevelsAreTheClients(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		for code, header := range map[int]string{302: "Location", 308: "Location", 401: "Www-Authenticate", 407: "Proxy-Authenticate"} {
			url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Cookie") != "" {
					t.Error("a cookie came back by itself")
				}
				w.Header().Set(header, "/elsewhere")
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(code)
			})
			counting := testkit.Count(base)
			transport := &Transport{Base: counting, Strategy: noWait()}
			for range 2 {
				resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", url, nil))
				require.NoError(t, err)
				require.Equal(t, code, resp.StatusCode)
				require.Equal(t, "/elsewhere", resp.Header.Get(header))
				require.NoError(t, resp.Body.Close())
			}
			require.EqualValues(t, 2, counting.Calls())

			asked := 0
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			client := &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
				asked++
				return http.ErrUseLastResponse
			}}
			resp, err := client.Get(url)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, code < 400, asked == 1)
			require.Len(t, jar.Cookies(resp.Request.URL), 1)
		}
	}
}

// "A RoundTripper must be safe for concurrent use by multiple goroutines": a
// request without a body even by itself.
func TestConcurrentUseIsSafe(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		var hits atomic.Int64
		url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			if hits.Add(1)%3 == 1 {
				w.WriteHeader(503)
				return
			}
			_, _ = w.Write(got)
		})
		transport := &Transport{Base: base}
		transport.PerKey = func(string) *Strategy { return noWait() }
		shared := testkit.RequestTo(t, "GET", url, nil)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 10 {
					resp, err := transport.RoundTrip(shared)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
					content := testkit.RandomBytes(1000+i, byte(i))
					req := shared.Clone(shared.Context())
					req.Method = "PUT"
					req.Body = io.NopCloser(testkit.OnlyReader(bytes.NewReader(content)))
					if resp, err = transport.RoundTrip(req); err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					if resp.StatusCode == 200 && !bytes.Equal(got, content) || err != nil {
						t.Error("another's body, or", err)
					}
					_ = resp.Body.Close()
				}
			})
		}
		wg.Wait()
	}
}

// "must always close the body, including on errors", on every way out.
func TestEveryExitClosesTheBody(t *testing.T) {
	testkit.NoLeaks(t)
	refused := faultserver.Start(faultserver.Refuse)
	defer refused.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	exits := map[string]func(*Transport, *http.Request) *http.Request{
		"no URL":          func(_ *Transport, r *http.Request) *http.Request { r.URL = nil; return r },
		"no header":       func(_ *Transport, r *http.Request) *http.Request { r.Header = nil; return r },
		"bad header":      func(_ *Transport, r *http.Request) *http.Request { r.Header["a b"] = []string{"c"}; return r },
		"bad method":      func(_ *Transport, r *http.Request) *http.Request { r.Method = "a b"; return r },
		"no host":         func(_ *Transport, r *http.Request) *http.Request { r.URL.Host = ""; return r },
		"unknown scheme":  func(_ *Transport, r *http.Request) *http.Request { r.URL.Scheme = "gopher"; return r },
		"bad Transport":   func(tr *Transport, r *http.Request) *http.Request { tr.MaxKeys = -1; return r },
		"no strategy":     func(tr *Transport, r *http.Request) *http.Request { tr.Strategy = new(Strategy); return r },
		"nil from PerKey": func(tr *Transport, r *http.Request) *http.Request { tr.Strategy, tr.PerKey = nil, noStrategy; return r },
		"no attempts": func(_ *Transport, r *http.Request) *http.Request {
			return r.WithContext(WithMaxAttempts(r.Context(), 0))
		},
		"cancelled before": func(_ *Transport, r *http.Request) *http.Request { return r.WithContext(gone) },
		"Prepare fails": func(tr *Transport, r *http.Request) *http.Request {
			tr.Prepare = func(*http.Request, PrepareInfo) error { return io.ErrNoProgress }
			return r
		},
		"refused": func(_ *Transport, r *http.Request) *http.Request { return r },
		"refused, once": func(_ *Transport, r *http.Request) *http.Request {
			return r.WithContext(WithMaxAttempts(r.Context(), 1))
		},
	}
	for name, exit := range exits {
		for kind, open := range map[string]testkit.Opener{
			"GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody, "file": testkit.FileBody(0),
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				base := &http.Transport{DialContext: refused.Dial}
				defer base.CloseIdleConnections()
				transport := &Transport{Base: base, Strategy: noWait()}
				req := testkit.RequestTo(t, "PUT", refused.URL, nil)
				closed := open(t, req, testkit.Small)
				resp, err := transport.RoundTrip(exit(transport, req))
				require.Nil(t, resp)
				require.Error(t, err)
				testkit.Eventually(t, closed, "the close of the request's body")
			})
		}
	}
}

func noStrategy(string) *Strategy { return nil }

// A body with GetBody reaches the base as it is, and nobody reads it before.
func TestBodyIsReadByTheBaseAlone(t *testing.T) {
	content := testkit.RandomBytes(1<<20, 5)
	req := testkit.RequestTo(t, "PUT", "http://example.com/", nil)
	testkit.ReopenedBody(t, req, content)
	original := &testkit.Body{ReadCloser: req.Body}
	req.Body = original
	attempts := 0
	base := step(func(out *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			require.Same(t, req, out, "the very request")
			require.Zero(t, original.BytesRead())
		} else {
			require.NotSame(t, req, out)
		}
		got, err := io.ReadAll(out.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		require.NoError(t, out.Body.Close())
		return status(503)(out)
	})
	_, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 3, attempts)
	require.Equal(t, 1, original.Closes())
}

// A host that fails costs another host none of its idle connections.
func TestFailuresLeaveOtherHostsConnections(t *testing.T) {
	testkit.NoLeaks(t)
	healthy := faultserver.Start(faultserver.Answer(200))
	defer healthy.Close()
	sick := faultserver.Start(faultserver.ResetBeforeHeaders, faultserver.Answer(503))
	defer sick.Close()
	transport := &Transport{Base: &http.Transport{}, PerKey: func(string) *Strategy { return noWait() }}
	defer transport.CloseIdleConnections()
	reuses := 0
	for idle, round := false, 0; round < 20 || reuses == 0; round++ {
		reused, kept := testkit.Fetch(t, transport, healthy.URL)
		if idle {
			require.True(t, reused, "the connection was idle before the other host failed")
			reuses++
		}
		idle = kept
		testkit.Fetch(t, transport, sick.URL)
	}
}

// When the quota is spent, many callers get the real answer at once, and the
// server gets no more than one request of each.
func TestQuotaSpentUnderLoad(t *testing.T) {
	base := script(status(503))
	s := noWait()
	s.Quota = NewBucket(0)
	transport := &Transport{Base: base, Strategy: s}
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			ctx, trace := WithTrace(t.Context())
			resp, err := get(ctx, transport)
			if err != nil || resp.StatusCode != 503 || lastOf(trace).Reason != QuotaExhausted {
				t.Error(resp, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, base.Sent(), 256)
}

// A spent quota is told by type where there is no answer to return, and 256
// callers who come again and again get it at the price of one attempt each.
func TestQuotaSpentIsATypedError(t *testing.T) {
	base := script(fails(errReset))
	s := noWait()
	s.Quota = NewBucket(0)
	transport := &Transport{Base: base, Strategy: s, KeepStats: true}
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for range 4 {
				_, err := get(t.Context(), transport)
				var e *Error
				if !errors.Is(err, ErrQuotaExhausted) || !errors.Is(err, socketerr.ConnReset) || !errors.As(err, &e) || e.Attempts != 1 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, base.Sent(), 4*256)
	require.EqualValues(t, 4*256, transport.Stats().GivenUp[QuotaExhausted], "nobody fails to notice")
}

// Nothing is written anywhere unless somebody asks for it.
func TestSaysNothingByItself(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	stdout, stderr, logger, flags := os.Stdout, os.Stderr, log.Writer(), log.Flags()
	said := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(read)
		said <- all
	}()
	func() {
		os.Stdout, os.Stderr = write, write
		log.SetOutput(write)
		previous := slog.SetLogLoggerLevel(slog.LevelDebug)
		defer func() {
			os.Stdout, os.Stderr = stdout, stderr
			log.SetOutput(logger)
			log.SetFlags(flags)
			slog.SetLogLoggerLevel(previous)
		}()
		for _, play := range []step{
			status(200), status(503), status(429, "Retry-After: 99"), status(429, "Retry-After: never"), status(404),
			jsonError(400, "ThrottlingException"), answer(503, "<Error>", "Content-Type: text/xml"),
			fails(errReset), fails(context.DeadlineExceeded), fails(&baseError{"no"}),
			func(*http.Request) (*http.Response, error) { return nil, nil },
		} {
			for way := range ways(nil) {
				transport := ways(script(play))[way]
				transport.Strategy = noWait()
				transport.Strategy.ThrottleBackoff = nil
				for _, kind := range testkit.BodyKinds {
					req := newRequest(t, "PUT", nil)
					kind.Open(t, req, testkit.Small)
					if resp, err := transport.RoundTrip(req); err == nil {
						_ = resp.Body.Close()
					}
				}
			}
		}
		_, _ = (&Transport{MaxKeys: -1}).RoundTrip(newRequest(t, "GET", nil))
	}()
	require.NoError(t, write.Close())
	require.Empty(t, string(<-said))
}

// A request without a body, or with one that can be reopened, starts no
// goroutine and is sent in its caller's.
func TestNoGoroutineForARequest(t *testing.T) {
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	if metrics.Read(created); created[0].Value.Kind() != metrics.KindUint64 {
		t.Skip("runtime/metrics counts created goroutines from Go 1.26 on")
	}
	self := func() string {
		stack := make([]byte, 64)
		name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "[")
		return name
	}
	var sender string
	base := step(func(req *http.Request) (*http.Response, error) {
		sender = self()
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	for way, transport := range ways(base) {
		for _, withBody := range []bool{false, true} {
			const times = 1000
			req := newRequest(t, "PUT", nil)
			if withBody {
				testkit.MemoryBody(t, req, testkit.Small)
			}
			metrics.Read(created)
			before := created[0].Value.Uint64()
			for range times {
				_, err := transport.RoundTrip(req)
				require.NoError(t, err)
			}
			metrics.Read(created)
			require.Less(t, created[0].Value.Uint64()-before, uint64(times/10), "%s, body %v: other tests leave some", way, withBody)
			require.Equal(t, self(), sender)
		}
	}
}
