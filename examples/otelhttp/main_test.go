package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

const want = `
otelhttp below retrip: a span for each attempt
  request from span 1
  request from span 2
  request from span 3
  span 1: HTTP GET, status 503
  span 2: HTTP GET, status 503
  span 3: HTTP GET, status 200
  returned: "hello", requests: 3, spans: 3
otelhttp above retrip: a span for the request
  request from span 1
  request from span 1
  request from span 1
  span 1: HTTP GET, status 200, attempt 1 503, attempt 2 503, attempt 3 200
  returned: "hello", requests: 3, spans: 1
otelhttp above and below: both
  request from span 2
  request from span 3
  request from span 4
  span 1: HTTP GET, status 200
  span 2: HTTP GET, status 503, child of span 1
  span 3: HTTP GET, status 503, child of span 1
  span 4: HTTP GET, status 200, child of span 1
  returned: "hello", requests: 3, spans: 4
`

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), out.String())
}

var overloaded = faultlayer.Answer(503, "busy")

// Each attempt is a span of its own, child of the caller's, and its id is what
// the attempt brings to the server. All are ended, also those whose answers
// nobody read.
func TestBelow(t *testing.T) {
	t.Parallel()
	k := setUp(t, below)
	large := make([]byte, 300<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
	k.server.faults.Fail(nil, overloaded, faultlayer.Reset)

	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(k.recorder)).Tracer("test")
	ctx, caller := tracer.Start(t.Context(), "caller")
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, k.server.URL, bytes.NewReader(large))
	require.NoError(t, err)
	resp, err := k.client.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, bytes.Equal(large, text))
	caller.End()

	hits := k.requireHits(t, 3)
	require.EqualValues(t, 3, k.base.calls.Load())
	spans := k.requireEnded(t, 4)[1:]
	var sent, arrived []string
	for i, hit := range hits {
		sum := sha256.Sum256(large)
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
		require.Equal(t, caller.SpanContext().TraceID(), spans[i].SpanContext().TraceID())
		require.Equal(t, caller.SpanContext().SpanID(), spans[i].Parent().SpanID())
		sent = append(sent, spans[i].SpanContext().SpanID().String())
		arrived = append(arrived, spanID(hit))
	}
	require.ElementsMatch(t, sent, arrived)
	require.EqualValues(t, 503, statusOf(spans[0]))
	require.Equal(t, codes.Error, spans[0].Status().Code)
	require.Zero(t, statusOf(spans[1])) // the connection broke
	require.Equal(t, codes.Error, spans[1].Status().Code)
	require.EqualValues(t, 200, statusOf(spans[2]))
	require.Equal(t, codes.Unset, spans[2].Status().Code)
}

// All attempts are one span, which ends as the request does.
func TestAbove(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults int
		status int64
		text   string
		code   codes.Code
	}{
		"recovers":      {2, 200, "hello", codes.Unset},
		"does not":      {5, 503, "busy", codes.Error},
		"has no reason": {0, 200, "hello", codes.Unset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := setUp(t, above)
			k.server.faults.Fail(nil, slices.Repeat([]faultlayer.Fault{overloaded}, test.faults)...)
			text, err := get(t.Context(), k.client, k.server.URL)
			require.NoError(t, err)
			require.Equal(t, test.text, text)

			attempts := min(test.faults+1, 3)
			hits := k.requireHits(t, attempts)
			require.EqualValues(t, attempts, k.base.calls.Load())
			span := k.requireEnded(t, 1)[0]
			for _, hit := range hits {
				require.Equal(t, span.SpanContext().SpanID().String(), spanID(hit))
			}
			require.Equal(t, test.status, statusOf(span))
			require.Equal(t, test.code, span.Status().Code)
			require.Len(t, span.Events(), attempts)
		})
	}
}

// With both, the attempts are children of the request, and no more than
// configured.
func TestBoth(t *testing.T) {
	t.Parallel()
	k := setUp(t, both)
	k.server.faults.Fail(nil, slices.Repeat([]faultlayer.Fault{overloaded}, 5)...)
	text, err := get(t.Context(), k.client, k.server.URL)
	require.NoError(t, err)
	require.Equal(t, "busy", text)
	hits := k.requireHits(t, 3)
	require.EqualValues(t, 3, k.base.calls.Load())
	spans := k.requireEnded(t, 4)
	for i, hit := range hits {
		require.Equal(t, spans[i+1].SpanContext().SpanID().String(), spanID(hit))
		require.Equal(t, spans[0].SpanContext().SpanID(), spans[i+1].Parent().SpanID())
	}
}

// When a connection breaks that served before, net/http itself replays a GET,
// below otelhttp: two requests arrive from one attempt and one span.
func TestReplayedBelow(t *testing.T) {
	t.Parallel()
	k := setUp(t, below)
	_, err := get(t.Context(), k.client, k.server.URL)
	require.NoError(t, err)
	k.server.faults.Fail(nil, faultlayer.Reset)
	text, err := get(t.Context(), k.client, k.server.URL)
	require.NoError(t, err)
	require.Equal(t, "hello", text)

	hits := k.requireHits(t, 3)
	require.EqualValues(t, 2, k.base.calls.Load())
	spans := k.requireEnded(t, 2)
	require.Equal(t, spans[1].SpanContext().SpanID().String(), spanID(hits[1]))
	require.Equal(t, spanID(hits[1]), spanID(hits[2]))
}

// A kit is a server, and a client for it whose spans are recorded, over a base
// that counts.
type kit struct {
	server   *server
	base     *meter
	recorder *tracetest.SpanRecorder
	client   *http.Client
}

func setUp(t *testing.T, arrange func(http.RoundTripper, ...otelhttp.Option) http.RoundTripper) kit {
	t.Helper()
	k := kit{server: newServer(), base: new(meter), recorder: tracetest.NewSpanRecorder()}
	t.Cleanup(k.server.Close)
	k.client = &http.Client{Transport: arrange(k.base, tracing(k.recorder)...)}
	return k
}

// A meter is a base that counts its calls.
type meter struct {
	http.Transport
	calls atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.calls.Add(1)
	return m.Transport.RoundTrip(req)
}

// requireHits wants n requests to have arrived.
func (k kit) requireHits(t *testing.T, n int) []faultlayer.Hit {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(k.server.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := k.server.faults.Hits()
	require.Len(t, hits, n)
	return hits
}

// requireEnded wants n spans to have begun and ended, and returns them in the
// order in which they began.
func (k kit) requireEnded(t *testing.T, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	// An answer that is not the caller's may be closed after the next has come.
	require.Eventually(t, func() bool { return len(k.recorder.Ended()) >= n }, 5*time.Second, time.Millisecond)
	spans := k.recorder.Ended()
	require.Len(t, spans, n)
	require.Len(t, k.recorder.Started(), n)
	slices.SortFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return spans
}
