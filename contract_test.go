package retrip

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
)

// The documentation of http.RoundTripper, clause by clause, over real
// connections; and below it what other libraries get wrong, of which each is
// the subject of a test:
//
//	 1 early answer to a large PUT             TestEarlyAnswerTwoHundredTimes, TestEarlyAnswerOverHTTP2
//	 2 nothing read ahead, bodies closed       TestBodyIsReadByTheBaseAlone, TestEveryExitClosesTheBody
//	 3 opaque body over the buffer             TestBodyBeyondTheBufferIsSentOnce, TestFaults
//	 4 opaque body has GetBody for the base    TestCapturedBodyHasGetBody, TestFaults (REFUSED_STREAM, GOAWAY)
//	 5 framing is as without us                TestFramingIsTheSame, TestNoBodyStaysNoBody
//	 6 exhausted: the last answer              TestEveryStatusIsAResponse, TestLastErrorNamesAttemptsAndReason
//	 7 Retry-After                             TestWaitHeaders, TestRetryAfterFloods
//	 8 a wait beyond deadline or cap           TestWaitBeyondDeadlineFailsFast, TestServerDirectedWaits
//	 9 cancelled while it waits                TestCancelDuringWait, TestRequestCancelDuringWait
//	10 timeout of an attempt                   TestAttemptTimeout and those after it, TestFaults (stalled)
//	11 POST is sent twice only with a promise  TestSafety, TestFaults
//	12 discarded responses                     TestDiscard, TestErrorBodiesWithoutEnd, TestHundredRetriesUseOneConnection
//	13 other hosts' connections                TestFailuresLeaveOtherHostsConnections, TestCloseIdleConnectionsReachesTheBase
//	14 101 and streams                         TestUpgradeOverTheNetwork, TestServerSentEventsAreNotBuffered
//	15 the caller's request                    TestRequestIsNotModified, TestPrepare
//	16 redirects and cookies                   TestHigherLevelsAreTheClients, TestRedirectsAreTheClients
//	17 hopeless errors                         TestHopelessErrorsOfNetHTTP, TestErrors, TestFaults (TLS)
//	18 adaptive hears all, tokens come back    TestAdaptiveHearsEveryAttempt, TestCancelDuringWait, TestPermitsComeBack
//	19 quota spent under load                  TestQuotaSpentUnderLoad, TestLongPollWaitsWithItsAnswer
//	20 the published vectors                   TestVectorsQuota, TestVectorsBackoff, TestVectorsServerWaits
//	21 quota is exact                          TestQuotaIsExactUnderContention, TestZeroBucketRefuses
//	22 clock skew                              TestConcurrentSkew, TestVectorsClockSkewDecisions
//	23 published simulations                   TestSimulatedContention, TestSimulatedQuota, TestSimulatedCollapse
//	24 cost                                    TestSuccessAllocatesNothing, TestRetryMemory, TestLogsKeepSecrets
//	25 stacked retriers                        TestStackedTransportsAdd, TestOuterRetrierIsNotMultiplied

// "must return err == nil if it obtained a response, regardless of the
// response's HTTP status code."
func TestEveryStatusIsAResponse(t *testing.T) {
	noLeaks(t)
	for _, protocol := range allProtocols {
		url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
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
			req := requestTo(t, "GET", fmt.Sprint(url, "?status=", code))
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
	noLeaks(t)
	server := faultserver.Start(faultserver.Refuse)
	defer server.Close()
	for name, transport := range map[string]*Transport{
		"real": {Base: &http.Transport{DialContext: server.Dial}, Strategy: noWait()},
		"both": {Strategy: noWait(), Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp, _ := status(503)(req)
			return resp, errReset
		})},
	} {
		resp, err := transport.RoundTrip(requestTo(t, "GET", server.URL))
		require.Nil(t, resp, name)
		require.ErrorIs(t, err, AttemptsSpent, name)
	}
}

// "should not attempt to handle higher-level protocol details such as
// redirects, authentication, or cookies."
func TestHigherLevelsAreTheClients(t *testing.T) {
	noLeaks(t)
	for _, protocol := range allProtocols {
		for code, header := range map[int]string{302: "Location", 308: "Location", 401: "Www-Authenticate", 407: "Proxy-Authenticate"} {
			url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Cookie") != "" {
					t.Error("a cookie came back by itself")
				}
				w.Header().Set(header, "/elsewhere")
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(code)
			})
			counting := &countingBase{RoundTripper: base}
			transport := &Transport{Base: counting, Strategy: noWait()}
			for range 2 {
				resp, err := transport.RoundTrip(requestTo(t, "GET", url))
				require.NoError(t, err)
				require.Equal(t, code, resp.StatusCode)
				require.Equal(t, "/elsewhere", resp.Header.Get(header))
				require.NoError(t, resp.Body.Close())
			}
			require.EqualValues(t, 2, counting.calls.Load())

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

// "should not modify the request, except for consuming and closing the
// Request's Body."
func TestRequestIsNotModified(t *testing.T) {
	noLeaks(t)
	for _, protocol := range allProtocols {
		var hits atomic.Int64
		url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if len(r.Header["Added"]) > 1 {
				t.Error("what Prepare adds piles up")
			}
			if hits.Add(1)%3 != 0 {
				w.WriteHeader(503)
			}
		})
		all := transports(base)
		all["adding"] = &Transport{Base: base, AttemptTimeout: time.Minute, Prepare: func(req *http.Request, _ Prep) error {
			req.Header.Add("Added", "by Prepare")
			req.URL.RawQuery, req.Host, req.Form = "added=1", "added.example", map[string][]string{"a": nil}
			return nil
		}}
		for name, transport := range all {
			transport.Strategy = noWait()
			for _, b := range bodyKinds {
				t.Run(protocol+"/"+name+"/"+b.name, func(t *testing.T) {
					if b.over {
						b.content = small // three attempts for all
					}
					req := requestTo(t, "PUT", url+"/path?query")
					req.Header["mixed-Case"] = []string{"a", "b"}
					closed := b.open(t, req, b.content)
					if req.Body != nil {
						req.Trailer = http.Header{"T": {"v"}} // without a body, net/http never ends the stream
					}
					unchanged := remember(req)
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
					eventually(t, closed, "the close of the request's body")
					unchanged(t)
				})
			}
		}
	}
}

// remember returns what compares the request with how it is now: every field,
// what it points to, and which maps and functions they are.
func remember(req *http.Request) func(*testing.T) {
	fields := reflect.ValueOf(*req)
	before := *req
	clone := req.Clone(req.Context())
	return func(t *testing.T) {
		t.Helper()
		now := reflect.ValueOf(*req)
		for i := range now.NumField() {
			name, was, is := now.Type().Field(i).Name, fields.Field(i), now.Field(i)
			switch is.Kind() {
			case reflect.Map, reflect.Func, reflect.Pointer, reflect.Chan:
				require.Equal(t, was.Pointer(), is.Pointer(), name)
			case reflect.Interface:
				require.True(t, was.Equal(is), name)
			default:
				require.True(t, reflect.DeepEqual(was.String(), is.String()), name)
			}
		}
		require.Equal(t, clone.Header, req.Header)
		require.Equal(t, clone.Trailer, req.Trailer)
		require.Equal(t, clone.URL, req.URL)
		require.Equal(t, clone.Form, req.Form)
		require.Equal(t, before.ContentLength, req.ContentLength)
		require.Equal(t, before.Host, req.Host)
	}
}

// "Callers should not mutate or reuse the request until the Response's Body
// has been closed": after that they may.
func TestRequestMayBeReused(t *testing.T) {
	noLeaks(t)
	for _, protocol := range allProtocols {
		var hits atomic.Int64
		url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if hits.Add(1)%2 == 1 {
				w.WriteHeader(503)
			}
		})
		transport := &Transport{Base: base, Strategy: noWait()}
		req := requestTo(t, "PUT", url)
		for i := range 20 {
			closed := opaqueBody(t, req, small)
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
			eventually(t, closed, "the close of the request's body")
			req.Header.Set("Number", fmt.Sprint(i)) // a race if anybody still reads it
			req.URL.Path = fmt.Sprint("/", i)
		}
	}
}

// "A RoundTripper must be safe for concurrent use by multiple goroutines": a
// request without a body even by itself.
func TestConcurrentUse(t *testing.T) {
	noLeaks(t)
	for _, protocol := range allProtocols {
		var hits atomic.Int64
		url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			if hits.Add(1)%3 == 1 {
				w.WriteHeader(503)
				return
			}
			_, _ = w.Write(got)
		})
		transport := &Transport{Base: base}
		transport.PerKey = func(string) *Strategy { return noWait() }
		shared := requestTo(t, "GET", url)
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
					content := randomBytes(1000+i, byte(i))
					req := shared.Clone(shared.Context())
					req.Method = "PUT"
					req.Body = io.NopCloser(onlyReader{bytes.NewReader(content)})
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
	noLeaks(t)
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
			tr.Prepare = func(*http.Request, Prep) error { return io.ErrNoProgress }
			return r
		},
		"refused": func(_ *Transport, r *http.Request) *http.Request { return r },
		"refused, once": func(_ *Transport, r *http.Request) *http.Request {
			return r.WithContext(WithMaxAttempts(r.Context(), 1))
		},
	}
	for name, exit := range exits {
		for kind, open := range map[string]opener{
			"GetBody": reopenedBody, "opaque": opaqueBody, "file": fileBody(0),
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				base := &http.Transport{DialContext: refused.Dial}
				defer base.CloseIdleConnections()
				transport := &Transport{Base: base, Strategy: noWait()}
				req := requestTo(t, "PUT", refused.URL)
				closed := open(t, req, small)
				resp, err := transport.RoundTrip(exit(transport, req))
				require.Nil(t, resp)
				require.Error(t, err)
				eventually(t, closed, "the close of the request's body")
			})
		}
	}
}

func noStrategy(string) *Strategy { return nil }

// A body with GetBody reaches the base as it is, and nobody reads it before.
func TestBodyIsReadByTheBaseAlone(t *testing.T) {
	content := randomBytes(1<<20, 5)
	req := requestTo(t, "PUT", "http://example.com/")
	reopenedBody(t, req, content)
	original := &countedBody{trackedBody: trackedBody{ReadCloser: req.Body}}
	req.Body = original
	attempts := 0
	base := roundTripFunc(func(out *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			require.Same(t, req, out, "the very request")
			require.Zero(t, original.read.Load())
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
	require.Equal(t, 1, original.closes())
}

// On the wire a request looks as it does without us, byte by byte, the first
// time and the second.
func TestFramingIsTheSame(t *testing.T) {
	noLeaks(t)
	for name, set := range map[string]func(*http.Request){
		"no body":                func(*http.Request) {},
		"NoBody":                 func(r *http.Request) { r.Body = http.NoBody },
		"empty, unknown length":  func(r *http.Request) { r.Body = opaque("") },
		"empty, length -1":       func(r *http.Request) { r.Body, r.ContentLength = opaque(""), -1 },
		"opaque, unknown length": func(r *http.Request) { r.Body = opaque("hello") },
		"opaque, known length":   func(r *http.Request) { r.Body, r.ContentLength = opaque("hello"), 5 },
		"GetBody":                func(r *http.Request) { inMemoryBody(nil, r, []byte("hello")) },
		"chunked":                func(r *http.Request) { inMemoryBody(nil, r, []byte("hello")); r.TransferEncoding = []string{"chunked"} },
		"close":                  func(r *http.Request) { r.Close = true },
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				wire := func(attempts int) []string {
					var mu sync.Mutex
					var lines []string
					server := faultserver.Start(faultserver.Serve(func(c *faultserver.Conn, in *faultserver.Incoming) bool {
						body, _ := io.ReadAll(in.Body)
						mu.Lock()
						lines = append(lines, fmt.Sprint(in.Method, in.URL, in.Header, in.ContentLength, in.TransferEncoding, string(body)))
						mu.Unlock()
						_, err := io.WriteString(c, faultserver.Response(503, "no", "Connection: close"))
						return err != nil && in.Close
					}))
					defer server.Close()
					base := &http.Transport{DialContext: server.Dial}
					defer base.CloseIdleConnections()
					req := requestTo(t, method, server.URL)
					req.Host = "example.com"
					req.Header.Set("Idempotency-Key", "one")
					set(req)
					s := noWait()
					s.MaxAttempts = attempts
					var rt http.RoundTripper = base
					if attempts > 0 {
						rt = &Transport{Base: base, Strategy: s}
					}
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					return lines
				}
				// net/http gives the first Read of a body of unknown length 200 ms, to
				// find out whether it is empty (probeRequestBody in transfer.go). On a
				// busy machine it may take longer, with us or without.
				var plain, once, twice []string
				for range 5 {
					plain, once, twice = wire(0), wire(1), wire(2)
					if slices.Equal(plain, once) && slices.Equal(slices.Concat(plain, plain), twice) {
						break
					}
				}
				require.Equal(t, plain, once)
				require.Equal(t, slices.Concat(plain, plain), twice)
			})
		}
	}
}

// A host that fails costs another host none of its idle connections.
func TestFailuresLeaveOtherHostsConnections(t *testing.T) {
	noLeaks(t)
	healthy := faultserver.Start(faultserver.Answer(200))
	defer healthy.Close()
	sick := faultserver.Start(faultserver.ResetBeforeHeaders, faultserver.Answer(503))
	defer sick.Close()
	transport := &Transport{Base: &http.Transport{}, PerKey: func(string) *Strategy { return noWait() }}
	defer transport.CloseIdleConnections()
	reuses := 0
	for idle, round := false, 0; round < 20 || reuses == 0; round++ {
		reused, kept := fetch(t, transport, healthy.URL)
		if idle {
			require.True(t, reused, "the connection was idle before the other host failed")
			reuses++
		}
		idle = kept
		fetch(t, transport, sick.URL)
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
			if err != nil || resp.StatusCode != 503 || lastOf(trace).Reason != QuotaSpent {
				t.Error(resp, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, base.sent(), 256)
}
