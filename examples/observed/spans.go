package main

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A tally is a span processor that counts, where another would export.
type tally struct {
	mu                          sync.Mutex
	requests, attempts, resends int
	slowest                     time.Duration // of the requests
	slowestTrace                trace.TraceID
}

func newTally() *tally { return new(tally) }

func (t *tally) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (t *tally) OnEnd(s sdktrace.ReadOnlySpan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.SpanKind() == trace.SpanKindClient {
		t.attempts++
		for _, a := range s.Attributes() {
			if a.Key == "http.request.resend_count" {
				t.resends++
			}
		}
		return
	}
	t.requests++
	if took := s.EndTime().Sub(s.StartTime()); took > t.slowest {
		t.slowest, t.slowestTrace = took, s.SpanContext().TraceID()
	}
}

func (t *tally) Shutdown(context.Context) error   { return nil }
func (t *tally) ForceFlush(context.Context) error { return nil }
