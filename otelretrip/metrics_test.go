package otelretrip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
)

func TestMetrics(t *testing.T) {
	const server = " server.address=example.com server.port=443"
	reset := fails(&net.OpError{Op: "read", Err: syscall.ECONNRESET})
	for _, test := range []struct {
		name  string
		steps []roundTripper
		want  []string
	}{
		{"success", []roundTripper{status(200)}, []string{
			"http.client.request.duration http.request.method=GET http.response.status_code=200" + server + ": 1 in 0s",
			"retrip.attempts retrip.class=success" + server + ": 1",
			"retrip.quota.tokens" + server + ": 500",
			"retrip.request.attempts retrip.outcome=success" + server + ": 1 with 1",
			"retrip.request.duration retrip.outcome=success" + server + ": 1 in 0s",
		}},
		{"retries", []roundTripper{status(503), reset, status(200)}, []string{
			"http.client.request.duration error.type=503 http.request.method=GET http.response.status_code=503" + server + ": 1 in 0s",
			"http.client.request.duration error.type=read: connection reset by peer http.request.method=GET" + server + ": 1 in 0s",
			"http.client.request.duration http.request.method=GET http.response.status_code=200" + server + ": 1 in 0s",
			"retrip.attempts retrip.class=success" + server + ": 1",
			"retrip.attempts retrip.class=transient" + server + ": 2",
			"retrip.quota.tokens" + server + ": 495",
			"retrip.request.attempts retrip.outcome=recovered" + server + ": 1 with 3",
			"retrip.request.duration retrip.outcome=recovered" + server + ": 1 in 0.3s",
			"retrip.retries" + server + ": 2",
			"retrip.wait retrip.wait.from=backoff" + server + ": 2 in 0.3s",
		}},
		{"give-up", []roundTripper{status(429, "Retry-After", "2"), status(503, "Retry-After", "90")}, []string{
			"http.client.request.duration error.type=429 http.request.method=GET http.response.status_code=429" + server + ": 1 in 0s",
			"http.client.request.duration error.type=503 http.request.method=GET http.response.status_code=503" + server + ": 1 in 0s",
			"retrip.attempts retrip.class=throttled" + server + ": 1",
			"retrip.attempts retrip.class=transient" + server + ": 1",
			"retrip.give_ups retrip.reason=wait over cap" + server + ": 1",
			"retrip.quota.tokens" + server + ": 495",
			"retrip.request.attempts retrip.outcome=failed" + server + ": 1 with 2",
			"retrip.request.duration retrip.outcome=failed" + server + ": 1 in 2s",
			"retrip.retries" + server + ": 1",
			"retrip.wait retrip.wait.from=server" + server + ": 1 in 2s",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit()
				transport, err := Wrap(&retrip.Transport{
					Base: script(test.steps...), PerKey: func(string) *retrip.Strategy { return standard() },
				}, k.options)
				require.NoError(t, err)
				_, err = get(t, transport, "https://EXAMPLE.com/")
				require.NoError(t, err)
				require.Equal(t, test.want, k.lines(t))

				require.NoError(t, transport.Close())
				require.Empty(t, matching(k.lines(t), "retrip.quota"), "closed")
			})
		})
	}
}

// What the caller called off counts as neither success nor failure; what was
// never sent counts as a request, not as an attempt.
func TestMetricsOfCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit()
		m, err := NewMetrics(k.options)
		require.NoError(t, err)
		transport := &retrip.Transport{Base: script(status(503)), Strategy: standard(), Observe: m.Observe}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		ctx, stop := context.WithCancel(ctx)
		time.AfterFunc(10*time.Millisecond, stop)
		s := standard()
		s.Backoff = retrip.Constant{Wait: 20 * time.Millisecond}
		req, err := http.NewRequestWithContext(retrip.WithStrategy(ctx, s), http.MethodPut, "http://[::1]:8080/", nil)
		require.NoError(t, err)
		_, err = transport.RoundTrip(req)
		require.ErrorIs(t, err, retrip.ErrCancelled)
		const server = " server.address=::1 server.port=8080"
		require.Equal(t, []string{
			"http.client.request.duration error.type=503 http.request.method=PUT http.response.status_code=503" + server + ": 1 in 0s",
			"retrip.attempts retrip.class=transient" + server + ": 1",
			"retrip.give_ups retrip.reason=cancelled" + server + ": 1",
			"retrip.request.attempts retrip.outcome=cancelled" + server + ": 1 with 1",
			"retrip.request.duration retrip.outcome=cancelled" + server + ": 1 in 0.01s",
			"retrip.wait retrip.wait.from=backoff" + server + ": 1 in 0.02s",
		}, k.lines(t))
	})
}

// The outcome says whether callers are hurt. A 4xx that is not retried says that
// the request is wrong: "rejected". A deadline that passed is a failure of the
// server, other than a call that its caller cancelled.
func TestOutcomes(t *testing.T) {
	hangs := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	for _, test := range []struct {
		name   string
		base   roundTripper
		method string
		want   string
	}{
		{"not found", status(404), http.MethodGet, "rejected"},
		{"not implemented", status(501), http.MethodGet, "failed"},
		{"throttled to the end", status(429), http.MethodGet, "failed"},
		{"a POST that meets a 503", status(503), http.MethodPost, "failed"},
		{"a certificate that is wrong", fails(&tls.CertificateVerificationError{Err: errors.New("expired")}), http.MethodGet, "failed"},
		{"a server that hangs", hangs, http.MethodGet, "timeout"},
		{"a wait that the deadline forbids", status(503, "Retry-After", "30"), http.MethodGet, "failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit()
				transport, err := Wrap(&retrip.Transport{Base: test.base}, k.options)
				require.NoError(t, err)
				req, err := http.NewRequestWithContext(t.Context(), test.method, "http://example.com/", nil)
				require.NoError(t, err)
				client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
				if resp, err := client.Do(req); err == nil {
					require.NoError(t, resp.Body.Close())
				}
				require.Len(t, matching(k.lines(t), "retrip.request.attempts retrip.outcome="+test.want+" "), 1, k.lines(t))
			})
		})
	}
}

func TestMetricsOfLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit()
		m, err := NewMetrics(k.options)
		require.NoError(t, err)
		transport := &retrip.Transport{
			Base:    script(status(200), status(429), status(200)),
			PerKey:  func(string) *retrip.Strategy { return retrip.Adaptive() },
			Observe: m.Observe,
		}
		_, err = m.Watch(transport)
		require.NoError(t, err)
		_, err = get(t, transport, "http://example.com/")
		require.NoError(t, err)
		require.Empty(t, matching(k.lines(t), "retrip.limiter"), "nothing is limited yet")

		go func() { _, _ = get(t, transport, "http://example.com/") }()
		synctest.Wait() // throttled
		const server = " server.address=example.com server.port=80: "
		require.Equal(t, []string{"0.5"}, matching(k.lines(t), "retrip.limiter.rate"+server))
		for range 3 {
			go func() { _, _ = get(t, transport, "http://example.com/") }()
		}
		synctest.Wait()
		require.Equal(t, []string{"3"}, matching(k.lines(t), "retrip.limiter.waiting"+server))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"0"}, matching(k.lines(t), "retrip.limiter.waiting"+server))
		require.Len(t, matching(k.lines(t), "retrip.admission.delay"+server), 1)
	})
}

// Several keys of one server are one gauge, with the worst of them, and keys
// are not told: nobody knows what a user makes them of.
func TestGaugesOfKeys(t *testing.T) {
	k := newKit()
	m, err := NewMetrics(k.options)
	require.NoError(t, err)
	transport := &retrip.Transport{
		Base: script(status(200)),
		Key:  func(req *http.Request) string { return req.URL.Host + req.URL.Path },
		PerKey: func(key string) *retrip.Strategy {
			s := standard()
			if strings.HasSuffix(key, "/b") {
				s.Quota = retrip.NewBucket(300)
			}
			return s
		},
		Observe: m.Observe,
	}
	_, err = m.Watch(transport)
	require.NoError(t, err)
	for _, path := range []string{"a", "b", "c"} {
		_, err := get(t, transport, "https://example.com/"+path)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"300"}, matching(k.lines(t), "retrip.quota.tokens server.address=example.com server.port=443: "))

	limited := func(rate float64, waiting int) retrip.LimiterState {
		return retrip.LimiterState{Enabled: true, Rate: rate, Waiting: waiting}
	}
	require.Equal(t, retrip.KeyStats{Tokens: 3, Limiter: limited(2, 5)},
		worse(retrip.KeyStats{Tokens: 3, Limiter: limited(4, 2)}, retrip.KeyStats{Tokens: 7, Limiter: limited(2, 3)}))
	require.Equal(t, retrip.KeyStats{Tokens: 7, Limiter: limited(4, 0)},
		worse(retrip.KeyStats{Tokens: -1, Limiter: limited(4, 0)}, retrip.KeyStats{Tokens: 7}))
	require.Equal(t, retrip.KeyStats{Tokens: 7, Limiter: limited(4, 0)},
		worse(retrip.KeyStats{Tokens: 7}, retrip.KeyStats{Tokens: -1, Limiter: limited(4, 0)}))
}

// A state that is all requests' is no server's.
func TestGaugesOfOneStrategy(t *testing.T) {
	k := newKit()
	transport, err := Wrap(&retrip.Transport{Base: script(status(200)), Strategy: standard()}, k.options)
	require.NoError(t, err)
	_, err = get(t, transport, "https://example.com/")
	require.NoError(t, err)
	require.Equal(t, []string{"500"}, matching(k.lines(t), "retrip.quota.tokens: "))
}

// Hundreds of servers with hundreds of statuses, and as many methods, are no more
// than configured.
func TestServersAreBounded(t *testing.T) {
	k := newKit()
	k.options.MaxServers = 10
	k.options.TracerProvider = noop.NewTracerProvider() // thousands of spans are not looked at
	code := 0
	transport, err := Wrap(&retrip.Transport{
		Base:   roundTripper(func(req *http.Request) (*http.Response, error) { return status(code)(req) }),
		PerKey: func(string) *retrip.Strategy { s := standard(); s.MaxAttempts = 1; return s },
	}, k.options)
	require.NoError(t, err)
	visit := func(hosts, codes int) {
		for i := range hosts * codes {
			code = 100 + i/hosts*37%900
			url := fmt.Sprintf("http://host%d.example:%d/", i%hosts, 1+i%hosts)
			req, err := http.NewRequestWithContext(t.Context(), fmt.Sprint("M", i), url, nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(req)
			require.NoError(t, err)
		}
	}
	visit(20, 100)
	lines := k.lines(t)
	visit(500, 5)
	require.Len(t, k.lines(t), len(lines))
	const servers = 11 // with "_OTHER"
	for metric, most := range map[string]int{
		"http.client.request.duration": servers * (maxAttemptSets + 2),
		"retrip.attempts":              servers * 6,
		"retrip.give_ups":              servers * 10,
		"retrip.request.duration":      servers * 4,
		"retrip.quota.tokens":          servers,
	} {
		n := len(matching(lines, metric+" "))
		require.GreaterOrEqual(t, n, servers, metric)
		require.LessOrEqual(t, n, most, metric)
	}
	require.Len(t, matching(lines, "retrip.attempts retrip.class=success server.address=_OTHER: "), 1)
	require.Len(t, matching(lines, "retrip.attempts retrip.class=success server.address=host9.example server.port=10: "), 1)

	k.options.MaxServers = -1
	_, err = NewMetrics(k.options)
	require.EqualError(t, err, "otelretrip: Options.MaxServers is -1: use 0 for 100, or more")
}

// What is no name is not told as one.
func TestAddresses(t *testing.T) {
	for url, want := range map[string]address{
		"http://example.com":                  {"example.com", 80},
		"https://Example.COM:443/":            {"example.com", 443},
		"http://u:p@[fe80::1]:8080":           {"fe80::1", 8080},
		"gopher://example.com":                {"example.com", 0},
		"http://example.com:99999":            {"example.com", 0},
		"http://%ff%fe/":                      {other, 0},
		"http:///path":                        {other, 0},
		"http://" + strings.Repeat("a.", 127): {other, 0},
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		require.NoError(t, err)
		require.Equal(t, want, addressOf(req.URL), url)
	}
}

// A successful request costs at most 6 allocations in metrics, and nothing more
// where the number of servers is used up.
func TestSuccessAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector itself allocates: .ci/run counts without it")
	}
	k := newKit()
	k.options.MaxServers = 1
	m, err := NewMetrics(k.options)
	require.NoError(t, err)
	resp := &http.Response{StatusCode: 200, Body: http.NoBody}
	transport := &retrip.Transport{
		Base:    roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil }),
		Observe: m.Observe,
	}
	_, err = m.Watch(transport)
	require.NoError(t, err)
	for _, url := range []string{"https://example.com/path?query", "https://further.example/", "https://another.example/"} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		require.NoError(t, err)
		n := testing.AllocsPerRun(1000, func() {
			if _, err := transport.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v allocations", url, n)
		require.LessOrEqual(t, n, 6.0)
	}

	hostile := newServer(address{host: "hostile.example"})
	for status := range 2 * maxAttemptSets {
		hostile.with(labels{method: http.MethodGet, status: status})
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { hostile.with(labels{method: http.MethodGet, status: 200}) }))
}

func TestTable(t *testing.T) {
	table := table[string, int]{max: 2}
	for range 2 {
		for i, key := range []string{"a", "b", "c"} {
			value, ok := table.add(key, i)
			require.Equal(t, i < 2, ok)
			require.Equal(t, i < 2, ok && value == i)
		}
		require.True(t, table.full())
	}
	value, _ := table.add("a", 7)
	require.Zero(t, value, "the first stays")
}

func TestErrorTypes(t *testing.T) {
	require.Equal(t, other, errorType(retrip.Event{Err: errors.New("secret")}))
	require.Equal(t, "timeout", errorType(retrip.Event{Err: &retrip.AttemptTimeoutError{After: time.Second}}))
	require.Equal(t, "404", errorType(retrip.Event{Status: 404}))
	require.Empty(t, errorType(retrip.Event{Status: 302}))
}
