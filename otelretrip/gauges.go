package otelretrip

import (
	"context"

	"github.com/retrip-go/retrip"
	"go.opentelemetry.io/otel/metric"
)

// Watch adds the state of t to the gauges, until the registration is ended.
func (m *Metrics) Watch(t *retrip.Transport) (metric.Registration, error) {
	return m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for s, state := range m.states(t) {
			set := s.with(labels{})
			if state.Tokens >= 0 {
				o.ObserveInt64(m.tokens, int64(state.Tokens), set.observe...)
			}
			if state.Doubt >= 0 {
				o.ObserveFloat64(m.doubt, state.Doubt, set.observe...)
				o.ObserveInt64(m.shut, one(state.Shut), set.observe...)
			}
			if state.Limiter.Enabled {
				o.ObserveFloat64(m.rate, state.Limiter.Rate, set.observe...)
				o.ObserveInt64(m.waiting, int64(state.Limiter.Waiting), set.observe...)
			}
		}
		return nil
	}, m.tokens, m.doubt, m.shut, m.rate, m.waiting)
}

// states returns a state for each server, which is the worst of those of its
// keys.
func (m *Metrics) states(t *retrip.Transport) map[*server]retrip.KeyStats {
	states := map[*server]retrip.KeyStats{}
	for k := range t.Keys() {
		s := m.servers.ofKey(k.Key)
		if before, ok := states[s]; ok {
			k = worse(before, k)
		}
		states[s] = k
	}
	return states
}

func one(holds bool) int64 {
	if holds {
		return 1
	}
	return 0
}

// worse returns the lower quota, the greater doubt, the lower rate and the sum of the
// waiting.
func worse(a, b retrip.KeyStats) retrip.KeyStats {
	if a.Tokens < 0 || b.Tokens >= 0 && b.Tokens < a.Tokens {
		a.Tokens = b.Tokens
	}
	a.Doubt, a.Shut = max(a.Doubt, b.Doubt), a.Shut || b.Shut
	waiting := a.Limiter.Waiting + b.Limiter.Waiting
	if !a.Limiter.Enabled || b.Limiter.Enabled && b.Limiter.Rate < a.Limiter.Rate {
		a.Limiter = b.Limiter
	}
	a.Limiter.Waiting = waiting
	return a
}
