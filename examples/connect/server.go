package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// The server's procedures, which a schema would declare.
const (
	say   = "/example.v1.Echo/Say"   // unary
	look  = "/example.v1.Echo/Look"  // unary, without side effects
	spell = "/example.v1.Echo/Spell" // a stream of letters, without side effects
)

// A server echoes texts, all but question marks.
type server struct {
	*httptest.Server
	faults   *faultlayer.Layer
	requests atomic.Int64 // as they arrive

	// between is called before each letter of a stream but the first.
	between func()
}

func newServer() *server {
	s := &server{between: func() {}}
	pure := connect.WithIdempotency(connect.IdempotencyNoSideEffects)
	mux := http.NewServeMux()
	mux.Handle(say, connect.NewUnaryHandler(say, echo))
	mux.Handle(look, connect.NewUnaryHandler(look, echo, pure))
	mux.Handle(spell, connect.NewServerStreamHandler(spell, s.letters, pure))
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.faults.ServeHTTP(w, r)
	}))
	return s
}

func echo(_ context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
	if req.Msg.GetValue() == "?" {
		return nil, lost()
	}
	return connect.NewResponse(req.Msg), nil
}

// letters sends a word letter by letter.
func (s *server) letters(_ context.Context, req *connect.Request[text], stream *connect.ServerStream[text]) error {
	for i, letter := range req.Msg.GetValue() {
		if i > 0 {
			s.between()
		}
		if letter == '?' {
			return lost()
		}
		if err := stream.Send(wrapperspb.String(string(letter))); err != nil {
			return err
		}
	}
	return nil
}

func lost() error { return connect.NewError(connect.CodeUnavailable, errors.New("lost for words")) }

// Errors as connect sends them for unary calls, and proxies for all.
var (
	unavailable = faultlayer.Answer(503, `{"code":"unavailable"}`, "Content-Type", "application/json")
	exhausted   = faultlayer.Answer(429, `{"code":"resource_exhausted"}`, "Content-Type", "application/json")
)
