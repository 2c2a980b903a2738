package retrip

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"unsafe"
)

// overrides is what a context says about the requests made with it: one value
// under one key, so that a request looks it up once.
type overrides struct {
	policy      *policy
	maxAttempts int
	idempotent  bool
	trace       *Trace
	noAttempts  error // why maxAttempts can't be used, or nil

	retried *sign // of a transport further out
}

type overridesKey struct{}

func overridesOf(ctx context.Context) *overrides {
	o, _ := ctx.Value(overridesKey{}).(*overrides)
	return o
}

func override(ctx context.Context, change func(*overrides)) context.Context {
	var o overrides
	if before := overridesOf(ctx); before != nil {
		o = *before
	}
	change(&o)
	return context.WithValue(ctx, overridesKey{}, &o)
}

// WithStrategy makes the requests of ctx use s in place of the Transport's
// strategy for their host. Make s once and share it: its quota lives in it. An
// s that is nil or not valid is an error that the request returns.
func WithStrategy(ctx context.Context, s *Strategy) context.Context {
	p := newPolicy(s, "retrip: WithStrategy")
	return override(ctx, func(o *overrides) { o.policy = &p })
}

// WithIdempotent declares that the requests of ctx may be sent again whatever
// their method, even if a first attempt had its effect.
func WithIdempotent(ctx context.Context) context.Context {
	return override(ctx, func(o *overrides) { o.idempotent = true })
}

// WithMaxAttempts makes the requests of ctx use n in place of their strategy's
// MaxAttempts. An n of 1 means no retry; a lower one is an error that the
// request returns.
func WithMaxAttempts(ctx context.Context, n int) context.Context {
	return override(ctx, func(o *overrides) {
		o.maxAttempts, o.noAttempts = n, nil
		if n < 1 {
			o.noAttempts = fmt.Errorf("retrip: WithMaxAttempts got %d: use 1 or more", n)
		}
	})
}

// A resent request is a copy to send again, in one piece of memory with its
// context.
type resent struct {
	http.Request
	context markedContext
}

// A sign tells transports further in which request is being retried, once it is
// shown. It keeps no pointer to the request: a dial may go on with its context
// when the caller has it back.
type sign struct {
	method, host, path, query string
	shown                     atomic.Bool // when the others are written
}

func (s *sign) show(req *http.Request) {
	if req.URL == nil {
		return // Prepare's doing, and an error of the base
	}
	s.method, s.host, s.path, s.query = req.Method, req.URL.Host, req.URL.Path, req.URL.RawQuery
	s.shown.Store(true)
}

// A markedContext carries a sign. (It does the work of context.WithValue.)
type markedContext struct {
	context.Context
	overrides
	sign sign
}

func (m *markedContext) of(ctx context.Context) *markedContext {
	m.Context = ctx
	if before := overridesOf(ctx); before != nil {
		m.overrides = *before
	}
	m.retried = &m.sign
	return m
}

// Value finds the overrides, which is all that is looked for with this key.
func (m *markedContext) Value(key any) any {
	if key == (overridesKey{}) {
		return &m.overrides
	}
	return m.Context.Value(key)
}

// isRetry reports whether req is what a Transport further out is sending again,
// perhaps changed by a layer in between: a copy of it, or a new request for the
// same URL. A token fetch that shares the context is a different request.
func (o *overrides) isRetry(req *http.Request) bool {
	s := o.retried
	return s != nil && s.shown.Load() && s.method == req.Method && (isCopyOfRetry(req) ||
		s.host == req.URL.Host && s.path == req.URL.Path && s.query == req.URL.RawQuery)
}

// retryProto is the Proto of a request that is sent again. Clients ignore Proto,
// and every copy of a request keeps it. So this string, which differs from those of
// other requests in nothing but its place in memory, marks the copies that a
// layer makes to change host, path, query or headers.
var retryProto = strings.Clone("HTTP/1.1")

func isCopyOfRetry(req *http.Request) bool {
	return req.Proto != "" && unsafe.StringData(req.Proto) == unsafe.StringData(retryProto)
}
