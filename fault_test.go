package retrip

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/testkit"
)

// What must happen when a request meets a fault is not written down case by
// case but follows from three questions, which predict asks: is the faultOutcome
// worth a retry, may the request be sent twice, and can its body be? The kinds of
// body are in internal/testkit, the stories that follow no pattern in
// hostile_test.go.

// A fault is what happens to the first attempt; any other is answered 200.
type fault struct {
	name  string
	play  faultserver.Play // of the first connection
	rest  faultserver.Play // of all others
	setup func(*http.Transport)

	takes    taken // how much of the body the server takes before it strikes
	status   int   // what it answers, or 0
	broken   bool  // that answer's body breaks off
	leaving  bool  // it gives up the connection meanwhile: net/http replays a retry that still meets it
	hopeless bool  // the same request would meet the same fate
	proof    bool  // the server has not processed the request
	below    below // does net/http itself repeat the request, unseen by us?
	warm     bool  // the connection has served a request before
	slow     bool  // a timeout has to pass
}

type taken int

const (
	nothing taken = iota
	some          // how much the client has read of the body by then is a race
	whole
)

const slow = time.Second // the timeouts

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

// An faultOutcome is what the caller sees of it.
type faultOutcome struct {
	Status   int // 0 is an error
	Attempts int
	Reason   Reason
}

// predict is the reference: what must become of a request that meets f. passed
// tells whether more than the ReplayBuffer was read of its body by then.
func predict(f fault, m method, b testkit.BodyKind, passed bool) faultOutcome {
	replayable := !b.Over || !passed
	replays := f.below == always || f.below == ifIdempotent && m.replayed
	proof := f.proof && !(b.Suspect && f.status == 0)
	switch {
	case replays && replayable:
		return faultOutcome{200, 1, 0}
	case f.status != 0 && f.status < 400:
		return faultOutcome{f.status, 1, 0}
	case f.hopeless:
		return faultOutcome{f.status, 1, NotRetryable}
	case !m.safe && !proof:
		return faultOutcome{f.status, 1, NotIdempotent}
	case !replayable:
		return faultOutcome{f.status, 1, BodyNotReplayable}
	default:
		return faultOutcome{200, 2, 0}
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
		{name: "refused", play: faultserver.Refuse, rest: ok, proof: true},
		{name: "reset at once", play: faultserver.ResetAtOnce, rest: ok, takes: some},
		{name: "reset before headers", play: faultserver.ResetBeforeHeaders, rest: ok, takes: whole},
		{name: "closed before headers", play: faultserver.CloseBeforeHeaders, rest: ok, takes: whole},
		{name: "reset within headers", play: faultserver.SayAndReset("HTTP/1.1 200 OK\r\nX: "), rest: ok, takes: whole},
		{name: "reset after headers", play: faultserver.SayAndReset("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\n"), rest: ok,
			takes: whole, status: 503},
		{name: "reset mid-body", play: faultserver.SayAndReset(half(503)), rest: ok, takes: whole, status: 503},
		{name: "success, reset mid-body", play: faultserver.SayAndReset(half(200)), rest: ok, takes: whole, status: 200, broken: true},
		{name: "truncated", play: faultserver.Say(half(503)), rest: ok, takes: whole, status: 503},
		{name: "success, truncated", play: faultserver.Say(half(200)), rest: ok, takes: whole, status: 200, broken: true},
		{name: "success, more than its length", play: faultserver.Say(faultserver.Response(200, "200") + "and more"), rest: ok, takes: whole, status: 200},
		{name: "stalled", play: faultserver.Stall, rest: ok, takes: whole, slow: true},
		{name: "trickle", play: faultserver.Trickle(503, 0), rest: ok, takes: whole, status: 503},
		{name: "endless", play: faultserver.Endless(503), rest: ok, takes: whole, status: 503},
		{name: "early, then read", play: faultserver.Serve(earlyOnce), rest: ok, takes: whole, status: 503},
		{name: "early, then shut down", play: faultserver.Early(503, 2*testkit.TableBuffer, faultserver.ShutDown), rest: ok, takes: whole, status: 503},
		{name: "closed while idle", play: faultserver.ClosedIdle, rest: faultserver.ClosedIdle, takes: whole, below: ifIdempotent, warm: true},
		{name: "garbage", play: faultserver.Garbage, rest: ok, takes: whole, hopeless: true},
		{name: "unavailable", play: faultserver.Answer(503, "Connection: close"), rest: ok, takes: whole, status: 503},
		{name: "too many requests", play: faultserver.Answer(429, "Connection: close"), rest: ok, takes: whole, status: 429, proof: true},
		{name: "not found", play: faultserver.Answer(404), rest: ok, takes: whole, status: 404, hopeless: true},

		{name: "TLS: handshake failure", play: faultserver.HandshakeFailure, rest: secureOK, setup: overTLS, proof: true},
		{name: "TLS: unknown authority", play: faultserver.UnknownAuthority, rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: another host", play: faultserver.WrongHost, rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: answered in plain HTTP", play: faultserver.NoTLS("HTTP/1.0 400 Bad Request\r\n\r\n"), rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: answered in garbage", play: faultserver.NoTLS("SSH-2.0-OpenSSH_9.6\r\n"), rest: secureOK, setup: overTLS, hopeless: true},
		{name: "TLS: reset before headers", play: faultserver.Secure(faultserver.ResetBeforeHeaders), rest: secureOK, setup: overTLS, takes: whole},
	}
}

// earlyOnce answers the first request while its body is on its way, and the
// others when they are whole, on the same connection if the client likes.
func earlyOnce(c *faultserver.Conn, in *faultserver.Incoming) bool {
	if in.Nth == 1 {
		return c.AnswerEarly(in, 503, 2*testkit.TableBuffer, faultserver.KeepAlive)
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
		base.HTTP2 = &http.HTTP2Config{SendPingTimeout: slow / 2, PingTimeout: slow}
	}
	faults := []fault{
		{name: "REFUSED_STREAM", play: reset(faultserver.RefusedStream), below: always},
		{name: "INTERNAL_ERROR", play: reset(faultserver.InternalError)},
		{name: "CANCEL", play: reset(faultserver.Cancel)},
		{name: "ENHANCE_YOUR_CALM", play: reset(faultserver.EnhanceYourCalm)},
		{name: "PROTOCOL_ERROR", play: reset(faultserver.ProtocolError), below: always},
		{name: "GOAWAY before our stream", below: always,
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

func midstreamFaults() []fault {
	first := func(strike func(*faultserver.Stream)) func(*faultserver.Stream) {
		return func(s *faultserver.Stream) {
			if s.Nth == 1 {
				strike(s)
			}
		}
	}
	others := func(s *faultserver.Stream) {
		if s.Nth > 1 {
			s.Answer(200)
		}
	}
	early := func(strike func(*faultserver.Stream)) faultserver.Play {
		return faultserver.HTTP2{Head: first(strike), Whole: others}.Play
	}
	late := func(strike func(*faultserver.Stream)) faultserver.Play {
		return faultserver.HTTP2{Whole: func(s *faultserver.Stream) { first(strike)(s); others(s) }}.Play
	}
	faults := []fault{
		{name: "early, then NO_ERROR", takes: some, status: 503,
			play: early(func(s *faultserver.Stream) { s.Answer(503); s.Reset(faultserver.NoError) })},
		{name: "early, then read", takes: some, status: 503, play: early(func(s *faultserver.Stream) { s.Answer(503) })},
		{name: "early, too many", takes: some, status: 429, proof: true,
			play: early(func(s *faultserver.Stream) { s.Answer(429); s.Reset(faultserver.NoError) })},
		{name: "early, not found", takes: some, status: 404, hopeless: true,
			play: early(func(s *faultserver.Stream) { s.Answer(404); s.Reset(faultserver.NoError) })},
		{name: "early, then GOAWAY", takes: some, status: 503, leaving: true,
			play: early(func(s *faultserver.Stream) { s.Answer(503); s.GoAway(s.ID, faultserver.NoError) })},
		{name: "early REFUSED_STREAM", takes: some, below: always,
			play: early(func(s *faultserver.Stream) { s.Reset(faultserver.RefusedStream) })},
		{name: "early CANCEL", takes: some, play: early(func(s *faultserver.Stream) { s.Reset(faultserver.Cancel) })},
		{name: "early INTERNAL_ERROR", takes: some, play: early(func(s *faultserver.Stream) { s.Reset(faultserver.InternalError) })},
		{name: "trickle", takes: whole, status: 503, play: late(func(s *faultserver.Stream) {
			s.Headers(503)
			for range 10 {
				s.Data("x", false) // a frame, and a Write, of its own
			}
			s.Data("x", true)
		})},
		{name: "a megabyte, and no end", takes: whole, status: 503, play: late(func(s *faultserver.Stream) {
			s.Headers(503)
			for range 64 {
				s.Data(string(testkit.Small), false)
			}
		})},
		{name: "stalled", takes: whole, slow: true, play: late(func(*faultserver.Stream) {})},
	}
	for i := range faults {
		faults[i].rest = faultserver.HTTP2{Whole: others}.Play
	}
	return faults
}

// The table: fault by method by kind of body.
func TestFaults(t *testing.T) {
	playFaults(t, []faultGroup{
		{"HTTP1", http1Faults(), "h1"},
		{"h2c", http2Faults(), "h2c"},
		{"HTTP2", http2Faults(), "h2"},
	})
}

// What a server may do over HTTP/2 while the body is on its way, and answers
// that take their time: as in TestFaults, whatever the method and the body.
func TestFaultsInMidstreamOverHTTP2(t *testing.T) {
	playFaults(t, []faultGroup{{"midstream", midstreamFaults(), "h2c"}})
}

// A faultGroup are faults over one protocol.
type faultGroup struct {
	name     string
	faults   []fault
	protocol string
}

// playFaults sends requests of every kind into each fault. The slow faults go on
// beside the others.
func playFaults(t *testing.T, groups []faultGroup) {
	log.SetOutput(io.Discard) // net/http complains of what servers say unasked
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	testkit.NoLeaks(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, group := range groups {
		secure := group.protocol == "h2"
		for _, f := range group.faults {
			if secure {
				f.play, f.rest = faultserver.Secure(f.play, "h2"), faultserver.Secure(f.rest, "h2")
			}
			for _, m := range methods {
				if (f.slow || secure) && m.replayed || f.slow && secure {
					continue // the others tell safe from unsafe as well
				}
				for _, b := range testkit.BodyKinds {
					run := func() {
						t.Run(strings.Join([]string{group.name, f.name, m.name + m.key, b.Name}, "/"), func(t *testing.T) {
							meet(t, f, m, b, group.protocol)
						})
					}
					if f.slow {
						wg.Go(run)
					} else {
						run()
					}
				}
			}
		}
	}
}

// connect returns a base that meets the fault, and the URL that does.
func (f fault) connect(server *faultserver.Server, protocol string) (base *http.Transport, url string) {
	base = &http.Transport{DialContext: server.Dial, Protocols: testkit.Protocols(protocol)}
	if protocol == "h2" {
		base.TLSClientConfig = &tls.Config{RootCAs: faultserver.RootCAs()}
	}
	if f.setup != nil {
		f.setup(base)
	}
	url = server.URL
	if base.TLSClientConfig != nil {
		url = strings.Replace(url, "http:", "https:", 1)
	}
	return base, url
}

// meet sends one request into the fault and checks everything about it.
func meet(t *testing.T, f fault, m method, b testkit.BodyKind, protocol string) {
	server := faultserver.Start(f.play, f.rest)
	defer server.Close()
	base, url := f.connect(server, protocol)
	defer base.CloseIdleConnections()
	for kept := !f.warm; !kept; {
		_, kept = testkit.Fetch(t, base, url)
	}
	before := len(server.Requests())

	s := Standard()
	s.Backoff, s.ThrottleBackoff = Constant{}, nil
	counting := testkit.Count(base)
	transport := &Transport{Base: counting, Strategy: s, ReplayBuffer: testkit.TableBuffer}
	if f.slow && f.setup == nil {
		transport.AttemptTimeout = slow
	}
	req := testkit.RequestTo(t, m.name, url, nil)
	ctx, trace := WithTrace(req.Context())
	req = req.WithContext(ctx)
	if m.key != "" {
		req.Header.Set(m.key, "one")
	}
	closed := b.Open(t, req, b.Content)
	resp, err := transport.RoundTrip(req)

	got := faultOutcome{Attempts: len(trace.Requests()[0]), Reason: lastOf(trace).Reason}
	if resp != nil {
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		got.Status = resp.StatusCode
		readAnswer(t, resp, f, got)
	} else {
		require.Error(t, err)
		requireReason(t, err, got)
	}
	allowed := []faultOutcome{predict(f, m, b, f.takes != nothing)}
	if f.takes == some || f.slow {
		allowed = append(allowed, predict(f, m, b, false))
	}
	if f.slow && m.safe { // the attempts after the first may take too long as well
		allowed = append(allowed, faultOutcome{200, 3, 0}, faultOutcome{0, 3, AttemptsExhausted})
	}
	require.Contains(t, allowed, got, "error: %v", err)
	require.EqualValues(t, got.Attempts, counting.Calls())
	testkit.Eventually(t, closed, "the close of each body that we were given or opened")
	if got.Attempts <= 2 {
		require.Equal(t, 500, s.tokens(), "nothing was spent in the end")
	}
	requireDelivered(t, server.Requests()[before:], b.Content, got, m, f)
}

func readAnswer(t *testing.T, resp *http.Response, f fault, got faultOutcome) {
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
func requireReason(t *testing.T, err error, got faultOutcome) {
	t.Helper()
	var ours *Error
	if got.Reason == NotRetryable {
		require.False(t, errors.As(err, &ours))
		return
	}
	require.ErrorAs(t, err, &ours)
	require.ErrorIs(t, err, reasonError(got.Reason))
	require.Equal(t, got.Attempts, ours.Attempts)
}

// requireDelivered checks what the server got: whole bodies byte by byte, no
// more of them than may be, and one where the caller was told of success.
func requireDelivered(t *testing.T, requests []faultserver.Request, content []byte, got faultOutcome, m method, f fault) {
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
	if f.below == never && !f.leaving {
		require.LessOrEqual(t, len(requests), got.Attempts)
	}
}

// A fault that hits only a stream costs no connection: the retry goes out over
// the same one. (Now and then net/http dials another while it ends the stream.)
func TestStreamFaultsKeepTheConnection(t *testing.T) {
	testkit.NoLeaks(t)
	retried, conns := 0, 0
	for _, f := range http2Faults() {
		switch f.name {
		case "INTERNAL_ERROR", "CANCEL", "ENHANCE_YOUR_CALM", "unavailable", "too many requests", "unavailable, reset mid-body":
		default:
			continue
		}
		for _, b := range testkit.BodyKinds {
			if b.Over {
				continue
			}
			server := faultserver.Start(f.play, f.rest)
			base := &http.Transport{DialContext: server.Dial, Protocols: testkit.Protocols("h2c")}
			s := noWait()
			s.ThrottleBackoff = nil
			req := testkit.RequestTo(t, "PUT", server.URL, nil)
			b.Open(t, req, b.Content)
			resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req)
			if err == nil && resp.StatusCode == 200 { // or the retry was not to be: a Read of the body may be under way
				retried++
				conns += server.Conns()
			}
			base.CloseIdleConnections()
			server.Close()
		}
	}
	require.Greater(t, retried, 20)
	require.Less(t, conns, retried+retried/4)
}
