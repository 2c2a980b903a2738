// Otelhttp traces requests that fail at first, with OpenTelemetry's otelhttp
// below retrip, above it and both, and prints the spans beside what arrived at
// the server. It needs no network but loopback.
//
//	go run .
//
// Below retrip (retrip.Transport.Base is an otelhttp.Transport), each attempt is a
// span and sends its own id, so the server's spans belong to attempts. otelhttp's
// metrics count attempts.
//
// Above it (otelhttp.NewTransport of a retrip.Transport), the whole request is one
// span, with its waits and the status of the last response. All attempts send the same
// id. otelhttp's metrics count requests. Observe can add the attempts to the span as
// events: see note.
//
// With both, the spans of the attempts are children of the request's span. otelhttp
// retries nothing, so there is nothing to switch off.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otelhttp:", err)
		os.Exit(1)
	}
}

// below makes a span of each attempt.
func below(base http.RoundTripper, options ...otelhttp.Option) http.RoundTripper {
	return &retrip.Transport{
		Base:   otelhttp.NewTransport(base, options...),
		PerKey: strategy,
	}
}

// above makes a span of each request, with its attempts as events.
func above(base http.RoundTripper, options ...otelhttp.Option) http.RoundTripper {
	return otelhttp.NewTransport(&retrip.Transport{
		Base:    base,
		PerKey:  strategy,
		Observe: note,
	}, options...)
}

// both makes a span of each request, with its attempts as children.
func both(base http.RoundTripper, options ...otelhttp.Option) http.RoundTripper {
	return otelhttp.NewTransport(below(base, options...), options...)
}

// note adds an event to the span of the request that retrip was given.
func note(e retrip.Event) {
	trace.SpanFromContext(e.Request.Context()).AddEvent("attempt", trace.WithAttributes(
		attribute.Int("number", e.Attempt),
		attribute.Int("status", e.Status),
		attribute.String("error", e.ErrorKind()),
		attribute.Stringer("class", e.Class),
		attribute.Stringer("wait", e.Wait),
	))
}

// strategy is the standard mode, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

var arrangements = []struct {
	name string
	make func(http.RoundTripper, ...otelhttp.Option) http.RoundTripper
}{
	{"below retrip: a span for each attempt", below},
	{"above retrip: a span for the request", above},
	{"above and below: both", both},
}

// run makes the same request in each arrangement and prints the spans.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	overloaded := faultlayer.Answer(503, "busy")
	for _, arrangement := range arrangements {
		fmt.Fprintf(w, "otelhttp %s\n", arrangement.name)
		recorder := tracetest.NewSpanRecorder()
		base := new(http.Transport)
		client := &http.Client{Transport: arrangement.make(base, tracing(recorder)...)}
		server.faults.Reset()
		server.faults.Fail(nil, overloaded, overloaded)
		text, err := get(context.Background(), client, server.URL)
		if err != nil {
			return err
		}
		base.CloseIdleConnections()
		for _, hit := range server.faults.Hits() {
			fmt.Fprintf(w, "  request from %s\n", nameOf(recorder, spanID(hit)))
		}
		for _, span := range recorder.Started() {
			fmt.Fprintf(w, "  %s: %s, status %d%s%s\n", nameOf(recorder, span.SpanContext().SpanID().String()),
				span.Name(), statusOf(span), parent(recorder, span), events(span))
		}
		fmt.Fprintf(w, "  returned: %q, requests: %d, spans: %d\n", text, len(server.faults.Hits()), len(recorder.Ended()))
	}
	return nil
}

// tracing is how otelhttp is told to use a tracer other than the global one.
func tracing(recorder *tracetest.SpanRecorder) []otelhttp.Option {
	return []otelhttp.Option{
		otelhttp.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))),
		otelhttp.WithPropagators(propagation.TraceContext{}),
	}
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// nameOf numbers the spans in the order in which they began.
func nameOf(recorder *tracetest.SpanRecorder, id string) string {
	for i, span := range recorder.Started() {
		if span.SpanContext().SpanID().String() == id {
			return fmt.Sprintf("span %d", i+1)
		}
	}
	return "no span"
}

func parent(recorder *tracetest.SpanRecorder, span sdktrace.ReadOnlySpan) string {
	if !span.Parent().IsValid() {
		return ""
	}
	return ", child of " + nameOf(recorder, span.Parent().SpanID().String())
}

func statusOf(span sdktrace.ReadOnlySpan) int64 {
	for _, attr := range span.Attributes() {
		if attr.Key == "http.response.status_code" {
			return attr.Value.AsInt64()
		}
	}
	return 0
}

func events(span sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	for _, event := range span.Events() {
		fmt.Fprintf(&b, ", %s", event.Name)
		for _, attr := range event.Attributes[:2] {
			fmt.Fprintf(&b, " %s", attr.Value.String())
		}
	}
	return b.String()
}
