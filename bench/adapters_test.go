package bench

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const payload = "every byte of it, each time"

// Each peer does what it is timed for: it sends again what was answered 503,
// with the whole body, and returns the answer with its body intact.
func TestPeersRetry(t *testing.T) {
	for _, p := range peers {
		for kind, newRequest := range map[string]func() (*http.Request, error){
			"none": func() (*http.Request, error) { return http.NewRequest("GET", "http://example.com/path", nil) },
			"getbody": func() (*http.Request, error) {
				return http.NewRequest("PUT", "http://example.com/path", strings.NewReader(payload))
			},
			"opaque": func() (*http.Request, error) {
				req, err := http.NewRequest("PUT", "http://example.com/path", onlyReader{strings.NewReader(payload)})
				req.ContentLength = int64(len(payload))
				return req, err
			},
		} {
			if kind != "none" && p.name == "retrip-throttled" {
				continue // it takes seconds to throttle, and the limiter knows nothing of bodies
			}
			t.Run(p.name+"/"+kind, func(t *testing.T) {
				var got []string
				rt := p.wrap(t, tripper(func(req *http.Request) (*http.Response, error) {
					var body []byte
					if req.Body != nil {
						var err error
						if body, err = io.ReadAll(req.Body); err != nil {
							return nil, err
						}
						require.NoError(t, req.Body.Close())
					}
					got = append(got, string(body))
					resp := answer([]int{503, 200}[min(len(got)-1, 1)])
					resp.Body, resp.Request = io.NopCloser(strings.NewReader("answer")), req
					return resp, nil
				}), 0)
				req, err := newRequest()
				require.NoError(t, err)
				sent := ""
				if req.Body != nil {
					sent = payload
				}
				resp, err := rt.RoundTrip(req)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, "answer", string(body))
				if p.name == "bare" || p.name == "floor" && kind == "opaque" {
					require.Equal(t, 503, resp.StatusCode)
					require.Equal(t, []string{sent}, got)
					return
				}
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, []string{sent, sent}, got)
			})
		}
	}
}

// And over the network, by both protocols.
func TestPeersOverLoopback(t *testing.T) {
	for _, proto := range []string{"h1", "h2"} {
		for _, p := range libraries() {
			t.Run(proto+"/"+p.name, func(t *testing.T) {
				failed := false
				server, base := serve(t, proto, func(w http.ResponseWriter, req *http.Request) {
					body, _ := io.ReadAll(req.Body)
					if !failed {
						failed = true
						http.Error(w, "not now", http.StatusServiceUnavailable)
						return
					}
					_, _ = w.Write(body)
				})
				req, err := http.NewRequest("PUT", server.URL, bytes.NewReader([]byte(payload)))
				require.NoError(t, err)
				resp, err := p.wrap(t, base, 0).RoundTrip(req)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, map[string]int{"h1": 1, "h2": 2}[proto], resp.ProtoMajor)
				if p.name != "bare" {
					require.Equal(t, 200, resp.StatusCode)
					require.Equal(t, payload, string(body))
				}
			})
		}
	}
}

// Why newAzcore does not ask for no wait as its documentation says.
func TestAzcoreWaitsWhenToldNotTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rt := azcorePipeline(newFlaky("none"), -1)
		mustAnswer(t, rt, newShot(t, "none", 0).Request, 200)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// serve starts a server and returns a transport of its own to go with it.
func serve(tb testing.TB, proto string, handler http.HandlerFunc) (*httptest.Server, *http.Transport) {
	server := httptest.NewUnstartedServer(handler)
	if proto == "h2" {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	tb.Cleanup(server.Close)
	return server, server.Client().Transport.(*http.Transport)
}
