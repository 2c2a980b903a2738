package otelretrip

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/retrip-go/retrip"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Transport is an http.RoundTripper that tells OpenTelemetry what the
// retrip.Transport below it does. Make one with Wrap; the zero Transport can't be
// used. It is safe for concurrent use.
type Transport struct {
	next   *retrip.Transport
	tracer trace.Tracer
	gauges metric.Registration
}

// Wrap returns t, which must not have been used yet, with metrics and spans. It
// sets t.Base and t.Observe to what does the telling and then uses what was there.
// A t or Options that are not valid are an error.
//
// The span of a request is of kind internal, as the semantic conventions want
// it of what encompasses attempts, and ends with the response headers. It has
// an event "retrip.attempt" for each attempt with what retrip made of it.
// The client span of an attempt ends with its response headers, too; all but
// the first have http.request.resend_count, which counts on over redirects. For
// that, the response's Request is a copy of the caller's.
func Wrap(t *retrip.Transport, o Options) (*Transport, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	metrics, err := NewMetrics(o)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = new(retrip.Transport).Unwrap() // what it would have used
	}
	t.Base = &attempts{base, o, o.tracer()}
	before := t.Observe
	t.Observe = func(e retrip.Event) {
		note(e)
		metrics.Observe(e)
		if before != nil {
			before(e)
		}
	}
	gauges, err := metrics.Watch(t)
	return &Transport{t, o.tracer(), gauges}, err
}

// RoundTrip sends req through the retrip.Transport, in a span.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil || req.URL == nil {
		return t.next.RoundTrip(req) // which says what is wrong with it
	}
	ctx, span := t.tracer.Start(req.Context(), "retrip "+spanName(req), trace.WithAttributes(requestAttributes(req)...))
	defer span.End()
	trip := &trip{span: span}
	trip.sent.Store(sentBefore(req))
	resp, err := t.next.RoundTrip(req.WithContext(context.WithValue(ctx, tripKey{}, trip)))
	end(span, resp, err)
	return resp, err
}

// CloseIdleConnections closes those of the base, if it knows how to.
func (t *Transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// Unwrap returns the retrip.Transport that was given to Wrap.
func (t *Transport) Unwrap() *retrip.Transport { return t.next }

// Close takes the Transport's state out of the gauges. It can still be used.
func (t *Transport) Close() error { return t.gauges.Unregister() }

// A trip is a request on its way: what the layers below RoundTrip need to know
// of it, in its context.
type trip struct {
	span trace.Span
	sent atomic.Int64 // attempts, those before a redirect included
}

type tripKey struct{}

func tripOf(ctx context.Context) *trip {
	t, _ := ctx.Value(tripKey{}).(*trip)
	return t
}

// sentBefore is how many attempts it took to get the redirect that led here.
func sentBefore(req *http.Request) int64 {
	if req.Response != nil && req.Response.Request != nil {
		if t := tripOf(req.Response.Request.Context()); t != nil {
			return t.sent.Load()
		}
	}
	return 0
}

// note adds an event to the span of the request.
func note(e retrip.Event) {
	t := tripOf(e.Request.Context())
	if t == nil || !t.span.IsRecording() {
		return
	}
	attrs := []attribute.KeyValue{attribute.Int("retrip.attempt", e.Attempt)}
	if !e.Sent.IsZero() {
		attrs = append(attrs, classKey.String(e.Class.String()))
	}
	if e.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(e.Status))
	}
	text := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	text(semconv.ErrorTypeKey, errorType(e))
	text("retrip.code", e.Code)
	text(waitFromKey, waitFrom(e))
	if e.Wait > 0 {
		attrs = append(attrs, attribute.Float64("retrip.wait", e.Wait.Seconds()))
	}
	if e.LimiterWait > 0 {
		attrs = append(attrs, attribute.Float64("retrip.admission.delay", e.LimiterWait.Seconds()))
	}
	if e.Tokens >= 0 {
		attrs = append(attrs, attribute.Int("retrip.quota.tokens", e.Tokens))
	}
	if e.Doubt >= 0 {
		attrs = append(attrs, attribute.Float64("retrip.quota.doubt", e.Doubt))
	}
	if e.Reason != 0 {
		attrs = append(attrs, reasonKey.String(e.Reason.String()))
	}
	t.span.AddEvent("retrip.attempt", trace.WithAttributes(attrs...))
	if e.Final {
		t.span.SetAttributes(attribute.Int("retrip.attempts", e.Attempt), outcomeKey.String(outcome(e)))
		if e.Reason != 0 {
			t.span.SetAttributes(reasonKey.String(e.Reason.String()))
		}
	}
}

// attempts is the base of a wrapped retrip.Transport: it counts attempts and
// makes a span of each.
type attempts struct {
	base   http.RoundTripper
	o      Options
	tracer trace.Tracer
}

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	resends := int64(0)
	if t := tripOf(req.Context()); t != nil {
		resends = t.sent.Add(1) - 1
	}
	if a.o.AttemptsElsewhere {
		return a.base.RoundTrip(req)
	}
	attrs := requestAttributes(req)
	if resends > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(int(resends)))
	}
	if a.o.URLFull != nil {
		attrs = append(attrs, semconv.URLFull(a.o.URLFull(req.URL)))
	}
	ctx, span := a.tracer.Start(req.Context(), spanName(req),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	defer span.End()
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	a.o.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := a.base.RoundTrip(out)
	if resp != nil {
		resp.Request = req
		span.SetAttributes(semconv.NetworkProtocolVersion(protocolVersion(resp)))
	}
	end(span, resp, err)
	return resp, err
}

func (a *attempts) CloseIdleConnections() {
	if base, ok := a.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Unwrap returns what sends the attempts.
func (a *attempts) Unwrap() http.RoundTripper { return a.base }

// ResendCount returns base with http.request.resend_count set on the spans of
// what makes spans of attempts: put it directly below that, otelhttp for
// example, in the Base of a retrip.Transport that is given to Wrap.
func ResendCount(base http.RoundTripper) http.RoundTripper { return resendCount{base} }

type resendCount struct{ base http.RoundTripper }

func (r resendCount) RoundTrip(req *http.Request) (*http.Response, error) {
	span := trace.SpanFromContext(req.Context())
	if t := tripOf(req.Context()); t != nil && span.SpanContext().SpanID() != t.span.SpanContext().SpanID() {
		if resends := t.sent.Load() - 1; resends > 0 {
			span.SetAttributes(semconv.HTTPRequestResendCount(int(resends)))
		}
	}
	return r.base.RoundTrip(req)
}

func (r resendCount) CloseIdleConnections() {
	if base, ok := r.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// spanName is the semantic conventions' name for a request with no target of
// low cardinality.
func spanName(req *http.Request) string {
	if method := methodOf(req); method != other {
		return method
	}
	return "HTTP"
}

func requestAttributes(req *http.Request) []attribute.KeyValue {
	attrs := addressOf(req.URL).attributes()
	return append(attrs, semconv.HTTPRequestMethodKey.String(methodOf(req)))
}

// end tells a span how its request or attempt ended. The status has no
// description: the text of an error may hold anything.
func end(span trace.Span, resp *http.Response, err error) {
	e := retrip.Event{Err: err}
	if resp != nil {
		e.Status = resp.StatusCode
		span.SetAttributes(semconv.HTTPResponseStatusCode(e.Status))
	}
	if kind := errorType(e); kind != "" {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	}
}

func protocolVersion(resp *http.Response) string {
	if resp.ProtoMajor >= 2 {
		return strconv.Itoa(resp.ProtoMajor)
	}
	return strconv.Itoa(resp.ProtoMajor) + "." + strconv.Itoa(resp.ProtoMinor)
}
