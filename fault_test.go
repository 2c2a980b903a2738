//go:build faults

package retrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
)

var long = flag.Bool("long", false, "run the tests that repeat a race as often as the release asks for")

// What must happen when a request meets a fault is not written down case by
// case but follows from three questions, which predict asks: is the outcome
// worth a retry, may the request be sent twice, and can its body be?

// A fault is what happens to the first attempt; any other is answered 200.
type fault struct {
	name  string
	play  faultserver.Play // of the first connection
	rest  faultserver.Play // of all others
	setup func(*http.Transport)

	takes    taken // how much of the body the server takes before it strikes
	status   int   // what it answers, or 0
	broken   bool  // that answer's body breaks off
	hopeless bool  // the same request would meet the same fate
	proof    bool  // the server has not processed the request
	below    below // does net/http itself repeat the request, unseen by us?
	conns    int   // after a retry; 0 where that is a race, as over HTTP/2: net/http may dial one to spare
	warm     bool  // the connection has served a request before
	slow     bool  // a timeout has to pass
	forgets  bool  // net/http opens a copy of the body that it neither reads nor closes
}

type taken int

const (
	nothing taken = iota
	some          // how much the client has read of the body by then is a race
	whole
)

// A method is the part of a request that says whether it may be sent twice.
type method struct {
	name, key string
	safe      bool
	replayed  bool // net/http takes it for idempotent; PUT and DELETE it does not
}

var methods = []method{
	{name: "GET", safe: true, replayed: true},
	{name: "PUT", safe: true},
	{name: "POST"},
	{name: "POST", key: "Idempotency-Key", safe: true, replayed: true},
}

// below tells what net/http replays by itself, if the request has no body or a
// GetBody, which every request that we can send again has. It is not an
// attempt of ours.
type below int

const (
	never        below = iota
	ifIdempotent       // its own idea of that: a connection that was reused, and closed before the answer began
	always             // streams that the server declared untouched, and, for reasons of its own, PROTOCOL_ERROR
)

// A bodyKind is a way to give a request a body.
type bodyKind struct {
	name    string
	content []byte
	// open sets the body, and returns what reports that all that was opened is
	// closed, and once where it went through our hands.
	open func(*testing.T, *http.Request, []byte) (closed func() bool)
	over bool // longer than the ReplayBuffer, and can't be reopened
	// The user's own GetBody gives bodies whose Read may fail with any error,
	// also one that looks like the network's, so that no error is a proof.
	suspect bool
}

const tableBuffer = 32 << 10 // the ReplayBuffer of the table

var (
	small = randomBytes(16<<10, 1)
	large = randomBytes(256<<10, 2) // above the ReplayBuffer
)

func randomBytes(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

var bodyKinds = []bodyKind{
	{name: "none", open: func(*testing.T, *http.Request, []byte) func() bool { return func() bool { return true } }},
	{name: "GetBody", content: large, open: inMemoryBody},
	{name: "own GetBody", content: large, open: reopenedBody, suspect: true},
	{name: "file", content: large, open: fileBody(0)},
	{name: "positioned file", content: large, open: fileBody(12_345)},
	{name: "small opaque", content: small, open: opaqueBody},
	{name: "large opaque", content: large, open: opaqueBody, over: true},
}

func inMemoryBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool { return true }
}

func reopenedBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	var opened []*trackedBody
	req.GetBody = func() (io.ReadCloser, error) {
		opened = append(opened, &trackedBody{ReadCloser: io.NopCloser(bytes.NewReader(content))})
		return opened[len(opened)-1], nil
	}
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool {
		for _, body := range opened {
			if body.closes() == 0 { // net/http closes some twice, and that is its affair
				return false
			}
		}
		return true
	}
}

func fileBody(at int) func(*testing.T, *http.Request, []byte) func() bool {
	return func(t *testing.T, req *http.Request, content []byte) func() bool {
		f := openFile(t, strings.Repeat("-", at)+string(content), int64(at))
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

// An outcome is what the caller sees of it.
type outcome struct {
	Status   int // 0 is an error
	Attempts int
	Reason   Reason
}

// predict is the reference: what must become of a request that meets f. passed
// tells whether more than the ReplayBuffer was read of its body by then.
func predict(f fault, m method, b bodyKind, passed bool) outcome {
	replayable := !b.over || !passed
	replays := f.below == always || f.below == ifIdempotent && m.replayed
	proof := f.proof && !(b.suspect && f.status == 0)
	switch {
	case replays && replayable:
		return outcome{200, 1, 0}
	case f.status != 0 && f.status < 400:
		return outcome{f.status, 1, 0}
	case f.hopeless:
		return outcome{f.status, 1, NotRetryable}
	case !m.safe && !proof:
		return outcome{f.status, 1, NotRepeatable}
	case !replayable:
		return outcome{f.status, 1, BodyNotReplayable}
	default:
		return outcome{200, 2, 0}
	}
}

func http1Faults() []fault {
	ok := faultserver.Answer(200)
	secureOK := faultserver.Secure(ok, "http/1.1")
	overTLS := func(base *http.Transport) {
		base.TLSClientConfig = &tls.Config{RootCAs: faultserver.RootCAs()}
	}
	half := func(status int) string {
		return strings.TrimSuffix(faultserver.Response(status, strings.Repeat("x", 100)), strings.Repeat("x", 50))
	}
	return []fault{
		{name: "refused", play: faultserver.Refuse, rest: ok, proof: true, conns: 1},
		{name: "reset at once", play: faultserver.ResetAtOnce, rest: ok, takes: some, conns: 2},
		{name: "reset before headers", play: faultserver.ResetBeforeHeaders, rest: ok, takes: whole, conns: 2},
		{name: "closed before headers", play: faultserver.CloseBeforeHeaders, rest: ok, takes: whole, conns: 2},
		{name: "reset within headers", play: faultserver.SayAndReset("HTTP/1.1 200 OK\r\nX: "), rest: ok, takes: whole, conns: 2},
		{name: "reset after headers", play: faultserver.SayAndReset("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\n"), rest: ok,
			takes: whole, status: 503, conns: 2},
		{name: "reset mid-body", play: faultserver.SayAndReset(half(503)), rest: ok, takes: whole, status: 503, conns: 2},
		{name: "success, reset mid-body", play: faultserver.SayAndReset(half(200)), rest: ok, takes: whole, status: 200, broken: true},
		{name: "truncated", play: faultserver.Say(half(503)), rest: ok, takes: whole, status: 503, conns: 2},
		{name: "success, truncated", play: faultserver.Say(half(200)), rest: ok, takes: whole, status: 200, broken: true},
		{name: "success, more than its length", play: faultserver.Say(faultserver.Response(200, "200") + "and more"), rest: ok, takes: whole, status: 200},
		{name: "stalled", play: faultserver.Stall, rest: ok, takes: whole, slow: true, conns: 2},
		{name: "trickle", play: faultserver.Trickle(503, 0), rest: ok, takes: whole, status: 503},
		{name: "endless", play: faultserver.Endless(503), rest: ok, takes: whole, status: 503, conns: 2},
		{name: "early, then read", play: faultserver.Serve(earlyOnce), rest: ok, takes: whole, status: 503},
		{name: "early, then shut down", play: faultserver.Early(503, 2*tableBuffer, faultserver.ShutDown), rest: ok, takes: whole, status: 503, conns: 2},
		{name: "closed while idle", play: faultserver.ClosedIdle, rest: ok, takes: whole, below: ifIdempotent, warm: true, conns: 2},
		{name: "garbage", play: faultserver.Garbage, rest: ok, takes: whole, hopeless: true},
		{name: "unavailable", play: faultserver.Answer(503, "Connection: close"), rest: ok, takes: whole, status: 503, conns: 2},
		{name: "too many requests", play: faultserver.Answer(429, "Connection: close"), rest: ok, takes: whole, status: 429, proof: true, conns: 2},
		{name: "not found", play: faultserver.Answer(404), rest: ok, takes: whole, status: 404, hopeless: true},

		{name: "TLS: handshake failure", play: faultserver.HandshakeFailure, rest: secureOK, setup: overTLS, proof: true, conns: 2},
		{name: "TLS: unknown authority", play: faultserver.UnknownAuthority, rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: another host", play: faultserver.WrongHost, rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: answered in plain HTTP", play: faultserver.NoTLS("HTTP/1.0 400 Bad Request\r\n\r\n"), rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: answered in garbage", play: faultserver.NoTLS("SSH-2.0-OpenSSH_9.6\r\n"), rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: reset before headers", play: faultserver.Secure(faultserver.ResetBeforeHeaders), rest: secureOK, setup: overTLS, takes: whole, conns: 2},
	}
}

// earlyOnce answers the first request while its body is on its way, and the
// others when they are whole, on the same connection if the client likes.
func earlyOnce(c *faultserver.Conn, in *faultserver.Incoming) bool {
	if in.Nth == 1 {
		return c.AnswerEarly(in, 503, 2*tableBuffer, faultserver.KeepAlive)
	}
	if !c.ReceiveAll(in) {
		return false
	}
	_, err := io.WriteString(c, faultserver.Response(200, "200"))
	return err == nil
}

func http2Faults() []fault {
	// once strikes the first request, when it is whole, and serves the rest.
	once := func(strike func(*faultserver.Stream)) faultserver.Play {
		return faultserver.HTTP2{Whole: func(s *faultserver.Stream) {
			if s.Nth == 1 {
				strike(s)
			} else {
				s.Answer(200)
			}
		}}.Play
	}
	reset := func(code uint32) faultserver.Play {
		return once(func(s *faultserver.Stream) { s.Reset(code) })
	}
	pinging := func(base *http.Transport) {
		base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 50 * time.Millisecond, PingTimeout: 100 * time.Millisecond}
	}
	faults := []fault{
		{name: "REFUSED_STREAM", play: reset(faultserver.RefusedStream), below: always},
		{name: "INTERNAL_ERROR", play: reset(faultserver.InternalError)},
		{name: "CANCEL", play: reset(faultserver.Cancel)},
		{name: "ENHANCE_YOUR_CALM", play: reset(faultserver.EnhanceYourCalm)},
		{name: "PROTOCOL_ERROR", play: reset(faultserver.ProtocolError), below: always, forgets: true},
		{name: "GOAWAY before our stream", below: always, forgets: true,
			play: once(func(s *faultserver.Stream) { s.GoAway(0, faultserver.NoError) })},
		{name: "GOAWAY after our stream, and no answer",
			play: once(func(s *faultserver.Stream) { s.GoAway(s.ID, faultserver.NoError); s.HangUp() })},
		{name: "GOAWAY with an error", // net/http does not replay the first stream of a connection
			play: once(func(s *faultserver.Stream) { s.GoAway(0, faultserver.EnhanceYourCalm); s.HangUp() })},
		{name: "closed", play: once(func(s *faultserver.Stream) { s.HangUp() })},
		{name: "reset", play: once(func(s *faultserver.Stream) { s.Break() })},
		{name: "unavailable", play: once(func(s *faultserver.Stream) { s.Answer(503) }), status: 503},
		{name: "too many requests", play: once(func(s *faultserver.Stream) { s.Answer(429) }), status: 429, proof: true},
		{name: "unavailable, reset mid-body", status: 503,
			play: once(func(s *faultserver.Stream) { s.Headers(503); s.Data("x", false); s.Reset(faultserver.InternalError) })},
		{name: "success, reset mid-body", status: 200, broken: true,
			play: once(func(s *faultserver.Stream) { s.Headers(200); s.Data("x", false); s.Reset(faultserver.InternalError) })},
		{name: "success, closed mid-body", status: 200, broken: true,
			play: once(func(s *faultserver.Stream) { s.Headers(200); s.Data("x", false); s.HangUp() })},
		{name: "no PING is answered", setup: pinging, slow: true, play: faultserver.HTTP2{Deaf: true}.Play},
	}
	for i := range faults {
		faults[i].takes = whole
		faults[i].rest = once((*faultserver.Stream).Break)
	}
	return faults
}

// The table: fault by method by kind of body.
func TestFaults(t *testing.T) {
	log.SetOutput(io.Discard) // net/http complains of what servers say unasked
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	noLeaks(t)
	for _, group := range []struct {
		name      string
		faults    []fault
		protocols *http.Protocols
		secure    bool
	}{
		{"HTTP1", http1Faults(), protocols("h1"), false},
		{"h2c", http2Faults(), protocols("h2c"), false},
		{"HTTP2", http2Faults(), protocols("h2"), true},
	} {
		for _, f := range group.faults {
			if group.secure {
				f.play, f.rest = faultserver.Secure(f.play, "h2"), faultserver.Secure(f.rest, "h2")
			}
			for _, m := range methods {
				if (f.slow || group.secure) && m.replayed || f.slow && group.secure {
					continue // the others tell safe from unsafe as well
				}
				for _, b := range bodyKinds {
					t.Run(strings.Join([]string{group.name, f.name, m.name + m.key, b.name}, "/"), func(t *testing.T) {
						if f.slow {
							t.Parallel()
						}
						meet(t, f, m, b, group.protocols, group.secure)
					})
				}
			}
		}
	}
}

// meet sends one request into the fault and checks everything about it.
func meet(t *testing.T, f fault, m method, b bodyKind, p *http.Protocols, secure bool) {
	server := faultserver.Start(f.play, f.rest)
	defer server.Close()
	base := &http.Transport{DialContext: server.Dial, Protocols: p}
	defer base.CloseIdleConnections()
	if secure {
		base.TLSClientConfig = &tls.Config{RootCAs: faultserver.RootCAs()}
	}
	if f.setup != nil {
		f.setup(base)
	}
	url := server.URL
	if base.TLSClientConfig != nil {
		url = strings.Replace(url, "http:", "https:", 1)
	}
	before := 0
	if f.warm {
		before = 1
		warmUp(t, base, url)
	}

	s := Standard()
	s.Backoff, s.ThrottleBackoff = Constant{}, nil
	transport := &Transport{Base: base, Strategy: s, ReplayBuffer: tableBuffer}
	if f.slow && f.setup == nil {
		transport.AttemptTimeout = 150 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx, trace := WithTrace(ctx)
	req, err := http.NewRequestWithContext(ctx, m.name, url, nil)
	require.NoError(t, err)
	if m.key != "" {
		req.Header.Set(m.key, "one")
	}
	closed := b.open(t, req, b.content)
	resp, err := transport.RoundTrip(req)

	got := outcome{Attempts: len(trace.Trips()[0]), Reason: lastOf(trace).Reason}
	if resp != nil {
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		got.Status = resp.StatusCode
		readAnswer(t, resp, f, got)
	} else {
		require.Error(t, err)
		requireReason(t, err, got)
	}
	allowed := []outcome{predict(f, m, b, f.takes != nothing)}
	if f.takes == some {
		allowed = append(allowed, predict(f, m, b, false))
	}
	require.Contains(t, allowed, got, "error: %v", err)
	if f.forgets {
		cancel() // the end of the context closes what is ours
	}
	forgotten := f.forgets && b.suspect // which is not ours
	require.Eventually(t, func() bool { return forgotten || closed() }, 5*time.Second, time.Millisecond, "every body that was opened is closed")
	require.Equal(t, 500, s.tokens(), "nothing was spent in the end")
	if f.conns > 0 && got.Attempts == 2 {
		require.Equal(t, f.conns, server.Conns())
	}
	requireDelivered(t, server.Requests()[before:], b.content, got, m, f)
}

func warmUp(t *testing.T, base http.RoundTripper, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	require.NoError(t, err)
	resp, err := base.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func lastOf(trace *Trace) Event {
	trips := trace.Trips()
	return trips[0][len(trips[0])-1]
}

func readAnswer(t *testing.T, resp *http.Response, f fault, got outcome) {
	t.Helper()
	defer resp.Body.Close()
	switch text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); {
	case got.Status == 200 && f.broken:
		require.Error(t, err, "what is missing of an answer is the caller's to know")
	case got.Status == 200:
		require.NoError(t, err)
		require.Equal(t, "200", string(text))
	}
}

// requireReason checks that an error tells why there was no retry, and is the
// base's own if we had no part in it.
func requireReason(t *testing.T, err error, got outcome) {
	t.Helper()
	var ours *Error
	if got.Reason == NotRetryable {
		require.False(t, errors.As(err, &ours))
		return
	}
	require.ErrorAs(t, err, &ours)
	require.ErrorIs(t, err, got.Reason)
	require.Equal(t, got.Attempts, ours.Attempts)
}

// requireDelivered checks what the server got: whole bodies byte by byte, no
// more of them than may be, and one where the caller was told of success.
func requireDelivered(t *testing.T, requests []faultserver.Request, content []byte, got outcome, m method, f fault) {
	t.Helper()
	want := sha256.Sum256(content)
	delivered := 0
	for i, r := range requests {
		if r.Whole {
			delivered++
			require.EqualValues(t, len(content), r.Size, "request %d", i)
			require.Equal(t, want, r.Sum, "request %d", i)
		}
	}
	if got.Status == 200 {
		require.Positive(t, delivered)
	}
	if !m.safe && !f.proof && f.below != always {
		require.LessOrEqual(t, delivered, 1, "it may not be done twice")
	}
	require.LessOrEqual(t, len(requests), 2)
}

// An answer that comes while the body is on its way is where others corrupt:
// the old attempt still reads what the new one sends.
func TestEarlyAnswerTwoHundredTimes(t *testing.T) {
	noLeaks(t)
	times := 20
	if *long {
		times = 200
	}
	content := randomBytes(8<<20, 3)
	for name, then := range map[string]faultserver.AfterEarly{
		"kept alive": faultserver.KeepAlive, "Connection close": faultserver.HangUp,
	} {
		for _, b := range []bodyKind{
			{name: "GetBody", open: inMemoryBody},
			{name: "file", open: sameFile(t, content, 0)},
			{name: "positioned file", open: sameFile(t, content, 12_345)},
			{name: "opaque", open: opaqueBody},
		} {
			t.Run(name+"/"+b.name, func(t *testing.T) {
				server := faultserver.Start(faultserver.Serve(func(c *faultserver.Conn, in *faultserver.Incoming) bool {
					if in.Header.Get("Number") != lastNumber.Swap(in.Header.Get("Number")) {
						return c.AnswerEarly(in, 503, 1, then)
					}
					if !c.ReceiveAll(in) {
						return false
					}
					_, err := io.WriteString(c, faultserver.Response(200, "200"))
					return err == nil
				}))
				defer server.Close()
				transport := &Transport{Base: &http.Transport{}, Strategy: noWait(), ReplayBuffer: 8 << 20}
				defer transport.CloseIdleConnections()
				for i := range times {
					putEarly(t, transport, server.URL, fmt.Sprint(name, b.name, i), content, b)
				}
				want, whole := sha256.Sum256(content), 0
				for _, r := range server.Requests() {
					if r.Whole {
						whole++
						require.Equal(t, want, r.Sum)
					}
				}
				require.GreaterOrEqual(t, whole, times)
			})
		}
	}
}

// sameFile is fileBody for many requests with one large content.
func sameFile(t *testing.T, content []byte, at int) func(*testing.T, *http.Request, []byte) func() bool {
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

// lastNumber tells the second attempt of a request from its first.
var lastNumber atomicString

type atomicString struct{ v atomic.Pointer[string] }

func (a *atomicString) Swap(s string) string {
	if old := a.v.Swap(&s); old != nil {
		return *old
	}
	return ""
}

func putEarly(t *testing.T, transport *Transport, url, number string, content []byte, b bodyKind) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, nil)
	require.NoError(t, err)
	req.Header.Set("Number", number)
	closed := b.open(t, req, content)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.Eventually(t, closed, 5*time.Second, 100*time.Microsecond)
}

// The same under net/http's own server over HTTP/2, which ends the stream
// behind its answer with RST_STREAM.
func TestEarlyAnswerOverHTTP2(t *testing.T) {
	noLeaks(t)
	content := randomBytes(8<<20, 4)
	want := sha256.Sum256(content)
	var n atomic.Int64
	url, base := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 1 {
			w.WriteHeader(503)
			return
		}
		h := sha256.New()
		if _, err := io.Copy(h, r.Body); err != nil || !bytes.Equal(h.Sum(nil), want[:]) {
			t.Errorf("the server got another body, or an error: %v", err)
		}
	})
	transport := &Transport{Base: base, Strategy: noWait(), ReplayBuffer: 8 << 20}
	for range 5 {
		for _, open := range []func(*testing.T, *http.Request, []byte) func() bool{
			inMemoryBody, sameFile(t, content, 0), sameFile(t, content, 12_345), opaqueBody,
		} {
			putEarly(t, transport, url, "", content, bodyKind{open: open})
		}
	}
}

// A body whose source blocks, a pipe that nobody writes to, holds nobody:
// neither under an early answer nor when the caller gives up.
func TestBlockedSourceHoldsNobody(t *testing.T) {
	noLeaks(t)
	for _, protocol := range []string{"h1", "h2", "h2c"} {
		for name, limit := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"early answer": context.WithCancel,
			"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(20*time.Millisecond, cancel)
				return ctx, cancel
			},
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 20*time.Millisecond)
			},
		} {
			for _, method := range []string{"PUT", "POST"} {
				t.Run(protocol+"/"+name+"/"+method, func(t *testing.T) {
					url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if name == "early answer" {
							_ = http.NewResponseController(w).EnableFullDuplex()
							w.WriteHeader(503)
							_ = http.NewResponseController(w).Flush()
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
					})
					ctx, cancel := limit(t.Context())
					defer cancel()
					source, w := io.Pipe()
					defer w.Close()
					body := &trackedBody{ReadCloser: source}
					req, err := http.NewRequestWithContext(ctx, method, url, body)
					require.NoError(t, err)
					done := make(chan error, 1)
					go func() {
						resp, err := (&Transport{Base: base}).RoundTrip(req)
						if resp != nil {
							err = resp.Body.Close()
						}
						done <- err
					}()
					select {
					case err := <-done:
						require.Equal(t, name == "early answer", err == nil, "%v", err)
					case <-time.After(10 * time.Second):
						t.Fatal("RoundTrip hangs")
					}
					cancel()
					require.Eventually(t, func() bool { return body.closes() == 1 }, 5*time.Second, time.Millisecond)
				})
			}
		}
	}
}

// An error's body that has no end, or stalls, keeps a retry for a moment only.
// It is read no further than the limit, and closed.
func TestErrorBodiesWithoutEnd(t *testing.T) {
	noLeaks(t)
	for _, protocol := range []string{"h1", "h2", "h2c"} {
		for _, contentType := range []string{"text/plain", "application/json"} {
			for _, stalls := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stalls %v", protocol, contentType, stalls), func(t *testing.T) {
					var n atomic.Int64
					url, base := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if n.Add(1) == 2 {
							return
						}
						w.Header().Set("Content-Type", contentType)
						w.WriteHeader(503)
						err := http.NewResponseController(w).Flush()
						for err == nil && !stalls {
							_, err = w.Write(small)
						}
						<-r.Context().Done()
					})
					counting := &countingBase{RoundTripper: base}
					transport := &Transport{Base: counting, Strategy: noWait()}
					start := time.Now()
					resp, err := get(t.Context(), redirected(transport, url))
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.Less(t, time.Since(start), 5*time.Second)
					counting.requireClosed(t, readAhead)

					// Where the backoff would outlive the deadline, the answer comes before it.
					s := Standard()
					s.Backoff = Constant{Wait: time.Hour}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
					require.NoError(t, err)
					resp, err = (&Transport{Base: counting, Strategy: s}).RoundTrip(req)
					require.NoError(t, err)
					require.Equal(t, 503, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
					require.Less(t, time.Since(start), 10*time.Second)
				})
			}
		}
	}
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

// A countingBase counts what is read of its responses, and their closes.
type countingBase struct {
	http.RoundTripper
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
	resp, err := c.RoundTripper.RoundTrip(req)
	if resp != nil {
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
		require.Eventually(t, func() bool { return body.closes() == 1 }, 5*time.Second, time.Millisecond)
		require.LessOrEqual(t, body.read.Load(), most)
	}
}

// Whatever a server writes into Retry-After, there is neither a hot loop nor
// a wait above the cap.
func TestRetryAfterFloods(t *testing.T) {
	noLeaks(t)
	const own = 2 * time.Millisecond
	for value, hits := range map[string]int{
		"9223372037": 1, "99999999999999999999": 1, "Fri, 31 Dec 9999 23:59:59 GMT": 1, "61": 1,
		"-1": 3, "1e400": 3, "NaN": 3, "0": 3, "": 3, "Thu, 01 Jan 1970 00:00:00 GMT": 3,
	} {
		for _, lines := range []int{1, 200} {
			for _, status := range []int{429, 503} {
				t.Run(fmt.Sprintf("%q, %d times, %d", value, lines, status), func(t *testing.T) {
					url, base := serve(t, "h1", func(w http.ResponseWriter, _ *http.Request) {
						for range lines {
							w.Header().Add("Retry-After", value)
						}
						w.WriteHeader(status)
					})
					s := Standard()
					s.Backoff, s.ThrottleBackoff = Constant{Wait: own}, nil
					ctx, trace := WithTrace(t.Context())
					start := time.Now()
					resp, err := get(ctx, redirected(&Transport{Base: base, Strategy: s}, url))
					require.NoError(t, err)
					require.Equal(t, status, resp.StatusCode)
					require.Less(t, time.Since(start), 5*time.Second)
					events := trace.Trips()[0]
					require.Len(t, events, hits)
					for _, e := range events[:hits-1] {
						require.Equal(t, own, e.Wait)
					}
					if hits == 1 {
						require.Equal(t, WaitOverCap, events[0].Reason)
					}
				})
			}
		}
	}
}

// A server that allows one stream at a time fails nothing.
func TestMaxConcurrentStreams(t *testing.T) {
	noLeaks(t)
	server := faultserver.Start(faultserver.HTTP2{MaxStreams: 1, Whole: func(s *faultserver.Stream) { s.Answer(200) }}.Play)
	defer server.Close()
	base := &http.Transport{Protocols: protocols("h2c")}
	defer base.CloseIdleConnections()
	transport := &Transport{Base: base, Strategy: noWait(), ReplayBuffer: tableBuffer}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			inMemoryBody(t, req, small)
			if i%2 == 0 {
				opaqueBody(t, req, small)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Error(resp, err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	require.Len(t, server.Requests(), 16)
	for _, r := range server.Requests() {
		require.Equal(t, sha256.Sum256(small), r.Sum)
	}
}

// net/http replays a stream that the server did not process, and on the way
// opens a copy of the body that it neither reads nor closes. That copy keeps
// nothing open, and takes nothing from the body that is sent.
func TestForgottenCopyKeepsNothingOpen(t *testing.T) {
	noLeaks(t)
	for name, strike := range map[string]func(*faultserver.Stream){
		"GOAWAY":         func(s *faultserver.Stream) { s.GoAway(0, faultserver.NoError) },
		"PROTOCOL_ERROR": func(s *faultserver.Stream) { s.Reset(faultserver.ProtocolError) },
	} {
		for kind, open := range map[string]func(*testing.T, *http.Request, []byte) func() bool{
			"file": fileBody(0), "opaque": opaqueBody,
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				server := faultserver.Start(faultserver.HTTP2{Whole: func(s *faultserver.Stream) {
					if s.Nth == 1 {
						strike(s)
					} else {
						s.Answer(200)
					}
				}}.Play)
				defer server.Close()
				base := &http.Transport{Protocols: protocols("h2c")}
				defer base.CloseIdleConnections()
				req := requestTo(t, "PUT", server.URL)
				closed := open(t, req, small)
				resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				require.Eventually(t, closed, time.Second, time.Millisecond, "the caller's body is closed")
			})
		}
	}
}
