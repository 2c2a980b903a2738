package otelretrip_test

import (
	"context"
	"fmt"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/otelretrip"
)

// shared stands in for a redisquota.Fleet.
type shared struct{}

func (shared) Totals() (reports, errors, refused int64, latency time.Duration) {
	return 120, 0, 7, 900 * time.Microsecond
}

func (shared) Verdicts(func(key string, doubt, limit float64, age time.Duration) bool) {}

// What a quota that processes share knows is measured beside the rest.
func ExampleFleet() {
	reader := sdkmetric.NewManualReader()
	transport, err := otelretrip.Wrap(&retrip.Transport{}, otelretrip.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Fleet:         shared{}, // redisquota.New(…)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	var measured metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &measured); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range measured.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			fmt.Println(m.Name, sum.DataPoints[0].Value)
		}
	}
	// Output:
	// retrip.fleet.reports 120
	// retrip.fleet.errors 0
	// retrip.fleet.refused 7
}
