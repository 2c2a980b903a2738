//go:build nginx || haproxy || toxiproxy

package realservers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
)

// An upstream is the server at the end of the line. It counts what it is
// delivered by request id, and checks each body that arrived whole.
//
// The X-Fault of a request's first delivery is played on it:
//
//	reset            before the request's body is read
//	reset after      once the request's body is read
//	reset midway     in the middle of the answer's body
//	503              after the body is read, and closes the connection
//	a duration       passes before the answer
type upstream struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	begun map[string]int // deliveries to the handler
	whole map[string]int // those with the body to its end
}

func newUpstream(t *testing.T, encrypted bool) *upstream {
	t.Helper()
	u := &upstream{t: t, begun: map[string]int{}, whole: map[string]int{}}
	u.Server = httptest.NewUnstartedServer(u)
	u.Config.ErrorLog = log.New(io.Discard, "", 0) // broken connections are the point
	if encrypted {
		u.EnableHTTP2 = true
		u.StartTLS()
	} else {
		u.Start()
	}
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, fault := r.Header.Get("X-Id"), r.Header.Get("X-Fault")
	if count(u, u.begun, id) > 1 {
		fault = ""
	}
	if fault == "reset" {
		reset(w)
	}
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // whoever sent it broke off
	}
	sum := fmt.Sprintf("%x", h.Sum(nil))
	if sum != r.Header.Get("X-Sum") {
		u.t.Errorf("%s %s: a body of %d bytes arrived as if whole, and is not what was sent", r.Method, r.URL, n)
	}
	count(u, u.whole, id)
	switch fault {
	case "reset after":
		reset(w)
	case "503":
		w.Header().Set("Connection", "close")
		w.WriteHeader(503)
		return
	}
	if pause, err := time.ParseDuration(fault); err == nil {
		time.Sleep(pause)
	}
	padding, _ := strconv.Atoi(r.Header.Get("X-Padding"))
	w.Header().Set("Content-Length", strconv.Itoa(len(sum)+padding))
	_, _ = io.WriteString(w, sum)
	if fault == "reset midway" {
		_, _ = io.WriteString(w, strings.Repeat("x", padding/2))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(50 * time.Millisecond) // a reset takes along what is still on its way
		reset(w)
	}
	_, _ = io.WriteString(w, strings.Repeat("x", padding))
}

// reset ends the connection, over HTTP/1 with a TCP reset.
func reset(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

func count(u *upstream, counts map[string]int, id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	counts[id]++
	return counts[id]
}

func (u *upstream) deliveries(id string) (begun, whole int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.begun[id], u.whole[id]
}

// eager is standard mode for tests: it waits shortly, and no budget stops it.
func eager(attempts int, wait time.Duration) *retrip.Strategy {
	s := retrip.Standard()
	s.MaxAttempts, s.Quota = attempts, nil
	s.Backoff, s.ThrottleBackoff = retrip.Constant{Wait: wait}, nil
	return s
}

// base is a transport of the test's own, with HTTP/2 if encrypted, which
// trusts the certificate that all servers here have.
func base(t *testing.T, encrypted bool) *http.Transport {
	t.Helper()
	b := &http.Transport{MaxIdleConnsPerHost: 32}
	if encrypted {
		b.ForceAttemptHTTP2 = true
		b.TLSClientConfig = &tls.Config{RootCAs: certificate(t).pool}
	}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// A keyPair is a certificate for 127.0.0.1 with its key: the one that
// httptest's servers have.
type keyPair struct {
	pem  []byte
	pool *x509.CertPool
}

func certificate(t *testing.T) keyPair {
	t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return keyPair{
		pem: append(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...),
		pool: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	}
}

// A client sends what calls say, and checks what must hold for each of them.
type client struct {
	t         *testing.T
	transport *retrip.Transport
	up        *upstream
	url       string
	deadline  time.Duration // of each RoundTrip; 0 is 20 s

	// The server says REFUSED_STREAM of requests that it has passed on, against
	// RFC 9113 8.7. net/http believes it and repeats them, below us: what
	// remains to check is that we don't.
	refusesLate bool
}

// A call is one request to make.
type call struct {
	method, path string
	header       []string // in pairs
	size         int      // of the body
	kind         int      // of the body; see open
	padding      int      // of the answer
	fault        string   // see upstream
}

func (c call) String() string {
	return fmt.Sprintf("%s %s %q, body %d of kind %d, fault %q", c.method, c.path, c.header, c.size, c.kind, c.fault)
}

// repeatable reports whether the call may be delivered twice.
func (c call) repeatable() bool {
	for i := 0; i < len(c.header); i += 2 {
		if c.header[i] == "Idempotency-Key" {
			return true
		}
	}
	return c.method != "POST"
}

// An answer is what the caller got.
type answer struct {
	*http.Response
	body         string
	err          error // RoundTrip's
	readErr      error // of the response body
	events       []retrip.Event
	took         time.Duration // RoundTrip
	begun, whole int           // deliveries
}

func (a answer) status() int {
	if a.Response == nil {
		return 0
	}
	return a.StatusCode
}

// retries is how many attempts followed the first.
func (a answer) retries() int { return a.last().Attempt - 1 }

func (a answer) last() retrip.Event { return a.events[len(a.events)-1] }

func (a answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "status %d, error %v, read error %v, took %v, delivered %d times, %d whole;", a.status(), a.err, a.readErr, a.took, a.begun, a.whole)
	for _, e := range a.events {
		fmt.Fprintf(&b, " [%d: %d %v %v]", e.Attempt, e.Status, e.Err, e.Reason)
	}
	return b.String()
}

var lastID atomic.Int64

func (c *client) do(k call) answer {
	limit := c.deadline
	if limit == 0 {
		limit = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	ctx, trace := retrip.WithTrace(ctx)
	content := make([]byte, k.size)
	_, _ = rand.NewChaCha8([32]byte{byte(k.size), byte(rand.Int())}).Read(content)
	req, err := http.NewRequestWithContext(ctx, k.method, c.url+k.path, open(c.t, content, k.kind))
	if err != nil {
		c.t.Error(err)
		return answer{err: err}
	}
	id, sum := strconv.FormatInt(lastID.Add(1), 10), fmt.Sprintf("%x", sha256.Sum256(content))
	for i := 0; i < len(k.header); i += 2 {
		req.Header.Set(k.header[i], k.header[i+1])
	}
	req.Header.Set("X-Id", id)
	req.Header.Set("X-Sum", sum)
	req.Header.Set("X-Fault", k.fault)
	req.Header.Set("X-Padding", strconv.Itoa(k.padding))
	if k.kind != chunked {
		req.ContentLength = int64(k.size)
	}

	start := time.Now()
	var a answer
	a.Response, a.err = c.transport.RoundTrip(req)
	a.took = time.Since(start)
	if a.Response != nil {
		var body []byte
		body, a.readErr = io.ReadAll(a.Body)
		_ = a.Body.Close()
		a.body = string(body)
	}
	a.events = trace.Requests()[0]
	a.begun, a.whole = c.up.deliveries(id)
	c.check(k, a, sum, limit)
	return a
}

// check asserts what holds whatever goes wrong on the way.
func (c *client) check(k call, a answer, sum string, limit time.Duration) {
	fail := func(what string) { c.t.Errorf("%s\n%v\n%v", what, k, a) }
	if (a.Response == nil) == (a.err == nil) {
		fail("neither a response nor an error, or both")
	}
	if !k.repeatable() && a.begun > 1 && (!c.refusesLate || a.retries() > 0) {
		fail("what must not be repeated was delivered twice")
	}
	if a.took > limit+2*time.Second { // the machine may be busy
		fail("RoundTrip was late")
	}
	if a.status() == 200 && a.whole == 0 {
		fail("200, and the body did not arrive whole")
	}
	if a.status() == 200 && a.readErr == nil && k.method != "HEAD" && a.body != sum+strings.Repeat("x", k.padding) {
		fail("the answer is not what the upstream said")
	}
}

// The kinds of request body.
const (
	inMemory = iota // net/http knows how to reopen it
	opaque          // nobody does
	chunked         // an opaque one whose length is not announced
	file            // from the middle on
	kinds
)

func open(t *testing.T, content []byte, kind int) io.Reader {
	switch {
	case len(content) == 0:
		return nil
	case kind == inMemory:
		return bytes.NewReader(content)
	case kind == file:
		f, err := os.CreateTemp(t.TempDir(), "body")
		if err == nil {
			_, err = f.Write(append([]byte("skipped"), content...))
		}
		if err == nil {
			_, err = f.Seek(int64(len("skipped")), io.SeekStart)
		}
		if err != nil {
			t.Error(err)
		}
		return f
	default:
		return struct{ io.Reader }{bytes.NewReader(content)}
	}
}

// together makes the calls at once and returns their answers.
func (c *client) together(calls ...call) []answer {
	answers := make([]answer, len(calls))
	var wg sync.WaitGroup
	for i, k := range calls {
		wg.Go(func() { answers[i] = c.do(k) })
	}
	wg.Wait()
	return answers
}

// load makes calls from several goroutines for a while, and hands each with
// its answer to check. The calls vary in method, body and pace.
func (c *client) load(goroutines int, d time.Duration, check func(call, answer)) (made int64) {
	var (
		wg  sync.WaitGroup
		n   atomic.Int64
		end = time.Now().Add(d)
	)
	for g := range goroutines {
		wg.Go(func() {
			for i := g; time.Now().Before(end) && !c.t.Failed(); i++ {
				k := call{
					method: []string{"GET", "PUT", "POST", "PUT", "POST"}[i%5], path: "/load",
					kind: rand.IntN(kinds), padding: rand.IntN(20_000),
					fault: []string{"", "", "", "2ms", "20ms", "400ms"}[rand.IntN(6)],
				}
				if k.method != "GET" {
					k.size = 1 + rand.IntN(300_000)
				}
				if i%10 == 4 {
					k.header = []string{"Idempotency-Key", "k"}
				}
				check(k, c.do(k))
				n.Add(1)
			}
		})
	}
	wg.Wait()
	require.NotZero(c.t, n.Load())
	return n.Load()
}
