package retrip

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
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

	mark *mark // of the retry that a transport further out is making
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
// strategy for their key. Make s once and share it among the requests to one host:
// its quota lives in it. An s that is nil or not valid is an error that the
// request returns.
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
// MaxAttempts, also that of WithStrategy. An n of 1 means no retry; a lower one is
// an error that the request returns.
func WithMaxAttempts(ctx context.Context, n int) context.Context {
	return override(ctx, func(o *overrides) {
		o.maxAttempts, o.noAttempts = n, nil
		if n < 1 {
			o.noAttempts = fmt.Errorf("retrip: WithMaxAttempts got %d: use 1 or more", n)
		}
	})
}

// A retried request is a copy to send again, in one piece of memory with its
// context.
type retried struct {
	http.Request
	context markedContext
}

// A mark tells transports further in which request is being retried, once it is
// shown. It keeps no pointer to the request: a dial may go on with its context
// when the caller has it back.
type mark struct {
	method, host, path, query string
	shown                     atomic.Bool // when the others are written
}

func (m *mark) show(req *http.Request) {
	if req.URL == nil {
		return // Prepare's doing, and an error of the base
	}
	m.method, m.host, m.path, m.query = methodOf(req), req.URL.Host, req.URL.Path, req.URL.RawQuery
	m.shown.Store(true)
}

// A markedContext carries a mark. (It does the work of context.WithValue.)
type markedContext struct {
	context.Context
	overrides
	mark mark
}

func (m *markedContext) of(ctx context.Context) *markedContext {
	m.Context = ctx
	if before := overridesOf(ctx); before != nil {
		m.overrides = *before
	}
	m.overrides.mark = &m.mark
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
	m := o.mark
	return m != nil && m.shown.Load() && m.method == methodOf(req) && (isCopyOfRetry(req) ||
		m.host == req.URL.Host && m.path == req.URL.Path && m.query == req.URL.RawQuery)
}

// methodOf names the method that an empty one stands for.
func methodOf(req *http.Request) string { return cmp.Or(req.Method, http.MethodGet) }

// retriedProto is the Proto of a request that is sent again. Clients ignore Proto,
// and every copy of a request keeps it. So this string, which differs from those of
// other requests in nothing but its place in memory, marks the copies that a
// layer makes to change host, path, query or headers.
var retriedProto = strings.Clone("HTTP/1.1")

func isCopyOfRetry(req *http.Request) bool {
	return req.Proto != "" && unsafe.StringData(req.Proto) == unsafe.StringData(retriedProto)
}

// outerAttempt is the number of the attempt that a retrier further out says
// the request is of, or 0 if none says so; if several say so, the highest. An
// SDK, a proxy or a mesh tells it in a header of its own; what does not look
// like such a number is ignored.
func outerAttempt(req *http.Request) (number int) {
	if value := headerValue(req.Header, "Amz-Sdk-Request"); value != "" { // AWS SDKs: "attempt=2; max=3"
		for parameter := range strings.SplitSeq(value, ";") {
			if n, ok := strings.CutPrefix(strings.TrimSpace(parameter), "attempt="); ok {
				number = attemptNumber(n, 0)
			}
		}
	}
	for _, h := range [...]struct {
		name   string
		before int // attempts before the one that is numbered 0
	}{
		{"X-Stainless-Retry-Count", 1},    // the SDKs of OpenAI, Anthropic and Cloudflare
		{"X-Envoy-Attempt-Count", 0},      // Envoy, and meshes made of it
		{"Retry-Attempt", 1},              // Microsoft's Kiota
		{"Grpc-Previous-Rpc-Attempts", 1}, // gRPC
	} {
		if value := headerValue(req.Header, h.name); value != "" {
			number = max(number, attemptNumber(value, h.before))
		}
	}
	return number
}

func attemptNumber(s string, before int) int {
	const unlikely = 1000 // our choice: no retrier goes on for that long
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > unlikely {
		return 0
	}
	return int(n) + before
}
