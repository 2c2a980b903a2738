package retrip

import (
	"bytes"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the tests over real connections share. Such a test has net/http and the
// kernel beside it, so it may judge only what is ours: it counts what the base
// was called with, and does not expect of the server to have seen as much; it
// leaves to net/http which connection it uses and which copies of a body it
// opens; and it waits for what must happen with patience.

// patience bounds what takes a moment, unless it never comes.
const patience = 30 * time.Second

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("this never came: " + what)
		}
	}
}

// noLeaks checks that no goroutine is left when the test is over.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(patience); runtime.NumGoroutine() > before; {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(time.Millisecond)
		}
	})
}

var allProtocols = []string{"h1", "h2", "h2c"}

// protocols says what a client or server speaks: "h1", "h2" or "h2c".
func protocols(name string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(name == "h1")
	p.SetHTTP2(name == "h2")
	p.SetUnencryptedHTTP2(name == "h2c")
	return p
}

// serve starts net/http's own server with a handler, and returns its URL and a
// base that reaches it.
func serve(t *testing.T, protocol string, handler http.HandlerFunc) (url string, base *http.Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.Protocols = protocols(protocol)
	srv.Config.Protocols.SetHTTP1(protocol != "h2c")
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if protocol == "h2" {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		base = srv.Client().Transport.(*http.Transport)
		base.Protocols = protocols("h2")
	} else {
		srv.Start()
		base = &http.Transport{Protocols: protocols(protocol)}
	}
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(base.CloseIdleConnections)
	return srv.URL, base
}

func requestTo(t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	return req
}

// fetch gets a page to its end, and tells what net/http did with connections:
// whether the last one it used had served before, and whether it has put it
// aside for the next request. It need not: it drops one over which it has not
// finished writing 50 ms after the answer came (persistConn.wroteRequest).
func fetch(t *testing.T, rt http.RoundTripper, url string) (reused, kept bool) {
	t.Helper()
	var got, put atomic.Bool
	req := requestTo(t, "GET", url)
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

// redirected sends every request to one server.
func redirected(rt http.RoundTripper, to string) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		there, err := http.NewRequestWithContext(req.Context(), req.Method, to, req.Body)
		if err != nil {
			return nil, err
		}
		return rt.RoundTrip(there)
	})
}

// A countingBase counts its calls, what is read of its responses, and their
// closes.
type countingBase struct {
	http.RoundTripper
	calls  atomic.Int64
	mu     sync.Mutex
	bodies []*countedBody
}

type countedBody struct {
	trackedBody
	read atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p) // also during Close, which ends it
	b.read.Add(int64(n))
	return n, err
}

func (c *countingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	resp, err := c.RoundTripper.RoundTrip(req)
	if resp != nil && resp.Body != http.NoBody {
		body := &countedBody{trackedBody: trackedBody{ReadCloser: resp.Body}}
		resp.Body = body
		c.mu.Lock()
		c.bodies = append(c.bodies, body)
		c.mu.Unlock()
	}
	return resp, err
}

func (c *countingBase) requireClosed(t *testing.T, most int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		eventually(t, func() bool { return body.closes() == 1 }, "the close of a response's body")
		require.LessOrEqual(t, body.read.Load(), most)
	}
}

// A bodyKind is a way to give a request a body.
type bodyKind struct {
	name    string
	content []byte
	open    opener
	over    bool // and is longer than the ReplayBuffer
	// The user's own GetBody gives bodies whose Read may fail with any error,
	// also one that looks like the network's, so that no error is a proof.
	suspect bool
}

// An opener sets the body of a request, and returns what reports that all that
// was opened is closed, and once where it went through our hands.
type opener func(*testing.T, *http.Request, []byte) (closed func() bool)

const tableBuffer = 32 << 10 // a ReplayBuffer between small and large

var (
	small = randomBytes(16<<10, 1)
	large = randomBytes(256<<10, 2)
)

func randomBytes(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

var bodyKinds = []bodyKind{
	{name: "none", open: noBody},
	{name: "GetBody", content: large, open: inMemoryBody},
	{name: "own GetBody", content: large, open: reopenedBody, suspect: true},
	{name: "file", content: large, open: fileBody(0)},
	{name: "positioned file", content: large, open: fileBody(12_345)},
	{name: "small opaque", content: small, open: opaqueBody},
	{name: "in memory without GetBody", content: small, open: bareMemoryBody},
	{name: "large opaque", content: large, open: opaqueBody, over: true},
}

func noBody(*testing.T, *http.Request, []byte) func() bool { return func() bool { return true } }

func inMemoryBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool { return true }
}

// bareMemoryBody is what is left when a body is set by hand: opaque, though its
// source never blocks.
func bareMemoryBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	return func() bool { return true }
}

// reopenedBody has a GetBody of the caller's own. The copies that net/http
// opens by itself are between the caller and it: it neither reads nor closes
// that of a stream which meets a connection that is no longer to be used
// (http2shouldRetryRequest in h2_bundle.go).
func reopenedBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	var mu sync.Mutex
	var opened []*trackedBody
	req.GetBody = func() (io.ReadCloser, error) {
		body := &trackedBody{ReadCloser: io.NopCloser(bytes.NewReader(content))}
		direct, _, _, _ := runtime.Caller(1)
		watched, _, _, _ := runtime.Caller(2) // through a GetBody of ours
		if !inNetHTTP(direct) && !inNetHTTP(watched) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, body)
		}
		return body, nil
	}
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, body := range opened {
			if body.closes() == 0 { // net/http closes some twice, and that is its affair
				return false
			}
		}
		return true
	}
}

func inNetHTTP(pc uintptr) bool {
	return strings.HasPrefix(runtime.FuncForPC(pc).Name(), "net/http")
}

func fileBody(at int) opener {
	return func(t *testing.T, req *http.Request, content []byte) func() bool {
		f := openFile(t, strings.Repeat("-", at)+string(content), int64(at))
		return setFile(req, f, content)
	}
}

// sameFile is fileBody for many requests with one large content.
func sameFile(t *testing.T, content []byte, at int) opener {
	f := openFile(t, strings.Repeat("-", at)+string(content), 0)
	name := f.Name()
	require.NoError(t, f.Close())
	return func(t *testing.T, req *http.Request, content []byte) func() bool {
		f, err := os.Open(name)
		require.NoError(t, err)
		_, err = f.Seek(int64(at), io.SeekStart)
		require.NoError(t, err)
		return setFile(req, f, content)
	}
}

func setFile(req *http.Request, f *os.File, content []byte) func() bool {
	req.Body, req.ContentLength = f, int64(len(content))
	return func() bool {
		_, err := f.Stat()
		return errors.Is(err, os.ErrClosed)
	}
}

func opaqueBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	body := &trackedBody{ReadCloser: io.NopCloser(onlyReader{bytes.NewReader(content)})}
	req.Body, req.ContentLength = body, -1
	return func() bool { return body.closes() == 1 }
}
