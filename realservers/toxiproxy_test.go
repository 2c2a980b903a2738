//go:build toxiproxy

package realservers

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/retrip-go/retrip"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// startToxiproxy starts a proxy in front of the upstream and returns it.
func startToxiproxy(t *testing.T, up *upstream, toxics ...string) *toxiproxy.Proxy {
	t.Helper()
	control := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(control, t.Name(), "127.0.0.1:0", up.Listener.Addr().String())
	require.NoError(t, p.Start())
	t.Cleanup(p.Stop)
	for _, toxic := range toxics {
		poison(t, p, toxic)
	}
	return p
}

func poison(t *testing.T, p *toxiproxy.Proxy, toxic string) {
	t.Helper()
	_, err := p.Toxics.AddToxicJson(strings.NewReader(toxic))
	require.NoError(t, err)
}

// dialFirst makes the client's first connection lead to addr. The further ones
// go where the URL says: the fault is gone when a retry comes.
func dialFirst(addr string) func(context.Context, string, string) (net.Conn, error) {
	var n atomic.Int64
	return func(ctx context.Context, network, direct string) (net.Conn, error) {
		if n.Add(1) == 1 {
			direct = addr
		}
		return new(net.Dialer).DialContext(ctx, network, direct)
	}
}

// What the caller gets.
const (
	succeeds = iota // at the first attempt
	recovers        // by a retry, if it may be repeated; if not, an error
	breaks          // off in the middle of the answer, which nobody repeats
	expires         // with the caller's deadline
)

// Each toxic is on the first connection only, from its beginning or, warm,
// after it has served a request.
func TestToxiproxy(t *testing.T) {
	type toxicTest struct {
		name           string
		toxic          string
		fault          string
		size, padding  int
		attemptTimeout time.Duration
		deadline       time.Duration
		want           int
	}
	tests := []toxicTest{
		{name: "latency", want: succeeds, size: 100_000, padding: 100_000,
			toxic: `{"type": "latency", "attributes": {"latency": 20, "jitter": 10}}`},
		{name: "latency above the attempt timeout", want: recovers, size: 100_000, attemptTimeout: time.Second,
			toxic: `{"type": "latency", "attributes": {"latency": 3000}}`},
		{name: "latency above the deadline", want: expires, size: 100_000, deadline: 300 * time.Millisecond,
			toxic: `{"type": "latency", "attributes": {"latency": 3000}}`},
		{name: "reset_peer at the request", want: recovers, size: 100_000,
			toxic: `{"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 0}}`},
		{name: "reset_peer at the answer", want: recovers, size: 100_000,
			toxic: `{"type": "reset_peer", "attributes": {"timeout": 20}}`},
		{name: "limit_data in the request", want: recovers, size: 500_000,
			toxic: `{"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 20000}}`},
		{name: "limit_data in the headers", want: recovers, size: 1000,
			toxic: `{"type": "limit_data", "attributes": {"bytes": 20}}`},
		{name: "limit_data in the answer", want: breaks, size: 1000, padding: 300_000,
			toxic: `{"type": "limit_data", "attributes": {"bytes": 10000}}`},
		{name: "slow_close", want: succeeds, size: 100_000, padding: 100_000,
			toxic: `{"type": "slow_close", "attributes": {"delay": 3000}}`},
		{name: "slow_close after a 503", want: recovers, size: 100_000, fault: "503", deadline: 2 * time.Second,
			toxic: `{"type": "slow_close", "attributes": {"delay": 3000}}`},
		{name: "timeout of the request", want: recovers, size: 100_000,
			toxic: `{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 50}}`},
		{name: "timeout of the answer", want: recovers, size: 100_000,
			toxic: `{"type": "timeout", "attributes": {"timeout": 50}}`},
		{name: "timeout never, attempt timeout", want: recovers, size: 100_000, attemptTimeout: time.Second,
			toxic: `{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`},
		{name: "timeout never, deadline", want: expires, size: 3_000_000, deadline: 300 * time.Millisecond,
			toxic: `{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`},
	}
	methods := []string{"GET", "PUT", "POST", "keyed POST"}
	run := func(t *testing.T, tt toxicTest, encrypted, warm bool, n int) {
		up := newUpstream(t, encrypted)
		proxy := startToxiproxy(t, up)
		b := base(t, encrypted)
		b.DialContext = dialFirst(proxy.Listen)
		c := &client{t: t, up: up, url: up.URL, deadline: tt.deadline, transport: &retrip.Transport{
			Base: b, Strategy: eager(3, time.Millisecond), AttemptTimeout: tt.attemptTimeout, ReplayBuffer: 4 << 20,
		}}
		if warm { // without the limits, which are for the fault: a handshake may take long, too
			easy := &client{t: t, up: up, url: up.URL, transport: &retrip.Transport{Base: b, Strategy: eager(1, 0)}}
			a := easy.do(call{method: "GET"})
			require.Equal(t, 200, a.status(), a)
		}
		poison(t, proxy, tt.toxic)

		k := call{method: methods[n%4], path: "/", size: tt.size, kind: (n + n/4) % kinds, padding: tt.padding, fault: tt.fault}
		if k.method == "keyed POST" {
			k.method, k.header = "POST", []string{"Idempotency-Key", "k"}
		}
		if k.method == "GET" {
			if strings.Contains(tt.name, "in the request") {
				return // it has no body to be cut in
			}
			k.size = 0
		}
		a := c.do(k)
		what := fmt.Sprint(k, "\n", a)
		switch tt.want {
		case succeeds:
			require.Equal(t, 200, a.status(), what)
			require.NoError(t, a.readErr, what)
			require.Zero(t, a.retries(), what)
		case breaks:
			require.Equal(t, 200, a.status(), what)
			require.Error(t, a.readErr, what)
			require.Zero(t, a.retries(), what)
			require.Equal(t, 1, a.begun, what)
		case expires:
			require.ErrorIs(t, a.err, context.DeadlineExceeded, what)
			require.Less(t, a.took, tt.deadline+time.Second, what)
			require.Equal(t, retrip.Cancelled, a.last().Reason, what)
		case recovers:
			switch {
			case encrypted && warm && tt.attemptTimeout > 0:
				// net/http keeps an HTTP/2 connection though its streams time out,
				// unless told to ping: each attempt meets the same fault.
				var timeout *retrip.AttemptTimeoutError
				require.ErrorAs(t, a.err, &timeout, what)
				require.Less(t, a.took, 3*tt.attemptTimeout+2*time.Second, what)
			case k.repeatable():
				require.Equal(t, 200, a.status(), what)
				require.NoError(t, a.readErr, what)
				if !warm { // else net/http may have repeated it by itself
					require.NotZero(t, a.retries(), what)
				}
			case tt.fault == "503":
				require.Equal(t, 503, a.status(), what)
				require.Equal(t, retrip.NotIdempotent, a.last().Reason, what)
			case a.err != nil:
				require.ErrorIs(t, a.err, retrip.ErrNotIdempotent, what)
			default: // it provably had not arrived
				require.Equal(t, 200, a.status(), what)
				require.Equal(t, 1, a.begun, what)
			}
		}
	}
	for _, tt := range tests {
		for _, encrypted := range []bool{false, true} {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, HTTP/%d, warm %v", tt.name, map[bool]int{false: 1, true: 2}[encrypted], warm), func(t *testing.T) {
					t.Parallel()
					n := 2 * len(methods)
					if tt.attemptTimeout+tt.deadline > 0 {
						n = len(methods) // these take their time
					}
					for i := range n {
						run(t, tt, encrypted, warm, i)
					}
				})
			}
		}
	}
}

// All toxics at once, each on some of the connections: what must hold, holds.
func TestToxiproxyMixed(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/", map[bool]int{false: 1, true: 2}[encrypted]), func(t *testing.T) {
			up := newUpstream(t, encrypted)
			proxy := startToxiproxy(t, up,
				`{"name": "a", "type": "latency", "toxicity": 0.5, "attributes": {"latency": 10, "jitter": 10}}`,
				`{"name": "b", "type": "reset_peer", "toxicity": 0.1, "stream": "upstream", "attributes": {"timeout": 5}}`,
				`{"name": "c", "type": "limit_data", "stream": "upstream", "attributes": {"bytes": 2000000}}`,
				`{"name": "d", "type": "limit_data", "toxicity": 0.5, "attributes": {"bytes": 60000}}`,
				`{"name": "e", "type": "slow_close", "toxicity": 0.3, "attributes": {"delay": 100}}`,
				`{"name": "f", "type": "timeout", "toxicity": 0.1, "attributes": {"timeout": 100}}`,
			)
			c := &client{
				t: t, up: up, url: strings.Replace(up.URL, up.Listener.Addr().String(), proxy.Listen, 1), deadline: 5 * time.Second,
				transport: &retrip.Transport{Base: base(t, encrypted), Strategy: eager(8, time.Millisecond), AttemptTimeout: time.Second},
			}
			outcomes := map[string]*atomic.Int64{"200": {}, "error": {}, "broken off": {}, "retries": {}}
			n := c.load(6, 4*time.Second, func(k call, a answer) {
				outcomes["retries"].Add(int64(a.retries()))
				switch {
				case a.err != nil:
					outcomes["error"].Add(1)
				case a.readErr != nil:
					outcomes["broken off"].Add(1)
				default:
					outcomes["200"].Add(1)
				}
			})
			require.NotZero(t, outcomes["200"].Load())
			for name, count := range outcomes {
				t.Logf("%s: %d of %d", name, count.Load(), n)
			}
		})
	}
}
