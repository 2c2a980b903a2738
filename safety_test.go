package retrip

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/socketerr"
)

// What may be sent twice, by method, promise and proof. The proofs that the
// body may spoil are in proof_test.go.

var safetyRows = []struct {
	name   string
	method string
	header string
	ctx    func(context.Context) context.Context
	all    bool
	first  step
	retry  bool
}{
	{name: "GET, server error", method: "GET", first: status(500), retry: true},
	{name: "no method is GET", method: "", first: status(500), retry: true},
	{name: "HEAD", method: "HEAD", first: status(500), retry: true},
	{name: "OPTIONS", method: "OPTIONS", first: status(500), retry: true},
	{name: "TRACE", method: "TRACE", first: status(500), retry: true},
	{name: "PUT", method: "PUT", first: status(500), retry: true},
	{name: "DELETE", method: "DELETE", first: fails(errReset), retry: true},
	{name: "QUERY", method: "QUERY", first: status(500), retry: true},
	{name: "lower case is another method", method: "get", first: status(500)},
	{name: "POST, server error", method: "POST", first: status(500)},
	{name: "POST, service unavailable", method: "POST", first: status(503)},
	{name: "POST, request timeout", method: "POST", first: status(408)},
	{name: "POST, reset", method: "POST", first: fails(errReset)},
	{name: "POST, timeout", method: "POST", first: fails(&AttemptTimeoutError{time.Second})},
	{name: "PATCH, server error", method: "PATCH", first: status(500)},
	{name: "CONNECT", method: "CONNECT", first: status(500)},
	{name: "POST, not connected", method: "POST", first: fails(&net.OpError{Op: "dial", Err: socketerr.ConnRefused}), retry: true},
	{name: "POST, proxy not connected", method: "POST", first: fails(&net.OpError{Op: "proxyconnect", Err: socketerr.ConnRefused}), retry: true},
	{name: "POST, connected and reset", method: "POST", first: fails(&net.OpError{Op: "read", Err: socketerr.ConnReset})},
	{name: "POST, too early", method: "POST", first: status(425), retry: true},
	{name: "POST, too many", method: "POST", first: status(429), retry: true},
	{name: "POST, throttling code", method: "POST", first: jsonError(400, "ThrottlingException"), retry: true},
	{name: "POST, transient code", method: "POST", first: jsonError(400, "RequestTimeout")},
	{name: "POST, throttling code under 503", method: "POST", first: jsonError(503, "SlowDown"), retry: true},
	{name: "POST with key", method: "POST", header: "Idempotency-Key", first: status(500), retry: true},
	{name: "POST with other key", method: "POST", header: "X-Idempotency-Key", first: fails(errReset), retry: true},
	{name: "POST of an AWS SDK", method: "POST", header: "Amz-Sdk-Invocation-Id", first: status(500), retry: true},
	{name: "POST declared", method: "POST", ctx: WithIdempotent, first: fails(errReset), retry: true},
	{name: "POST, all declared", method: "POST", all: true, first: status(500), retry: true},
	{name: "POST, refused stream", method: "POST", first: fails(&wrapped{"", http2StreamError{Code: refusedStream}}), retry: true},
	{name: "POST, stream cancelled", method: "POST", first: fails(&wrapped{"", http2StreamError{Code: 0x8}})},
}

func TestSafety(t *testing.T) {
	for _, tt := range safetyRows {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(tt.first, status(200))
				s := Standard()
				s.RetryNonIdempotent = tt.all
				ctx, trace := WithTrace(t.Context())
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				req := newRequest(t, "GET", strings.NewReader("body")).WithContext(ctx)
				req.Method = tt.method
				if tt.header != "" {
					req.Header.Set(tt.header, "1")
				}
				resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req)
				if tt.retry {
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.Len(t, base.Sent(), 2)
					require.Equal(t, "body", base.Sent()[1].Content)
				} else {
					require.Len(t, base.Sent(), 1)
					require.Equal(t, NotIdempotent, trace.Requests()[0][0].Reason)
				}
			})
		})
	}
}

// A rule that calls a status throttled is no proof that nothing was processed.
// A 5xx may come after the work was done, whatever it is called. A 4xx refused
// the request, and Throttled says that it did so for its number.
func TestThrottledByStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Classifiers = append([]Classifier{On(Throttled, StatusIs(403, 503))}, s.Classifiers...)
		for first, want := range map[int]int{503: 503, 403: 200} {
			base := script(jsonError(first, "InternalError"), status(200))
			resp, err := (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "POST", nil))
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
		}
	})
}
