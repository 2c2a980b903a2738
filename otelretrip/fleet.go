package otelretrip

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// A Fleet connects the retry quotas of processes, as redisquota.Fleet does through
// Redis. Its methods may be called from several goroutines at once.
type Fleet interface {
	// Totals returns how many reports were sent to the other processes, how many of
	// them failed, and how many retries were refused for what others reported, all
	// since the start; and how long the last report took.
	Totals() (reports, errors, refused int64, latency time.Duration)
	// Verdicts calls yield with what is known of each key, until it returns false: the
	// fleet's doubt, the limit from which it refuses retries, and how old both are.
	Verdicts(yield func(key string, doubt, limit float64, age time.Duration) bool)
}

// WatchFleet measures f until the registration is ended. Wrap does it with
// Options.Fleet.
func (m *Metrics) WatchFleet(f Fleet) (metric.Registration, error) {
	w := fleetWatch{fleet: f, servers: m.servers}
	if err := w.makeInstruments(m.meter); err != nil {
		return nil, err
	}
	return m.meter.RegisterCallback(w.observe, w.reports, w.errors, w.refused, w.latency, w.doubt, w.age)
}

type fleetWatch struct {
	fleet   Fleet
	servers *servers

	reports, errors, refused metric.Int64ObservableCounter
	latency, doubt, age      metric.Float64ObservableGauge
}

func (w *fleetWatch) makeInstruments(meter metric.Meter) error {
	var errs [6]error
	w.reports, errs[0] = meter.Int64ObservableCounter("retrip.fleet.reports",
		metric.WithUnit("{report}"), metric.WithDescription("Reports to the other processes of the fleet, also those that failed."))
	w.errors, errs[1] = meter.Int64ObservableCounter("retrip.fleet.errors",
		metric.WithUnit("{report}"), metric.WithDescription("Reports that failed."))
	w.refused, errs[2] = meter.Int64ObservableCounter("retrip.fleet.refused",
		metric.WithUnit("{retry}"), metric.WithDescription("Retries that were refused for what other processes reported."))
	w.latency, errs[3] = meter.Float64ObservableGauge("retrip.fleet.latency",
		metric.WithUnit("s"), metric.WithDescription("Duration of the last report."))
	w.doubt, errs[4] = meter.Float64ObservableGauge("retrip.fleet.doubt",
		metric.WithUnit("1"), metric.WithDescription("The fleet's doubt, as a share of the limit from which it refuses retries."))
	w.age, errs[5] = meter.Float64ObservableGauge("retrip.fleet.age",
		metric.WithUnit("s"), metric.WithDescription("Age of what the process knows of the fleet's doubt."))
	return errors.Join(errs[:]...)
}

func (w *fleetWatch) observe(_ context.Context, o metric.Observer) error {
	reports, failed, refused, latency := w.fleet.Totals()
	o.ObserveInt64(w.reports, reports)
	o.ObserveInt64(w.errors, failed)
	o.ObserveInt64(w.refused, refused)
	o.ObserveFloat64(w.latency, latency.Seconds())
	// The worst of a server's keys: the greatest doubt, and the greatest age.
	type known struct{ doubt, age float64 }
	states := map[*server]known{}
	w.fleet.Verdicts(func(key string, doubt, limit float64, age time.Duration) bool {
		s := w.servers.ofKey(key)
		k := states[s]
		if limit > 0 {
			k.doubt = max(k.doubt, doubt/limit)
		}
		k.age = max(k.age, age.Seconds())
		states[s] = k
		return true
	})
	for s, k := range states {
		set := s.with(labels{})
		o.ObserveFloat64(w.doubt, k.doubt, set.observe...)
		o.ObserveFloat64(w.age, k.age, set.observe...)
	}
	return nil
}
