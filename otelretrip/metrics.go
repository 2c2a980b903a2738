package otelretrip

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/retrip-go/retrip"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
)

// The attributes that the semantic conventions have no name for.
const (
	classKey    = attribute.Key("retrip.class")
	reasonKey   = attribute.Key("retrip.reason")
	outcomeKey  = attribute.Key("retrip.outcome")
	waitFromKey = attribute.Key("retrip.wait.from")
)

// Metrics measures what retrip.Transports do: Transport.Observe is its Observe,
// and Watch adds the gauges. Make one with NewMetrics; the zero Metrics can't be
// used. It may serve several Transports. All methods are safe for concurrent use.
type Metrics struct {
	meter   metric.Meter
	servers *servers

	attemptDuration   metric.Float64Histogram // nil if it is measured elsewhere
	attempts, retries metric.Int64Counter
	giveUps           metric.Int64Counter
	duration          metric.Float64Histogram
	requestAttempts   metric.Int64Histogram
	wait, admission   metric.Float64Histogram
	tokens, waiting   metric.Int64ObservableGauge
	shut              metric.Int64ObservableGauge
	doubt             metric.Float64ObservableGauge
	rate              metric.Float64ObservableGauge
}

// NewMetrics returns Metrics for the MeterProvider of o. The package's comment
// lists them. Options that are not valid are an error.
func NewMetrics(o Options) (*Metrics, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Metrics{meter: o.meter(), servers: newServers(o.MaxServers)}
	return m, m.makeInstruments(!o.AttemptsElsewhere)
}

func (m *Metrics) makeInstruments(attempts bool) error {
	var errs [13]error
	if attempts {
		var duration httpconv.ClientRequestDuration
		duration, errs[0] = httpconv.NewClientRequestDuration(m.meter)
		m.attemptDuration = duration.Inst()
	}
	m.attempts, errs[1] = m.meter.Int64Counter("retrip.attempts",
		metric.WithUnit("{attempt}"), metric.WithDescription("Attempts that were sent."))
	m.retries, errs[2] = m.meter.Int64Counter("retrip.retries",
		metric.WithUnit("{attempt}"), metric.WithDescription("Attempts that were sent and not the first of their request."))
	m.giveUps, errs[3] = m.meter.Int64Counter("retrip.give_ups",
		metric.WithUnit("{request}"), metric.WithDescription("Requests that ended without a success, by why there was no further attempt."))
	m.duration, errs[4] = m.meter.Float64Histogram("retrip.request.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of requests up to the response headers, with all attempts and waits."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120))
	m.requestAttempts, errs[5] = m.meter.Int64Histogram("retrip.request.attempts",
		metric.WithUnit("{attempt}"), metric.WithDescription("Attempts that a request took."),
		metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 5, 7, 10))
	m.wait, errs[6] = m.meter.Float64Histogram("retrip.wait",
		metric.WithUnit("s"), metric.WithDescription("Waits before retries, and whose wish they were."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	m.admission, errs[7] = m.meter.Float64Histogram("retrip.admission.delay",
		metric.WithUnit("s"), metric.WithDescription("Waits for the send-rate limiter, of the attempts that had to wait."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	m.tokens, errs[8] = m.meter.Int64ObservableGauge("retrip.quota.tokens",
		metric.WithUnit("{token}"), metric.WithDescription("What the quota has, for retries."))
	m.doubt, errs[11] = m.meter.Float64ObservableGauge("retrip.quota.doubt",
		metric.WithUnit("{failure}"), metric.WithDescription("Failures that the quota counts against the server."))
	m.shut, errs[12] = m.meter.Int64ObservableGauge("retrip.quota.shut",
		metric.WithUnit("{quota}"), metric.WithDescription("1 while the quota refuses retries because of them, and 0 otherwise."))
	m.rate, errs[9] = m.meter.Float64ObservableGauge("retrip.limiter.rate",
		metric.WithUnit("{attempt}/s"), metric.WithDescription("What the send-rate limiter allows, once it limits."))
	m.waiting, errs[10] = m.meter.Int64ObservableGauge("retrip.limiter.waiting",
		metric.WithUnit("{attempt}"), metric.WithDescription("Attempts in the send-rate limiter's queue."))
	return errors.Join(errs[:]...)
}

// Observe measures what e tells; set it, or call it, as Transport.Observe.
func (m *Metrics) Observe(e retrip.Event) {
	ctx, s := e.Request.Context(), m.servers.of(e)
	if !e.Sent.IsZero() {
		m.observeAttempt(ctx, s, e)
	}
	if e.Final {
		m.observeEnd(ctx, s, e)
	} else {
		m.wait.Record(ctx, e.Wait.Seconds(), s.with(labels{waitFrom: waitFrom(e)}).record...)
	}
}

func (m *Metrics) observeAttempt(ctx context.Context, s *server, e retrip.Event) {
	m.attempts.Add(ctx, 1, s.with(labels{class: e.Class}).add...)
	if e.Attempt > 1 {
		m.retries.Add(ctx, 1, s.with(labels{}).add...)
	}
	if e.LimiterWait > 0 {
		m.admission.Record(ctx, e.LimiterWait.Seconds(), s.with(labels{}).record...)
	}
	if m.attemptDuration != nil {
		attempt := labels{method: methodOf(e.Request), status: e.Status, errorType: errorType(e)}
		m.attemptDuration.Record(ctx, e.Done.Sub(e.Sent).Seconds(), s.with(attempt).record...)
	}
}

func (m *Metrics) observeEnd(ctx context.Context, s *server, e retrip.Event) {
	if e.Reason != 0 {
		m.giveUps.Add(ctx, 1, s.with(labels{reason: e.Reason}).add...)
	}
	end := s.with(labels{outcome: outcome(e)})
	m.duration.Record(ctx, e.Elapsed.Seconds(), end.record...)
	m.requestAttempts.Record(ctx, int64(e.Attempt), end.record...)
}

// outcome is what became of the request whose final event e is.
func outcome(e retrip.Event) string {
	switch {
	case e.Reason == retrip.Cancelled && deadlinePassed(e.Request.Context()):
		return "timeout"
	case e.Reason == retrip.Cancelled:
		return "cancelled"
	case e.Reason == retrip.NotRetryable && 400 <= e.Status && e.Status < 500:
		return "rejected"
	case e.Reason != 0:
		return "failed"
	case e.Attempt > 1:
		return "recovered"
	default:
		return "success"
	}
}

// deadlinePassed tells a deadline from a call that the caller cancelled. The
// context's error does not: when http.Client.Timeout is over, the client may
// cancel the context just before its deadline ends it.
func deadlinePassed(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// waitFrom is whose wish the wait is. A wait reader's own name for it is left
// out: nobody knows what a user's one takes it from.
func waitFrom(e retrip.Event) string {
	switch e.WaitFrom {
	case "", "backoff", "limiter":
		return e.WaitFrom
	default:
		return "server"
	}
}

// errorType is the semantic conventions' error.type of the attempt, or nothing
// if it succeeded.
func errorType(e retrip.Event) string {
	switch {
	case e.Err != nil && e.ErrorKind() == "other":
		return other
	case e.Err != nil:
		return e.ErrorKind()
	case e.Status >= 400:
		return strconv.Itoa(e.Status)
	default:
		return ""
	}
}
