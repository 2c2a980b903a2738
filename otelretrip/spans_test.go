package otelretrip

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tell returns a line for each span and each event, in the order in which they
// began: the parent's name, kind, name, status and attributes.
func tell(spans []sdktrace.ReadOnlySpan) (lines []string) {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	for _, s := range spans {
		if s.InstrumentationScope().Version == "" && s.InstrumentationScope().Name == scope {
			lines = append(lines, "no instrumentation version: "+s.Name())
		}
		line := s.Name()
		if parent := names[s.Parent().SpanID()]; parent != "" {
			line = parent + " > " + line
		}
		lines = append(lines, fmt.Sprintf("%s (%v, %v)%s", line, s.SpanKind(), s.Status().Code, told(s.Attributes())))
		for _, e := range s.Events() {
			lines = append(lines, "  "+e.Name+told(e.Attributes))
		}
	}
	return lines
}

func told(attrs []attribute.KeyValue) string {
	var b strings.Builder
	set := attribute.NewSet(attrs...) // sorted
	for _, a := range set.ToSlice() {
		if a.Key != "server.address" && a.Key != "server.port" {
			fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.String())
		}
	}
	return b.String()
}

func TestSpans(t *testing.T) {
	const ok = " http.request.method=GET http.response.status_code=200"
	for _, test := range []struct {
		name  string
		steps []roundTripper
		want  []string
	}{
		{"success", []roundTripper{status(200)}, []string{
			"retrip GET (internal, Unset)" + ok + " retrip.attempts=1 retrip.outcome=success",
			"  retrip.attempt http.response.status_code=200 retrip.attempt=1 retrip.class=success retrip.quota.tokens=500",
			"retrip GET > GET (client, Unset)" + ok + " network.protocol.version=1.1",
		}},
		{"recovered", []roundTripper{status(429, "Retry-After", "3"), fails(io.ErrUnexpectedEOF), status(200)}, []string{
			"retrip GET (internal, Unset)" + ok + " retrip.attempts=3 retrip.outcome=recovered",
			"  retrip.attempt error.type=429 http.response.status_code=429 retrip.attempt=1 retrip.class=throttled retrip.quota.tokens=495 retrip.wait=3 retrip.wait.from=server",
			"  retrip.attempt error.type=EOF retrip.attempt=2 retrip.class=transient retrip.quota.tokens=490 retrip.wait=0.2 retrip.wait.from=backoff",
			"  retrip.attempt http.response.status_code=200 retrip.attempt=3 retrip.class=success retrip.quota.tokens=495",
			"retrip GET > GET (client, Error) error.type=429 http.request.method=GET http.response.status_code=429 network.protocol.version=1.1",
			"retrip GET > GET (client, Error) error.type=EOF http.request.method=GET http.request.resend_count=1",
			"retrip GET > GET (client, Unset) http.request.method=GET http.request.resend_count=2 http.response.status_code=200 network.protocol.version=1.1",
		}},
		{"failed", []roundTripper{status(501)}, []string{
			"retrip GET (internal, Error) error.type=501 http.request.method=GET http.response.status_code=501 retrip.attempts=1 retrip.outcome=failed retrip.reason=not retryable",
			"  retrip.attempt error.type=501 http.response.status_code=501 retrip.attempt=1 retrip.class=permanent retrip.quota.tokens=500 retrip.reason=not retryable",
			"retrip GET > GET (client, Error) error.type=501 http.request.method=GET http.response.status_code=501 network.protocol.version=1.1",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit()
				seen := 0
				transport, err := Wrap(&retrip.Transport{
					Base: script(test.steps...), Strategy: standard(), Observe: func(retrip.Event) { seen++ },
				}, k.options)
				require.NoError(t, err)
				begun := time.Now()
				_, _ = get(t, transport, "https://example.com/")
				spans := byStart(k.recorder.Ended())
				require.Equal(t, test.want, tell(spans))
				require.Equal(t, time.Since(begun), spans[0].EndTime().Sub(spans[0].StartTime()), "with the waits")
				require.Equal(t, len(test.steps), seen, "the observer that was there sees all, too")
			})
		})
	}
}

// byStart sorts spans: parents first, the SDK reports them last.
func byStart(spans []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		if d := a.StartTime().Compare(b.StartTime()); d != 0 {
			return d
		}
		return strings.Compare(b.Name(), a.Name())
	})
	return spans
}

// A request that makes no sense has a span that says so, and no event.
func TestSpanOfNonsense(t *testing.T) {
	k := newKit()
	transport, err := Wrap(&retrip.Transport{Base: script(status(200))}, k.options)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(retrip.WithMaxAttempts(t.Context(), -1), "BREW", "https://example.com", nil)
	require.NoError(t, err)
	_, err = transport.RoundTrip(req)
	require.Error(t, err)
	require.Equal(t, []string{"retrip HTTP (internal, Error) error.type=_OTHER http.request.method=_OTHER"}, tell(k.recorder.Ended()))

	_, err = transport.RoundTrip(nil)
	require.Error(t, err)
	_, err = transport.RoundTrip(new(http.Request))
	require.Error(t, err)
	require.Len(t, k.recorder.Ended(), 1)

	_, err = Wrap(&retrip.Transport{MaxKeys: -1}, k.options)
	require.ErrorContains(t, err, "MaxKeys")
	k.options.MaxServers = -1
	_, err = Wrap(new(retrip.Transport), k.options)
	require.ErrorContains(t, err, "MaxServers")
}

// Every attempt brings the id of its own span to the server, also with
// otelhttp, and its resend count, also over redirects; the caller's request
// stays as it was.
func TestAttemptsTravel(t *testing.T) {
	var mu sync.Mutex
	arrived := map[string][]string{} // span ids by query
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.URL.RawQuery
		arrived[id] = append(arrived[id], strings.Split(r.Header.Get("Traceparent"), "-")[2])
		switch {
		case len(arrived[id])%2 == 1: // every other
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case r.URL.Path == "/":
			http.Redirect(w, r, "/there?"+id, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprint("otelhttp ", elsewhere), func(t *testing.T) {
			clear(arrived)
			k := newKit()
			base := http.RoundTripper(new(http.Transport))
			if elsewhere {
				k.options.AttemptsElsewhere = true
				base = otelhttp.NewTransport(ResendCount(base), otelhttp.WithMeterProvider(k.options.MeterProvider),
					otelhttp.WithTracerProvider(k.options.TracerProvider), otelhttp.WithPropagators(k.options.Propagator))
			}
			transport, err := Wrap(&retrip.Transport{Base: base, Strategy: hurried()}, k.options)
			require.NoError(t, err)
			client := &http.Client{Transport: transport}
			defer client.CloseIdleConnections()

			const callers = 20
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					ctx, span := k.options.TracerProvider.Tracer("test").Start(context.Background(), fmt.Sprint("caller ", i))
					defer span.End()
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/?%d", server.URL, i), nil)
					resp, err := client.Do(req)
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					if err != nil || resp.StatusCode != 200 || len(req.Header) != 0 || resp.Request.Header.Get("Traceparent") != "" {
						t.Error(resp, err, req.Header)
					}
				})
			}
			all.Wait()

			require.Eventually(t, func() bool { return len(k.recorder.Ended()) == callers*(1+2+4) }, 5*time.Second, time.Millisecond)
			byID := map[string]sdktrace.ReadOnlySpan{}
			for _, s := range k.recorder.Ended() {
				byID[s.SpanContext().SpanID().String()] = s
			}
			for i := range callers {
				sent := arrived[fmt.Sprint(i)]
				require.Len(t, sent, 4)
				for n, id := range sent {
					attempt := byID[id]
					require.NotNil(t, attempt)
					require.Equal(t, trace.SpanKindClient, attempt.SpanKind())
					require.EqualValues(t, n, attributeOf(attempt, "http.request.resend_count").AsInt64())
					request := byID[attempt.Parent().SpanID().String()]
					require.Equal(t, "retrip GET", request.Name())
					require.Equal(t, attribute.EMPTY, attributeOf(request, "http.request.resend_count").Type())
					require.Equal(t, fmt.Sprint("caller ", i), byID[request.Parent().SpanID().String()].Name())
				}
			}
		})
	}
}

func hurried() *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.Constant{Wait: time.Millisecond}
	s.ThrottleBackoff = nil
	return s
}

func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// Without a tracer, or without Wrap's RoundTrip, requests pass all the same.
func TestUntraced(t *testing.T) {
	k := newKit()
	k.options.TracerProvider = noop.NewTracerProvider()
	wrapped := &retrip.Transport{Base: ResendCount(script(status(503), status(200))), Strategy: hurried()}
	transport, err := Wrap(wrapped, k.options)
	require.NoError(t, err)
	require.Same(t, wrapped, transport.Unwrap())
	for _, rt := range []http.RoundTripper{transport, wrapped} {
		resp, err := get(t, rt, "https://example.com")
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	}
	_, err = Wrap(new(retrip.Transport), Options{}) // the global providers
	require.NoError(t, err)
}

// ResendCount marks spans of attempts, and of nothing else.
func TestResendCountWithoutAttempts(t *testing.T) {
	k := newKit()
	k.options.AttemptsElsewhere = true
	transport, err := Wrap(&retrip.Transport{Base: ResendCount(script(status(503), status(200))), Strategy: hurried()}, k.options)
	require.NoError(t, err)
	_, err = get(t, transport, "https://example.com")
	require.NoError(t, err)
	require.Len(t, k.recorder.Ended(), 1)
	require.Equal(t, "retrip GET", k.recorder.Ended()[0].Name())
	require.Equal(t, attribute.EMPTY, attributeOf(k.recorder.Ended()[0], "http.request.resend_count").Type())
	require.Empty(t, matching(k.lines(t), "http.client.request.duration"))
}

// A panic below ends the spans, and passes.
func TestPanic(t *testing.T) {
	k := newKit()
	transport, err := Wrap(&retrip.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { panic("no") })}, k.options)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = get(t, transport, "https://example.com") })
	require.Len(t, k.recorder.Ended(), 2)
	require.Equal(t, codes.Unset, k.recorder.Ended()[0].Status().Code)
}
