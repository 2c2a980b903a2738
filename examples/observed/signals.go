package main

import (
	"expvar"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/otelretrip"
)

// observed is a transport with every signal on.
type observed struct {
	transport *otelretrip.Transport
	registry  *prometheus.Registry
	spans     *tally
}

// observe sets up all signals of a transport over base; warnings go to w.
func observe(base http.RoundTripper, w io.Writer) (*observed, error) {
	o := &observed{registry: prometheus.NewRegistry(), spans: newTally()}
	scraped, err := exporter.New(exporter.WithRegisterer(o.registry))
	if err != nil {
		return nil, err
	}
	o.transport, err = otelretrip.Wrap(&retrip.Transport{
		Base:           base,
		KeepStats:      true,
		AttemptTimeout: 300 * time.Millisecond,
		PerKey:         strategyFor,
		Observe:        retrip.LogTo(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	}, otelretrip.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(scraped)),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans)),
		Propagator:     propagation.TraceContext{},
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// strategyFor is the adaptive mode for who throttles, and otherwise the
// standard mode with a quota that a minute can empty.
func strategyFor(host string) *retrip.Strategy {
	if host == "search.example" {
		s := retrip.Adaptive()
		s.ThrottleBackoff = nil // the limiter makes up for it
		return s
	}
	s := retrip.Standard()
	s.Quota = retrip.NewBucket(100)
	return s
}

func (o *observed) close() {
	o.transport.CloseIdleConnections()
	_ = o.transport.Close() // nothing reads the gauges any more
}

type place struct{ path, what string }

func (*observed) places() []place {
	return []place{
		{"/metrics", "OpenTelemetry's metrics, for Prometheus; otelretrip/dashboards has a dashboard and alerts"},
		{"/debug/vars", "the same in short, as expvar's JSON"},
	}
}

func (o *observed) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", o.index)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}))
	// A program with one transport: expvar.Publish("retrip", expvar.Func(t.Vars)).
	mux.HandleFunc("GET /debug/vars", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, "{\"retrip\": %s}\n", expvar.Func(o.transport.Unwrap().Vars))
	})
	return mux
}

// index links to the other pages.
func (o *observed) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintln(w, "<!DOCTYPE html>\n<title>retrip: observed</title>\n<h1>What the transport does</h1>\n<ul>")
	for _, p := range o.places() {
		fmt.Fprintf(w, "<li><a href=\"%s\">%s</a>: %s</li>\n", p.path, p.path, html.EscapeString(p.what))
	}
	fmt.Fprintln(w, "</ul>")
}
