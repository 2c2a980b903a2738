package retrip_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
)

// A waterfall has a line for each attempt, to scale, and no secrets.
func TestWaterfall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := step(func(req *http.Request) (*http.Response, error) {
			n++
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
			resp := &http.Response{Header: http.Header{}, Body: http.NoBody, Request: req}
			switch n {
			case 1:
				return nil, socketerr.ConnRefused
			case 2:
				resp.StatusCode = 429
				resp.Header.Set("Retry-After", "2")
			default:
				resp.StatusCode = 503
			}
			return resp, nil
		})
		s := retrip.Standard()
		s.Backoff, s.MaxAttempts = retrip.Constant{Wait: time.Second}, 3
		ctx, trace := retrip.WithTrace(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", "http://user:secret@example.com/path?token=secret", nil)
		require.NoError(t, err)
		_, err = (&retrip.Transport{Base: base, Strategy: s}).RoundTrip(req)
		require.NoError(t, err)
		want := `GET example.com
  1  ##...........                              100ms  connection refused, transient; waits 1s (backoff)
  2              ###......................      200ms  429 Too Many Requests, throttled; waits 2s (Retry-After)
  3                                      ####   300ms  503 Service Unavailable, transient; no retry: attempts exhausted
     0                                   3.6s
`
		require.Equal(t, want, trace.Waterfall())
	})
}

// A request that ends while it waits has a line for its end.
func TestWaterfallOfACancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := step(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		})
		s := retrip.Standard()
		s.Backoff = retrip.Constant{Wait: 10 * time.Second}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		ctx, trace := retrip.WithTrace(ctx)
		require.Empty(t, trace.Waterfall(), "nothing happened yet")
		req, err := http.NewRequestWithContext(ctx, "PUT", "http://example.com/", nil)
		require.NoError(t, err)
		_, err = (&retrip.Transport{Base: base, Strategy: s}).RoundTrip(req)
		require.True(t, err == nil || errors.Is(err, context.Canceled))
		lines := strings.Split(trace.Waterfall(), "\n")
		require.Len(t, lines, 5, lines)
		require.Contains(t, lines[1], "#.......", lines)
		require.Contains(t, lines[2], "no retry: cancelled", lines)
		require.Contains(t, lines[3], "1s", lines)
	})
}
