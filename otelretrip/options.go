package otelretrip

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Options are what Wrap and NewMetrics need to know. The zero Options will do.
type Options struct {
	// MeterProvider, TracerProvider and Propagator; nil are the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Propagator     propagation.TextMapPropagator

	// MaxServers bounds the servers that metrics tell apart, the first that come
	// being told: further ones are the server.address "_OTHER". 0 means 100, our
	// choice: what a dashboard can show, and below the SDK's own limit of 2000
	// attribute sets. Less is an error. Spans always name their server.
	MaxServers int

	// AttemptsElsewhere says that the transport's Base instruments attempts,
	// like otelhttp does, and leaves attempt spans, the trace context in headers
	// and http.client.request.duration to it.
	AttemptsElsewhere bool

	// Fleet is measured, too, unless it is nil. Only Wrap looks at it.
	Fleet Fleet

	// URLFull returns the attribute url.full of attempt spans, without what is
	// secret; it is called for each attempt, from many goroutines at once. nil leaves
	// the attribute out, since only the program knows which paths and queries are
	// secret.
	URLFull func(*url.URL) string
}

const defaultMaxServers = 100 // see Options.MaxServers

func (o Options) withDefaults() (Options, error) {
	if o.MaxServers < 0 {
		return o, fmt.Errorf("otelretrip: Options.MaxServers is %d: use 0 for %d, or more", o.MaxServers, defaultMaxServers)
	}
	o.MaxServers = cmp.Or(o.MaxServers, defaultMaxServers)
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return o, nil
}

func (o Options) meter() metric.Meter {
	return o.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(version()), metric.WithSchemaURL(semconv.SchemaURL))
}

func (o Options) tracer() trace.Tracer {
	return o.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(semconv.SchemaURL))
}

const other = "_OTHER" // the semantic conventions' word for what is not told apart

// methodOf is the request's method if the semantic conventions know it: anybody
// can make up others.
func methodOf(req *http.Request) string {
	switch req.Method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY":
		return req.Method
	default:
		return other
	}
}
