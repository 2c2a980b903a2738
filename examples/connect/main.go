// Connect calls procedures of a server that fails, with connectrpc.com/connect
// over retrip. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in as the transport of the http.Client that a connect client uses.
// connect retries nothing by itself, so there is nothing to switch off.
//
// A unary call is a POST, which may have been processed when it fails. retrip
// retries it only after resource_exhausted, which connect sends as a 429. A schema
// can declare a procedure idempotent (idempotency_level), and the interceptor tells
// retrip: see schema. With WithHTTPGet, procedures without side effects are GETs, which
// are retried anyway. For a single call there are retrip.WithIdempotent(ctx) and, if
// the server supports it, an Idempotency-Key among the request's headers.
//
// connect's requests also need a small wrapper: see ownCopy.
//
// A stream begins with status 200 even if the procedure fails at once; the error
// comes at its end. retrip retries failures before the headers and leaves later ones
// to the caller. The same holds for everything that connect sends in the gRPC
// protocol.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
}

type (
	text   = wrapperspb.StringValue
	client = connect.Client[text, text]
)

// newClient is all there is to set up. A generated client takes the same
// http.Client and the same interceptor, and knows its levels.
func newClient(url, procedure string, transport *retrip.Transport, options ...connect.ClientOption) *client {
	return connect.NewClient[text, text](&http.Client{Transport: ownCopy{transport}}, url+procedure,
		append(options, connect.WithInterceptors(schema{}))...)
}

// ownCopy gives retrip a copy of each message that is sent whole. For what
// connect gives out as a copy (Request.GetBody) is always the same reader: after
// an early answer, the attempt that is over may still read it, and the next one
// comes up short. retrip notices, and fails. Besides, in a reader that it knows
// it sees that a refused connection is the network's failure, not the reader's.
type ownCopy struct{ *retrip.Transport }

// RoundTrip sends a request like req, whose body is the copy.
func (c ownCopy) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.GetBody == nil || req.ContentLength <= 0 { // a stream, or nothing
		return c.Transport.RoundTrip(req)
	}
	message, err := io.ReadAll(req.Body)
	if err = errors.Join(err, req.Body.Close()); err != nil {
		return nil, err
	}
	req = req.WithContext(req.Context()) // not the caller's
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(message)), nil }
	req.Body, _ = req.GetBody()
	return c.Transport.RoundTrip(req)
}

// schema lets retrip repeat the procedures whose schema says that it may.
type schema struct{}

// WrapUnary tells retrip about a unary call.
func (schema) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		return next(leave(ctx, req.Spec()), req)
	}
}

// WrapStreamingClient tells retrip about a stream.
func (schema) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return next(leave(ctx, spec), spec)
	}
}

// WrapStreamingHandler is for servers, and does nothing.
func (schema) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func leave(ctx context.Context, spec connect.Spec) context.Context {
	if spec.IdempotencyLevel == connect.IdempotencyUnknown {
		return ctx
	}
	return retrip.WithIdempotent(ctx)
}

// strategy is the standard mode, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

// run makes calls that meet trouble, and prints what became of each.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	transport := &retrip.Transport{PerKey: strategy, Observe: show.Lines(w)}
	defer transport.CloseIdleConnections()
	ctx := context.Background()
	idempotent := connect.WithIdempotency(connect.IdempotencyIdempotent)
	pure := connect.WithIdempotency(connect.IdempotencyNoSideEffects)

	sayClient := newClient(server.URL, say, transport)
	calls := []struct {
		title string
		fault faultlayer.Fault
		send  func(context.Context, *client, string) string
		ctx   context.Context
		with  *client
		text  string
	}{
		{"Unary call, unavailable: it may have been processed", unavailable,
			unary, ctx, sayClient, "hello"},
		{"Unary call, resource_exhausted: it was not processed", exhausted,
			unary, ctx, sayClient, "hello"},
		{"Unary call that the caller declares idempotent", unavailable,
			unary, retrip.WithIdempotent(ctx), sayClient, "hello"},
		{"Unary call that its schema declares idempotent", unavailable,
			unary, ctx, newClient(server.URL, say, transport, idempotent), "hello"},
		{"Unary call without side effects, as a GET", unavailable,
			unary, ctx, newClient(server.URL, look, transport, pure, connect.WithHTTPGet()), "hello"},
		{"Stream that fails before its headers", unavailable,
			stream, ctx, newClient(server.URL, spell, transport, pure), "abc"},
		{"Stream that ends with an error: retrip leaves that to the caller", nil,
			stream, ctx, newClient(server.URL, spell, transport, pure), "ab?"},
	}
	for _, call := range calls {
		fmt.Fprintf(w, "%s:\n", call.title)
		if call.fault != nil {
			server.faults.Fail(nil, call.fault)
		}
		fmt.Fprintf(w, "  returned: %s\n", call.send(call.ctx, call.with, call.text))
	}
	_, err := fmt.Fprintf(w, "%d calls, %d requests.\n", len(calls), server.requests.Load())
	return err
}

// unary makes a unary call and returns the answer or the error's code.
func unary(ctx context.Context, c *client, word string) string {
	resp, err := c.CallUnary(ctx, connect.NewRequest(wrapperspb.String(word)))
	if err != nil {
		return connect.CodeOf(err).String()
	}
	return resp.Msg.GetValue()
}

// stream reads a stream to its end and returns its messages, and if it ended
// with an error, its code.
func stream(ctx context.Context, c *client, word string) string {
	stream, err := c.CallServerStream(ctx, connect.NewRequest(wrapperspb.String(word)))
	if err != nil {
		return connect.CodeOf(err).String()
	}
	defer stream.Close()
	var parts []string
	for stream.Receive() {
		parts = append(parts, stream.Msg().GetValue())
	}
	if err := stream.Err(); err != nil {
		parts = append(parts, connect.CodeOf(err).String())
	}
	return strings.Join(parts, " ")
}
