//go:build haproxy

package realservers

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
)

const haproxyConf = `
global
	maxconn 500
	hard-stop-after 200ms # what a reload finds under way is cut off after this
defaults
	mode http
	retries 0 # the retries we test are ours
	retry-on none
	timeout connect 1s
	timeout client 10s
	timeout server 10s
	timeout queue 100ms
frontend front
	bind $plain
	bind $tls ssl crt $dir/pair.pem alpn h2,http/1.1
	use_backend queued if { path_beg /queue }
	use_backend told if { path_beg /told }
	use_backend down if { path_beg /down }
	default_backend up
backend up
	server one $upstream
backend queued
	server one $upstream maxconn 1 maxqueue 2
backend told
	http-error status 503 content-type text/plain string "come back later" hdr Retry-After 1
	server one $upstream maxconn 4 maxqueue 2
backend down
	server one $nobody
`

// startHAProxy starts HAProxy and returns clients for it over HTTP/1.1 and,
// with TLS, HTTP/2.
func startHAProxy(t *testing.T, strategy *retrip.Strategy) (s *server, http1, http2 *client) {
	t.Helper()
	up := newUpstream(t, false)
	plain, tls := freeAddr(t), freeAddr(t)
	s = serve(t, "haproxy", haproxyConf, map[string]string{
		"upstream": host(up.URL), "plain": plain, "tls": tls, "nobody": freeAddr(t),
	}, plain, tls)
	http1 = &client{t: t, up: up, url: "http://" + plain, transport: &retrip.Transport{Base: base(t, false), Strategy: strategy}}
	http2 = &client{t: t, up: up, url: "https://" + tls, transport: &retrip.Transport{Base: base(t, true), Strategy: strategy}}
	return s, http1, http2
}

// A full queue is a 503: what may be repeated gets through in the end.
func TestHAProxyQueueFull(t *testing.T) {
	_, http1, http2 := startHAProxy(t, eager(100, 150*time.Millisecond))
	for _, path := range []string{"/queue", "/told"} {
		for name, c := range map[string]*client{"HTTP/1.1": http1, "HTTP/2": http2} {
			t.Run(name+path, func(t *testing.T) {
				var calls []call
				for i := range 12 {
					k := call{method: []string{"GET", "PUT", "POST", "POST"}[i%4], path: path, kind: (i + i/4) % kinds, fault: "150ms"}
					switch {
					case k.method == "GET":
					case k.kind == inMemory:
						k.size = 1000 // net/http sends it in one piece with the headers
					default:
						k.size = 300_000
					}
					if i%4 == 3 {
						k.header = []string{"Idempotency-Key", "k"}
					}
					calls = append(calls, k)
				}
				refused := 0
				answers := c.together(calls...)
				for try := 1; try < 3 && late(calls, answers); try++ {
					answers = c.together(calls...)
				}
				for i, a := range answers {
					what := fmt.Sprint(calls[i], "\n", a)
					refused += a.retries()
					// HAProxy closes right behind a 503, whatever is still being sent.
					// Over HTTP/1, net/http may see that before it reads the 503,
					// and then only tells that it could not write.
					mayBeCut := c == http1 && calls[i].size > 1000
					for _, e := range a.events {
						if e.Err != nil {
							require.True(t, mayBeCut && closedByPeer(e.Err), what)
						}
					}
					if !calls[i].repeatable() && a.err != nil {
						refused++
						require.Equal(t, retrip.NotIdempotent, a.last().Reason, what)
						require.Zero(t, a.begun, what)
						continue
					}
					if !calls[i].repeatable() && a.status() == 503 {
						refused++
						require.Equal(t, retrip.NotIdempotent, a.last().Reason, what)
						require.Contains(t, a.body, map[string]string{"/queue": "503 Service Unavailable", "/told": "come back later"}[path], what)
						require.Zero(t, a.begun, what)
						continue
					}
					require.Equal(t, 200, a.status(), what)
					require.Equal(t, 1, a.begun, what)
					for j, e := range a.events[:len(a.events)-1] {
						if path == "/told" && e.Err == nil {
							require.Equal(t, time.Second, e.Wait, what)
						}
						require.GreaterOrEqual(t, a.events[j+1].Sent.Sub(e.Done), e.Wait, what)
					}
				}
				require.NotZero(t, refused, "twelve times 150ms do not fit")
			})
		}
	}
}

// late reports whether a Read of an opaque body that was under way when its
// attempt failed took longer than the moment that retrip gives it. On a machine
// that has much else to do, not even one in memory is always in time.
func late(calls []call, answers []answer) bool {
	for i, a := range answers {
		if k := calls[i].kind; (k == opaque || k == chunked) && a.last().Reason == retrip.BodyNotReplayable {
			return true
		}
	}
	return false
}

// closedByPeer reports whether err says that the other side closed or reset the
// connection.
func closedByPeer(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// HAProxy's answers for a server that is down, or resets the connection.
func TestHAProxyUpstreamFails(t *testing.T) {
	_, http1, http2 := startHAProxy(t, eager(5, time.Millisecond))
	http2.refusesLate = true
	for name, c := range map[string]*client{"HTTP/1.1": http1, "HTTP/2": http2} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "PUT", "POST"} {
				for kind := range kinds {
					k := call{method: method, path: "/down", kind: kind}
					if method != "GET" {
						k.size = 5000
					}
					a := c.do(k)
					what := fmt.Sprint(k, "\n", a)
					require.Equal(t, map[bool]int{true: 5, false: 1}[k.repeatable()], a.last().Attempt, what)
					if a.err == nil { // else it closed on a body that it had not read
						require.Equal(t, 503, a.status(), what)
						require.Contains(t, a.body, "503 Service Unavailable", what)
					}
					require.True(t, a.err == nil || k.size > 0, what)

					for _, fault := range []string{"reset", "reset after"} {
						k.path, k.fault = "/", fault
						a := c.do(k)
						what := fmt.Sprint(k, "\n", a)
						if k.repeatable() {
							require.Equal(t, 200, a.status(), what)
							require.Equal(t, 2, a.begun, what)
							continue
						}
						if c.refusesLate && a.status() == 200 {
							continue
						}
						require.Equal(t, retrip.NotIdempotent, a.last().Reason, what)
						require.LessOrEqual(t, a.begun, 1, what)
						if a.err == nil { // else it closed where it had not read all of the body
							require.Equal(t, 502, a.status(), what)
							require.Contains(t, a.body, "502 Bad Gateway", what)
						}
					}
				}
			}
		})
	}
}

// A reload closes idle connections at once and the others a little later,
// whatever is under way on them.
func TestHAProxyReload(t *testing.T) {
	s, http1, http2 := startHAProxy(t, eager(8, 20*time.Millisecond))
	http2.refusesLate = true
	stop := s.reloadEvery(400 * time.Millisecond)
	for name, c := range map[string]*client{"HTTP/1.1": http1, "HTTP/2": http2} {
		t.Run(name, func(t *testing.T) {
			dials := countDials(c.transport.Base)
			var retried, failed, broken atomic.Int64
			n := c.load(8, 4*time.Second, func(k call, a answer) {
				retried.Add(int64(a.retries()))
				if k.repeatable() && a.status() != 200 {
					t.Errorf("failed: %v\n%v", k, a)
				}
				if a.Response != nil && !strings.HasPrefix(a.Proto, name) {
					t.Errorf("not %s: %v\n%v", name, k, a)
				}
				switch {
				case a.err != nil:
					failed.Add(1)
				case a.readErr != nil: // once there are headers, it is the caller's
					broken.Add(1)
				}
			})
			require.Greater(t, dials.Load(), int64(3), "connections end with each reload")
			t.Logf("%d requests, %d retries, %d POSTs failed, %d answers broken off", n, retried.Load(), failed.Load(), broken.Load())
		})
	}
	stop()
}
