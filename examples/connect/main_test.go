package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), "\n7 calls, 12 requests.\n"), out.String())
}

var (
	idempotent = connect.WithIdempotency(connect.IdempotencyIdempotent)
	pure       = connect.WithIdempotency(connect.IdempotencyNoSideEffects)
)

// A unary call is repeated, with the same message, if it was not processed or
// may be processed twice; and otherwise not.
func TestUnary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault   faultlayer.Fault
		prepare func(context.Context, *connect.Request[text]) context.Context
		options []connect.ClientOption
		hits    int
	}{
		"unavailable":                   {fault: unavailable, hits: 1},
		"connection broken":             {fault: faultlayer.Reset, hits: 1},
		"resource exhausted":            {fault: exhausted, hits: 2},
		"unavailable, declared":         {fault: unavailable, prepare: declared, hits: 2},
		"connection broken, declared":   {fault: faultlayer.Reset, prepare: declared, hits: 2},
		"unavailable, with a key":       {fault: unavailable, prepare: keyed, hits: 2},
		"unavailable, by its schema":    {fault: unavailable, options: []connect.ClientOption{idempotent}, hits: 2},
		"unavailable, pure, but a POST": {fault: unavailable, options: []connect.ClientOption{pure}, hits: 2},
		"bad gateway, by its schema": {fault: faultlayer.Answer(502, "<html>", "Content-Type", "text/html"),
			options: []connect.ClientOption{idempotent}, hits: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			word := strings.Repeat("hello, wörld ", 1000)
			req := connect.NewRequest(wrapperspb.String(word))
			ctx := t.Context()
			if test.prepare != nil {
				ctx = test.prepare(ctx, req)
			}
			server.faults.Fail(nil, test.fault)
			resp, err := newClient(server.URL, say, over(base), test.options...).CallUnary(ctx, req)
			if test.hits == 1 {
				require.Error(t, err) // a broken connection is "canceled" to connect, with retrip or without
			} else {
				require.NoError(t, err)
				require.Equal(t, word, resp.Msg.GetValue())
			}
			hits := requireHits(t, server, http.MethodPost, message(t, word), test.hits)
			require.Equal(t, hits[0].Header["Idempotency-Key"], hits[len(hits)-1].Header["Idempotency-Key"])
			require.EqualValues(t, test.hits, base.calls.Load())
		})
	}
}

func declared(ctx context.Context, _ *connect.Request[text]) context.Context {
	return retrip.WithIdempotent(ctx)
}

func keyed(ctx context.Context, req *connect.Request[text]) context.Context {
	req.Header().Set("Idempotency-Key", "example")
	return ctx
}

// A procedure without side effects can be called by GET, its message in the
// URL.
func TestGet(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	server.faults.Fail(nil, unavailable, faultlayer.Reset)
	c := newClient(server.URL, look, over(base), pure, connect.WithHTTPGet())
	resp, err := c.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello, wörld")))
	require.NoError(t, err)
	require.Equal(t, "hello, wörld", resp.Msg.GetValue())
	// The GET after the unavailable one goes over the same connection, and when
	// that breaks, net/http itself replays it: two attempts, three requests.
	requireHits(t, server, http.MethodGet, nil, 3)
	require.EqualValues(t, 2, base.calls.Load())
}

// When a connection breaks that served before, net/http itself replays a POST
// if it has a key, below retrip and uncounted by it. Of WithIdempotent it knows
// nothing: there the retry is ours.
func TestReplayedBelow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(context.Context, *connect.Request[text]) context.Context
		calls   int
	}{
		"key": {keyed, 2}, "declared": {declared, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			c := newClient(server.URL, say, over(base))
			for i := range 2 {
				if i == 1 {
					server.faults.Fail(nil, faultlayer.Reset)
				}
				req := connect.NewRequest(wrapperspb.String("hello"))
				resp, err := c.CallUnary(test.prepare(t.Context(), req), req)
				require.NoError(t, err)
				require.Equal(t, "hello", resp.Msg.GetValue())
			}
			requireHits(t, server, http.MethodPost, message(t, "hello"), 3)
			require.EqualValues(t, test.calls, base.calls.Load())
		})
	}
}

// The last answer is the caller's.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	last := faultlayer.Answer(503, `{"code":"unavailable","message":"the third"}`, "Content-Type", "application/json")
	server.faults.Fail(nil, unavailable, exhausted, last, unavailable)
	c := newClient(server.URL, say, over(base), idempotent)
	_, err := c.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello")))
	require.EqualError(t, err, "unavailable: the third")
	requireHits(t, server, http.MethodPost, message(t, "hello"), 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// A stream that does not begin is begun again, and reaches the caller message by
// message: the server holds each back until the one before was read.
func TestStream(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	read := make(chan struct{}, 3)
	late := make(chan struct{}, 3)
	server.between = func() {
		select {
		case <-read:
		case <-time.After(10 * time.Second):
			late <- struct{}{}
		}
	}
	server.faults.Fail(nil, unavailable, faultlayer.Reset)
	c := newClient(server.URL, spell, over(base), pure)
	stream, err := c.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("abc")))
	require.NoError(t, err)
	var letters string
	for stream.Receive() {
		letters += stream.Msg().GetValue()
		read <- struct{}{}
	}
	require.NoError(t, stream.Err())
	require.NoError(t, stream.Close())
	require.Equal(t, "abc", letters)
	require.Empty(t, late, "somebody is buffering")
	requireHits(t, server, http.MethodPost, envelope(message(t, "abc")), 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// An error of the procedure's own comes at the end of a stream, after status
// 200, and in the gRPC protocol so does that of a unary call: it is the
// caller's.
func TestErrorAfterTheHeaders(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	require.Equal(t, "a b unavailable", stream(t.Context(), newClient(server.URL, spell, over(base), pure), "ab?"))
	require.Equal(t, "unavailable", stream(t.Context(), newClient(server.URL, spell, over(base), pure), "?"))
	require.Len(t, server.faults.Hits(), 2)
	require.EqualValues(t, 2, base.calls.Load())

	// A unary call of connect's own protocol has its status.
	require.Equal(t, "unavailable", unary(t.Context(), newClient(server.URL, say, over(base), idempotent), "?"))
	require.EqualValues(t, 5, base.calls.Load())

	h2 := httptest.NewUnstartedServer(server.faults)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	t.Cleanup(h2.Close)
	base = &meter{RoundTripper: h2.Client().Transport}
	require.Equal(t, "unavailable", unary(t.Context(), newClient(h2.URL, say, over(base), idempotent, connect.WithGRPC()), "?"))
	require.EqualValues(t, 1, base.calls.Load())
}

// Nobody was there, so nothing was done: each attempt is made.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	base := &meter{RoundTripper: new(http.Transport)}
	require.Equal(t, "unavailable", unary(t.Context(), newClient("http://"+listener.Addr().String(), say, over(base)), "hello"))
	require.EqualValues(t, 3, base.calls.Load())
}

// What connect says is left of the time is said once, and the same in all
// attempts.
func TestTimeoutIsNotRenewed(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	server.faults.Fail(nil, faultlayer.Answer(429, "", "Retry-After-Ms", "50"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.Equal(t, "hello", unary(ctx, newClient(server.URL, say, over(base)), "hello"))
	hits := requireHits(t, server, http.MethodPost, message(t, "hello"), 2)
	require.NotEmpty(t, hits[0].Header["Connect-Timeout-Ms"])
	require.Equal(t, hits[0].Header["Connect-Timeout-Ms"], hits[1].Header["Connect-Timeout-Ms"])
}

// An attempt that is over may still read its message, and takes nothing from the
// next one; it would without ownCopy, and retrip would find the message short.
func TestOwnCopy(t *testing.T) {
	t.Parallel()
	word := strings.Repeat("0123456789", 100)
	for name, test := range map[string]struct {
		wrap func(*retrip.Transport) http.RoundTripper
		want []string // what the attempts brought
	}{
		"with it":    {func(r *retrip.Transport) http.RoundTripper { return ownCopy{r} }, []string{"", string(message(t, word))}},
		"without it": {func(r *retrip.Transport) http.RoundTripper { return r }, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := new(lingering)
			client := &http.Client{Transport: test.wrap(over(base))}
			_, err := connect.NewClient[text, text](client, "http://example.com"+say).
				CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(word)))
			require.Error(t, err)
			require.Equal(t, test.want, base.brought)
			require.Equal(t, len(test.want) == 1, strings.Contains(err.Error(), "must return the same body each time"))
		})
	}
}

// lingering is a base that answers the first attempt at once, and goes on to
// read its body when the second comes, as net/http may.
type lingering struct {
	first   io.Reader
	brought []string // the bodies of the attempts, if they are whole
}

func (l *lingering) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: 429, Request: req, Body: http.NoBody, Header: http.Header{}}
	if l.first == nil {
		l.first = req.Body
		l.brought = append(l.brought, "")
		return answer, nil
	}
	_, _ = l.first.Read(make([]byte, 10))
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	l.brought = append(l.brought, string(body))
	answer.StatusCode = 400 // it is enough
	return answer, nil
}

// A server that answers before it has read a large message gets all of it the
// next time.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	server, base := serve(t)
	word := strings.Repeat("0123456789abcdef", 64<<10)
	server.faults.Fail(nil, faultlayer.Early(429))
	require.True(t, word == unary(retrip.WithIdempotent(t.Context()), newClient(server.URL, say, over(base)), word))
	require.EqualValues(t, 2, base.calls.Load())
	hits := server.faults.Hits()
	i := slices.IndexFunc(hits, func(hit faultlayer.Hit) bool { return !hit.Failed })
	require.Equal(t, faultlayer.Hash(message(t, word)), hits[i].Hash)
}

// serve starts a server, and makes a base that counts.
func serve(t *testing.T) (*server, *meter) {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	return server, &meter{RoundTripper: new(http.Transport)}
}

// over is a transport over a base.
func over(base http.RoundTripper) *retrip.Transport {
	return &retrip.Transport{Base: base, PerKey: strategy}
}

// A meter counts the calls of a base.
type meter struct {
	http.RoundTripper
	calls atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.calls.Add(1)
	return m.RoundTripper.RoundTrip(req)
}

// requireHits wants n requests to have arrived, all with the same body.
func requireHits(t *testing.T, s *server, method string, body []byte, n int) []faultlayer.Hit {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := s.faults.Hits()
	require.Len(t, hits, n)
	for _, hit := range hits {
		require.Equal(t, method, hit.Method)
		require.Equal(t, faultlayer.Hash(body), hit.Hash)
	}
	return hits
}

// message is a text as a unary call sends it.
func message(t *testing.T, word string) []byte {
	t.Helper()
	body, err := proto.Marshal(wrapperspb.String(word))
	require.NoError(t, err)
	return body
}

// envelope is a message as a stream sends it: flags and length come first.
func envelope(message []byte) []byte {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(head, message...)
}
