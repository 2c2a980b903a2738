package retrip_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Transports that are stacked add up their attempts, also where a layer between
// them changes what is sent, and don't multiply them.
func TestStackedTransportsAddAcrossLayers(t *testing.T) {
	layers := map[string]func(*http.Request) *http.Request{
		"unchanged": func(req *http.Request) *http.Request { return req },
		"other host, in a clone": func(req *http.Request) *http.Request {
			out := req.Clone(req.Context())
			out.URL.Host = "shard-7.example.com"
			return out
		},
		"other path and query, in a clone": func(req *http.Request) *http.Request {
			out := req.Clone(req.Context())
			out.URL.Path, out.URL.RawQuery = "/v2"+out.URL.Path, "signature=1"
			return out
		},
		"other URL, in a shallow copy": func(req *http.Request) *http.Request {
			out := *req
			url := *req.URL
			url.Host, url.Path = "elsewhere.example", "/"
			out.URL = &url
			return &out
		},
		"other headers, same URL, in a new request": func(req *http.Request) *http.Request {
			out, err := http.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), req.Body)
			if err != nil {
				panic(err)
			}
			out.Header.Set("X-New", "1")
			return out
		},
	}
	for name, change := range layers {
		for _, method := range []string{"GET", "PUT"} {
			t.Run(name+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := 0
					inner := &retrip.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
						calls++
						return answer(503, "")(req)
					})}
					outer := &retrip.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
						return inner.RoundTrip(change(req))
					})}
					req := testkit.RequestTo(t, method, "http://example.com/path?a=b", strings.NewReader("body"))
					resp, err := outer.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, 3+2, calls)
					require.Equal(t, "HTTP/1.1", req.Proto)
				})
			})
		}
	}
}

// A layer between stacked transports fetches a token with the context of the
// request that it handles. That is another request, and is retried.
func TestStackedTransportsRetryATokenFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		inner := &retrip.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
			calls[req.URL.Path]++
			return answer(503, "")(req)
		})}
		outer := &retrip.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
			token, err := http.NewRequestWithContext(req.Context(), req.Method, "http://example.com/token", nil)
			require.NoError(t, err)
			resp, err := inner.RoundTrip(token)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			out := req.Clone(req.Context())
			out.URL.Path = "/changed"
			return inner.RoundTrip(out)
		})}
		req := testkit.RequestTo(t, "GET", "http://example.com/path", nil)
		resp, err := outer.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, map[string]int{"/token": 3 * 3, "/changed": 3 + 2}, calls)
	})
}

// Another request that a layer sends with the context of a retry keeps its own
// retries, if only its method or its host differs.
func TestStackedTransportsRetryOtherRequests(t *testing.T) {
	for _, other := range [][2]string{{"HEAD", "http://example.com/path?a=b"}, {"GET", "http://elsewhere.example/path?a=b"}} {
		t.Run(strings.Join(other[:], " "), func(t *testing.T) {
			calls, attempts := 0, 0
			inner := &retrip.Transport{Strategy: immediately(), Base: step(func(req *http.Request) (*http.Response, error) {
				calls++
				return answer(503, "")(req)
			})}
			outer := &retrip.Transport{Strategy: immediately(), Base: step(func(req *http.Request) (*http.Response, error) {
				if attempts++; attempts == 1 {
					return answer(503, "")(req)
				}
				another, err := http.NewRequestWithContext(req.Context(), other[0], other[1], nil)
				require.NoError(t, err)
				resp, err := inner.RoundTrip(another)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return answer(200, "")(req)
			})}
			req := testkit.RequestTo(t, "GET", "http://example.com/path?a=b", nil)
			resp, err := outer.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 2, attempts)
			require.Equal(t, 3, calls)
		})
	}
}

// What a context says holds for its retries, too, in transports further in.
func TestStackedTransportsObeyTheContextOfARetry(t *testing.T) {
	base := step(func(req *http.Request) (*http.Response, error) { return answer(503, "")(req) })
	inner := &retrip.Transport{Strategy: immediately(), Base: base}
	outer := &retrip.Transport{Strategy: immediately(), Base: inner}
	ctx, trace := retrip.WithTrace(t.Context())
	req := newRequest(t, "GET", nil).WithContext(ctx)
	resp, err := outer.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var attempts []int
	for _, events := range trace.Requests() {
		attempts = append(attempts, len(events))
	}
	require.Equal(t, []int{3, 3, 1, 1}, attempts, "the outer transport's, and what it sent to the inner")
}
