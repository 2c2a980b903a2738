//go:build nginx

package realservers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
)

const nginxConf = `
user root; # may read the test's directory; ignored if it is not root who starts nginx
worker_processes 2;
pid $dir/nginx.pid;
error_log $dir/error.log warn;
$main
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path $dir/body;
	proxy_temp_path $dir/proxy;
	fastcgi_temp_path $dir/fastcgi;
	uwsgi_temp_path $dir/uwsgi;
	scgi_temp_path $dir/scgi;
	client_max_body_size 64m;
	proxy_http_version 1.1;
	proxy_next_upstream off; # the retries we test are ours
	$http
}
`

// startNginx starts nginx with what the test adds to the configuration, and
// returns a client for its first address.
func startNginx(t *testing.T, main, http string, addrs ...string) (*server, *client) {
	t.Helper()
	up := newUpstream(t, false)
	vars := map[string]string{"upstream": host(up.URL)}
	for i, addr := range addrs {
		vars[fmt.Sprintf("addr%d", i)] = addr
	}
	s := serve(t, "nginx", strings.NewReplacer("$main", main, "$http\n", http+"\n").Replace(nginxConf), vars, addrs...)
	return s, &client{t: t, up: up, url: "http://" + addrs[0]}
}

// nginx's limit_req refuses with 429 or 503, with and without a Retry-After.
func TestNginxLimitReq(t *testing.T) {
	_, c := startNginx(t, "", `
	map $status $soon { 429 1; 503 1; }
	map $status $late { 429 120; 503 120; }
	limit_req_zone $http_x_zone zone=a:1m rate=4r/s;
	limit_req_zone $http_x_zone zone=b:1m rate=1r/m;
	limit_req zone=a burst=2 nodelay;
	server {
		listen $addr0;
		location /429/ { limit_req_status 429; proxy_pass http://$upstream; }
		location /503/ { limit_req_status 503; proxy_pass http://$upstream; }
		location /429/soon { limit_req_status 429; add_header Retry-After $soon always; proxy_pass http://$upstream; }
		location /503/soon { limit_req_status 503; add_header Retry-After $soon always; proxy_pass http://$upstream; }
		location /429/late {
			limit_req zone=b;
			limit_req_status 429;
			add_header Retry-After $late always;
			proxy_pass http://$upstream;
		}
	}`, freeAddr(t))
	c.transport = &retrip.Transport{Base: base(t, false), Strategy: eager(60, 200*time.Millisecond), ReplayBuffer: 8 << 20}

	key := []string{"Idempotency-Key", "k"}
	tests := []struct {
		call
		succeeds bool
	}{
		{call{method: "GET", path: "/429/"}, true},
		{call{method: "GET", path: "/429/soon"}, true},
		{call{method: "GET", path: "/503/"}, true},
		{call{method: "GET", path: "/503/soon"}, true},
		{call{method: "PUT", path: "/429/", size: 1 << 20}, true},
		{call{method: "PUT", path: "/429/soon", size: 1 << 20}, true},
		{call{method: "PUT", path: "/503/", size: 3 << 20}, true},
		{call{method: "PUT", path: "/503/soon", size: 3 << 20}, true},
		{call{method: "POST", path: "/429/soon", size: 1 << 20}, true}, // 429: not processed
		{call{method: "POST", path: "/503/soon", size: 1 << 20}, false},
		{call{method: "POST", path: "/503/soon", size: 1 << 20, header: key}, true},
	}
	t.Run("cases", func(t *testing.T) {
		for i, tt := range tests {
			t.Run(fmt.Sprint(tt.method, tt.path, tt.header), func(t *testing.T) {
				t.Parallel()
				c := *c
				c.t = t
				calls := make([]call, 6)
				for j := range calls {
					calls[j] = tt.call
					calls[j].header = append([]string{"X-Zone", fmt.Sprint("zone", i)}, tt.header...)
					calls[j].kind = j % kinds
				}
				refused := 0
				for _, a := range c.together(calls...) {
					if !tt.succeeds && a.status() == 503 {
						refused++
						require.Equal(t, retrip.NotIdempotent, a.last().Reason, "%v", a)
						require.Contains(t, a.body, "503 Service Temporarily Unavailable")
						require.Zero(t, a.begun, "%v", a)
						continue
					}
					require.Equal(t, 200, a.status(), "%v", a)
					require.Equal(t, 1, a.begun, "nginx refuses before it delivers: %v", a)
					refused += a.retries()
					requireWaits(t, a, strings.HasSuffix(tt.path, "/soon"))
				}
				require.NotZero(t, refused, "six at once are above four per second with a burst of two")
			})
		}
	})

	t.Run("wait above the cap", func(t *testing.T) {
		late := call{method: "GET", path: "/429/late", header: []string{"X-Zone", "late"}}
		require.Equal(t, 200, c.do(late).status())
		a := c.do(late)
		require.Equal(t, 429, a.status(), "%v", a)
		require.Equal(t, retrip.WaitOverCap, a.last().Reason)
		require.Equal(t, "120", a.Header.Get("Retry-After"))
		require.Contains(t, a.body, "429 Too Many Requests")
	})
	t.Run("attempts exhausted", func(t *testing.T) {
		c.transport = &retrip.Transport{Base: c.transport.Base, Strategy: eager(2, time.Millisecond)}
		put := call{method: "PUT", path: "/429/", size: 1 << 20, kind: opaque, header: []string{"X-Zone", "spent"}}
		for range 100 {
			a := c.do(put)
			if a.status() == 200 {
				continue
			}
			require.Equal(t, 429, a.status(), "%v", a)
			require.Equal(t, 2, a.last().Attempt)
			require.Contains(t, a.body, "429 Too Many Requests")
			return
		}
		t.Fatal("never limited")
	})
}

// requireWaits checks that a request waited as long as it was told to.
func requireWaits(t *testing.T, a answer, told bool) {
	t.Helper()
	for i, e := range a.events[:len(a.events)-1] {
		if told {
			require.Equal(t, "Retry-After", e.WaitFrom, "%v", a)
			require.Equal(t, time.Second, e.Wait, "%v", a)
		}
		require.GreaterOrEqual(t, a.events[i+1].Sent.Sub(e.Done), e.Wait, "%v", a)
	}
}

// An upstream that resets the connection is a 502, or a broken answer.
func TestNginxUpstreamResets(t *testing.T) {
	_, c := startNginx(t, "", `
	server {
		listen $addr0;
		location /whole/ { proxy_pass http://$upstream; }
		location /streamed/ { proxy_request_buffering off; proxy_buffering off; proxy_pass http://$upstream; }
	}`, freeAddr(t))
	c.transport = &retrip.Transport{Base: base(t, false), Strategy: eager(5, time.Millisecond)}

	for _, path := range []string{"/whole/", "/streamed/"} {
		for _, fault := range []string{"reset", "reset after", "reset midway"} {
			var calls []call
			for i, method := range []string{"GET", "PUT", "PUT", "PUT", "PUT", "POST", "POST", "POST", "POST"} {
				k := call{method: method, path: path, fault: fault, padding: 100_000, kind: (i + 3) % kinds}
				if method != "GET" {
					k.size = 700_000
				}
				calls = append(calls, k)
			}
			for i, a := range c.together(calls...) {
				what := fmt.Sprint(calls[i], "\n", a)
				switch {
				case fault == "reset midway": // too late for a retry
					require.Equal(t, 200, a.status(), what)
					require.Error(t, a.readErr, what)
					require.Equal(t, 1, a.begun, what)
				case calls[i].repeatable():
					require.Equal(t, 200, a.status(), what)
					require.Equal(t, 2, a.begun, what)
				default:
					require.Equal(t, retrip.NotIdempotent, a.last().Reason, what)
					if a.err != nil { // nginx closes where it has not read all of a body
						require.Equal(t, "/streamed/", path, what)
						continue
					}
					require.Equal(t, 1, a.begun, what)
					require.Equal(t, 502, a.status(), what)
					require.Contains(t, a.body, "502 Bad Gateway", what)
				}
			}
		}
	}
}

// nginx closes kept connections: announced, after a number of requests, and
// unannounced, after a time, just when the next request may be on its way.
func TestNginxKeepaliveCloses(t *testing.T) {
	addrs := []string{freeAddr(t), freeAddr(t)}
	_, c := startNginx(t, "", `
	server {
		listen $addr0;
		keepalive_requests 3;
		location / { proxy_pass http://$upstream; }
	}
	server {
		listen $addr1;
		keepalive_timeout 4ms;
		location / { proxy_pass http://$upstream; }
	}`, addrs...)
	c.transport = &retrip.Transport{Base: base(t, false), Strategy: eager(5, time.Millisecond)}

	var broken int
	for i := range 1500 {
		timed := i%2 == 1
		c.url = "http://" + addrs[i%2]
		k := call{method: []string{"GET", "PUT", "POST"}[i/2%3], path: "/", kind: i / 6 % kinds}
		if k.method != "GET" {
			k.size = 20_000
		}
		if timed {
			time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		}
		a := c.do(k)
		if timed && k.method == "POST" && a.err != nil { // it may have been read before the end
			require.Equal(t, retrip.NotIdempotent, a.last().Reason, "%v", a)
			broken++
			continue
		}
		require.Equal(t, 200, a.status(), "%v\n%v", k, a)
	}
	t.Logf("POSTs that met a closing connection: %d", broken)
}

// A reload ends nginx's HTTP/2 connections with GOAWAY; a shutdown timeout
// also those with streams under way, which then break.
func TestNginxHTTP2Reload(t *testing.T) {
	for name, main := range map[string]string{"graceful": "", "with a shutdown timeout": "worker_shutdown_timeout 100ms;"} {
		t.Run(name, func(t *testing.T) {
			s, c := startNginx(t, main, `
			server {
				listen $addr0 ssl http2;
				ssl_certificate $dir/pair.pem;
				ssl_certificate_key $dir/pair.pem;
				keepalive_requests 200; # more GOAWAYs
				proxy_request_buffering off;
				location / { proxy_pass http://$upstream; }
			}`, freeAddr(t))
			c.url = strings.Replace(c.url, "http:", "https:", 1)
			c.transport = &retrip.Transport{Base: base(t, true), Strategy: eager(6, 20*time.Millisecond)}

			dials := countDials(c.transport.Base)
			stop := s.reloadEvery(300 * time.Millisecond)
			var retried, failed, broken atomic.Int64
			n := c.load(8, 4*time.Second, func(k call, a answer) {
				retried.Add(int64(a.retries()))
				if k.repeatable() && a.status() != 200 {
					t.Errorf("failed: %v\n%v", k, a)
				}
				if a.Response != nil && a.ProtoMajor != 2 {
					t.Errorf("not HTTP/2: %v\n%v", k, a)
				}
				switch {
				case a.err != nil:
					failed.Add(1)
				case a.readErr != nil: // nginx closes with data unread, which takes along what it had sent
					broken.Add(1)
				}
			})
			stop()
			require.Greater(t, dials.Load(), int64(3), "connections end with each reload")
			t.Logf("%d requests, %d retries, %d POSTs failed, %d answers broken off", n, retried.Load(), failed.Load(), broken.Load())
		})
	}
}
