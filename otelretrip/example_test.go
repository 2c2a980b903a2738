package otelretrip_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/otelretrip"
)

// flaky is a server that answers 503 before it answers 200.
func flaky(failures int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if failures--; failures >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// quick is the standard mode without its waits, so that examples end soon.
func quick(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.Constant{}
	return s
}

func get(transport http.RoundTripper, url string) {
	resp, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
}

// Spans and metrics. A program that has set OpenTelemetry's global providers needs
// no Options.
func ExampleWrap() {
	spans := tracetest.NewSpanRecorder()
	server := flaky(1)
	defer server.Close()
	transport, err := otelretrip.Wrap(&retrip.Transport{PerKey: quick}, otelretrip.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	get(transport, server.URL)
	for _, span := range spans.Ended() {
		fmt.Println(span.SpanKind(), span.Name(), len(span.Events()), "events")
	}
	// Output:
	// client GET 0 events
	// client GET 0 events
	// internal retrip GET 2 events
}

// The retrip.Transport below has the statistics.
func ExampleTransport() {
	server := flaky(1)
	defer server.Close()
	transport, err := otelretrip.Wrap(&retrip.Transport{PerKey: quick, KeepStats: true}, otelretrip.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	get(transport, server.URL)
	fmt.Println(transport.Unwrap().Stats().Retries)
	// Output: 1
}

// URLs are told only where the program says how: here without the query.
func ExampleOptions() {
	spans := tracetest.NewSpanRecorder()
	server := flaky(0)
	defer server.Close()
	transport, err := otelretrip.Wrap(&retrip.Transport{}, otelretrip.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MaxServers:     20,
		URLFull:        func(u *url.URL) string { return u.Scheme + "://example.com" + u.Path },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	get(transport, server.URL+"/items?token=secret")
	for _, attribute := range spans.Ended()[0].Attributes() {
		if attribute.Key == "url.full" {
			fmt.Println(attribute.Value.AsString())
		}
	}
	// Output: http://example.com/items
}

// The metrics alone.
func ExampleNewMetrics() {
	reader := sdkmetric.NewManualReader() // or a Prometheus exporter
	metrics, err := otelretrip.NewMetrics(otelretrip.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := flaky(1)
	defer server.Close()
	get(&retrip.Transport{PerKey: quick, Observe: metrics.Observe}, server.URL)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "retrip.retries" {
			fmt.Println(m.Name, sum.DataPoints[0].Value)
		}
	}
	// Output: retrip.retries 1
}

// Watch adds the gauges: what the quotas have left, and the limiters' rates.
func ExampleMetrics_Watch() {
	metrics, err := otelretrip.NewMetrics(otelretrip.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := &retrip.Transport{PerKey: quick, Observe: metrics.Observe}
	gauges, err := metrics.Watch(transport)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gauges.Unregister()) // when the Transport is no longer used
	// Output: <nil>
}

// otelhttp makes the spans of attempts. ResendCount below it tells which of them
// are retries.
func ExampleResendCount() {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	server := flaky(1)
	defer server.Close()
	base := otelhttp.NewTransport(otelretrip.ResendCount(http.DefaultTransport), otelhttp.WithTracerProvider(provider))
	transport, err := otelretrip.Wrap(&retrip.Transport{PerKey: quick, Base: base},
		otelretrip.Options{TracerProvider: provider, AttemptsElsewhere: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	get(transport, server.URL)
	for _, span := range spans.Ended() {
		for _, attribute := range span.Attributes() {
			if attribute.Key == "http.request.resend_count" {
				fmt.Println(span.SpanKind(), attribute.Value.AsInt64())
			}
		}
	}
	// Output: client 1
}
