package retrip

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

func TestLogLevels(t *testing.T) {
	tests := []struct {
		name  string
		steps []step
		want  []string
	}{
		{"success", []step{status(200)}, []string{
			`level=DEBUG msg="HTTP request succeeded" method=GET host=example.com attempt=1 class=success status=200`,
		}},
		{"retry", []step{jsonError(400, "SlowDown"), status(200)}, []string{
			`level=INFO msg="retrying HTTP request" method=GET host=example.com attempt=1 class=throttled status=400 code=SlowDown wait=1s wait_from=backoff`,
			`level=INFO msg="HTTP request succeeded after retries" method=GET host=example.com attempt=2 class=success status=200 elapsed=1s`,
		}},
		{"giving up", []step{fails(&net.OpError{Op: "dial", Err: socketerr.ConnRefused}), status(503, "Retry-After: 90")}, []string{
			`level=INFO msg="retrying HTTP request" method=GET host=example.com attempt=1 class=transient error="dial: connection refused" wait=100ms wait_from=backoff`,
			`level=WARN msg="giving up on HTTP request" method=GET host=example.com attempt=2 class=transient status=503 reason="wait over cap" wait=1m30s wait_from=Retry-After elapsed=100ms`,
		}},
		{"no failure of ours", []step{status(404)}, []string{
			`level=DEBUG msg="HTTP request failed permanently" method=GET host=example.com attempt=1 class=permanent status=404 reason="not retryable"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
					Level: slog.LevelDebug,
					ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == slog.TimeKey {
							return slog.Attr{}
						}
						return a
					},
				}))
				_, err := get(t.Context(), &Transport{Base: script(tt.steps...), Observe: LogTo(logger), Strategy: longest(Standard())})
				require.NoError(t, err)
				require.Equal(t, strings.Join(tt.want, "\n")+"\n", out.String())
			})
		})
	}
}

// A sick host warns once in a while, and tells how often it would have.
func TestLogSamplesWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := Standard()
		s.MaxAttempts = 1
		transport := &Transport{
			Base: script(status(503)), Strategy: s,
			Observe: LogTo(slog.New(slog.NewTextHandler(&out, nil))),
		}
		ask := func(host string) (lines []string) {
			out.Reset()
			req := newRequest(t, "GET", nil)
			req.URL.Host = host
			_, err := transport.RoundTrip(req)
			require.NoError(t, err)
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		require.Contains(t, ask("sick")[0], "level=WARN")
		require.Equal(t, []string{""}, ask("sick"), "seen already")
		require.Contains(t, ask("ill")[0], "level=WARN", "another host")
		time.Sleep(warningsEvery - time.Second)
		require.Equal(t, []string{""}, ask("sick"))
		time.Sleep(time.Second)
		require.Contains(t, ask("sick")[0], " repeated=2")
		for i := range 2 * maxWarnings {
			ask(fmt.Sprint(i))
		}
		require.Contains(t, ask("sick")[0], "level=WARN", "forgotten, for there is an end to it")
	})
}

// Whatever is secret stays so: in the URL, the headers, the body, the errors.
func TestLogsKeepSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "s3cret"
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		steps := []step{
			jsonError(503, secret),
			answer(503, secret, "Retry-After: "+secret, "X-Amzn-Errortype: "+secret),
			fails(&wrapped{secret, socketerr.ConnReset}),
			fails(&net.OpError{Op: "read", Err: &wrapped{secret, socketerr.BrokenPipe}}),
			fails(&net.DNSError{Name: secret, Err: secret, IsNotFound: true}),
		}
		req := testkit.RequestTo(t, "PUT", "https://"+secret+":"+secret+"@example.com/"+secret+"?"+secret+"="+secret, strings.NewReader(secret))
		req.Header.Set("Authorization", secret)
		s := Standard()
		s.MaxAttempts = 10
		_, err := (&Transport{Base: script(steps...), Observe: LogTo(logger), Strategy: s}).RoundTrip(req)
		require.Error(t, err)
		require.Equal(t, 5, strings.Count(out.String(), "\n"))
		require.NotContains(t, out.String(), secret)
	})
}

func TestErrorKinds(t *testing.T) {
	require.Equal(t, "", errorKind(nil))
	require.Equal(t, "cancelled", errorKind(&wrapped{"", context.Canceled}))
	require.Equal(t, "deadline exceeded", errorKind(context.DeadlineExceeded))
	require.Equal(t, "timeout", errorKind(&AttemptTimeoutError{time.Second}))
	require.Equal(t, "limiter", errorKind(&limiterError{}))
	require.Equal(t, "dns", errorKind(&net.OpError{Op: "dial", Err: &net.DNSError{}}))
	require.Equal(t, "read: connection reset by peer", errorKind(&net.OpError{Op: "read", Err: socketerr.ConnReset}))
	require.Equal(t, "connection reset by peer", errorKind(socketerr.ConnReset))
	require.Equal(t, "EOF", errorKind(&wrapped{"", io.ErrUnexpectedEOF}))
	require.Equal(t, "remote error", errorKind(&net.OpError{Op: "remote error", Err: tlsAlert(40)}))
	require.Equal(t, "other", errorKind(&wrapped{"", replay.ErrTooLong}))
}
