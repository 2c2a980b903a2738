package testkit

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What follows is for tests over real connections. Such a test has net/http and
// the kernel beside it, so it may judge only what is ours: it counts what the
// base was called with, and does not expect of the server to have seen as much;
// it leaves to net/http which connection it uses and which copies of a body it
// opens; and it waits for what must happen with patience.

// Patience bounds what takes a moment, unless it never comes.
const Patience = 30 * time.Second

// Eventually waits for a condition.
func Eventually(t testing.TB, condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(Patience); !condition(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("this never came: " + what)
		}
	}
}

// NoLeaks checks that no goroutine is left when the test is over.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(Patience); runtime.NumGoroutine() > before; {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// AllProtocols are what Protocols and Serve take.
var AllProtocols = []string{"h1", "h2", "h2c"}

// Protocols says what a client or server speaks: "h1", "h2" or "h2c".
func Protocols(name string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(name == "h1")
	p.SetHTTP2(name == "h2")
	p.SetUnencryptedHTTP2(name == "h2c")
	return p
}

// Serve starts net/http's own server with a handler, and returns its URL and a
// base that reaches it. Both end with the test.
func Serve(t testing.TB, protocol string, handler http.HandlerFunc) (url string, base *http.Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.Protocols = Protocols(protocol)
	srv.Config.Protocols.SetHTTP1(protocol != "h2c")
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if protocol == "h2" {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		base = srv.Client().Transport.(*http.Transport)
		base.Protocols = Protocols("h2")
	} else {
		srv.Start()
		base = &http.Transport{Protocols: Protocols(protocol)}
	}
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(base.CloseIdleConnections)
	return srv.URL, base
}

// Fetch gets a page to its end, and tells what net/http did with connections:
// whether the last one it used had served before, and whether it has put it
// aside for the next request. It need not: it drops one over which it has not
// finished writing 50 ms after the answer came (persistConn.wroteRequest).
func Fetch(t testing.TB, rt http.RoundTripper, url string) (reused, kept bool) {
	t.Helper()
	var got, put atomic.Bool
	req := RequestTo(t, "GET", url, nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn:     func(info httptrace.GotConnInfo) { got.Store(info.Reused) },
		PutIdleConn: func(err error) { put.Store(err == nil) }, // before the end of the body is told
	}))
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return got.Load(), put.Load()
}

// Redirected sends every request to one server.
func Redirected(rt http.RoundTripper, to string) http.RoundTripper {
	return Step(func(req *http.Request) (*http.Response, error) {
		there, err := http.NewRequestWithContext(req.Context(), req.Method, to, req.Body)
		if err != nil {
			return nil, err
		}
		return rt.RoundTrip(there)
	})
}
