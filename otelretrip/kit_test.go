package otelretrip

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A kit is where signals go in tests.
type kit struct {
	reader   *sdkmetric.ManualReader
	recorder *tracetest.SpanRecorder
	options  Options
}

func newKit(further ...sdkmetric.Reader) kit {
	k := kit{reader: sdkmetric.NewManualReader(), recorder: tracetest.NewSpanRecorder()}
	readers := []sdkmetric.Option{sdkmetric.WithReader(k.reader)}
	for _, r := range further {
		readers = append(readers, sdkmetric.WithReader(r))
	}
	k.options = Options{
		MeterProvider:  sdkmetric.NewMeterProvider(readers...),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(k.recorder)),
		Propagator:     propagation.TraceContext{},
	}
	return k
}

// lines returns all that is measured, a line for each attribute set: counters
// and gauges with their value, histograms with their count and sum.
func (k kit) lines(t *testing.T) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, k.reader.Collect(context.Background(), &all))
	var lines []string
	for _, s := range all.ScopeMetrics {
		require.Equal(t, scope, s.Scope.Name)
		require.NotEmpty(t, s.Scope.Version)
		for _, m := range s.Metrics {
			lines = append(lines, linesOf(m)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func linesOf(m metricdata.Metrics) (lines []string) {
	add := func(attrs attribute.Set, values ...any) {
		line := m.Name
		for _, a := range attrs.ToSlice() {
			line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
		lines = append(lines, line+": "+strings.TrimSpace(fmt.Sprintln(values...)))
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprintf("%.3g", p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Count, "in", fmt.Sprintf("%.4gs", p.Sum))
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Count, "with", p.Sum)
		}
	default:
		panic(fmt.Sprintf("%T", data))
	}
	return lines
}

// matching returns the lines with prefix, without it.
func matching(lines []string, prefix string) (found []string) {
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, rest)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// script is a base that answers as it is told, and at the end as it did last.
func script(steps ...roundTripper) http.RoundTripper {
	n := 0
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		step := steps[min(n, len(steps)-1)]
		n++
		return step(req)
	})
}

func status(code int, header ...string) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
		for i := 0; i+1 < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func fails(err error) roundTripper {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// standard is the standard mode without chance.
func standard() *retrip.Strategy {
	s := retrip.Standard()
	s.Rand = func() float64 { return 1 }
	return s
}

func get(t *testing.T, rt http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return rt.RoundTrip(req)
}
