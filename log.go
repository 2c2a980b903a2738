package retrip

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// LogTo returns an observer (Transport.Observe) that logs to l: at level Debug
// a first attempt that succeeds or is not worth a retry, such as a 404, at Info a
// retry and a success after one, at Warn a request that is given up. A caller's own
// cancellation is no failure and goes to Debug.
//
// Of the warnings of one host for one reason, one in 10 seconds (our choice:
// often enough for an alert, seldom enough for a disk) is a warning, which tells
// how many went before it unseen; the others go to Debug.
//
// A line names method and host, never user, path, query, headers or bodies, and an
// error by its kind, not by its text. A nil l is slog.Default() at the time of the
// call. The observer is safe for concurrent use.
func LogTo(l *slog.Logger) func(Event) {
	if l == nil {
		l = slog.Default()
	}
	warnings := sampler{last: map[warning]*seen{}}
	return func(e Event) {
		level, message := logLine(e)
		ctx := e.Request.Context()
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := logAttrs(e)
		if level == slog.LevelWarn {
			unseen, again := warnings.again(warning{hostOf(e), e.Reason}, time.Now())
			if again {
				level = slog.LevelDebug
			} else if unseen > 0 {
				attrs = append(attrs, slog.Int("repeated", unseen))
			}
			if !l.Enabled(ctx, level) {
				return
			}
		}
		l.LogAttrs(context.WithoutCancel(ctx), level, message, attrs...)
	}
}

// A sampler remembers which warnings were given of late.
type sampler struct {
	mu   sync.Mutex
	last map[warning]*seen
}

type warning struct {
	host   string
	reason Reason
}

type seen struct {
	at     time.Time
	unseen int // since then
}

const (
	warningsEvery = 10 * time.Second // see LogTo
	maxWarnings   = 1024             // our choice: as many as keys; then all are forgotten
)

// again reports whether the same warning was given already, or else how many
// were not given since it was.
func (s *sampler) again(w warning, now time.Time) (unseen int, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[w]
	switch {
	case before != nil && now.Sub(before.at) < warningsEvery:
		before.unseen++
		return 0, true
	case before != nil:
		unseen = before.unseen
	case len(s.last) == maxWarnings:
		clear(s.last)
	}
	w.host = strings.Clone(w.host) // the URL that it is a piece of may be long
	s.last[w] = &seen{at: now}
	return unseen, false
}

func logLine(e Event) (slog.Level, string) {
	switch {
	case !e.Final:
		return slog.LevelInfo, "retrying HTTP request"
	case e.Reason == Cancelled:
		return slog.LevelDebug, "HTTP request cancelled"
	case e.Reason != 0 && (e.Reason != NotRetryable || e.Attempt != 1):
		return slog.LevelWarn, "giving up on HTTP request"
	case e.Reason != 0:
		return slog.LevelDebug, "HTTP request failed permanently"
	case e.Attempt > 1:
		return slog.LevelInfo, "HTTP request succeeded after retries"
	default:
		return slog.LevelDebug, "HTTP request succeeded"
	}
}

// hostOf is the host that the request is sent to, up to the length of the
// longest key: a URL may hold anything.
func hostOf(e Event) string {
	host := e.Request.URL.Host
	return host[:min(len(host), longestKey)]
}

func logAttrs(e Event) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("method", e.Request.Method),
		slog.String("host", hostOf(e)),
		slog.Int("attempt", e.Attempt))
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	duration := func(name string, d time.Duration) {
		if d > 0 {
			attrs = append(attrs, slog.Duration(name, d))
		}
	}
	if e.Class != Unknown {
		attrs = append(attrs, slog.String("class", e.Class.String()))
	}
	if e.Status != 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	text("code", e.Code)
	text("error", e.ErrorKind())
	if e.Reason != 0 {
		text("reason", e.Reason.String())
	}
	duration("wait", e.Wait)
	text("wait_from", e.WaitFrom)
	duration("limiter_wait", e.LimiterWait)
	duration("elapsed", e.Elapsed)
	return attrs
}

// errorKind names an error without its text, which may hold anything.
func errorKind(err error) string {
	var (
		dns         *net.DNSError
		op          *net.OpError
		number      errno
		certificate *tls.CertificateVerificationError
		limited     *limiterError
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case isTimeout(err):
		return "timeout"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &certificate):
		return "certificate"
	case errors.As(err, &limited):
		return "limiter"
	case errors.As(err, &op) && errors.As(op, &number):
		return op.Op + ": " + number.Error() // "read: connection reset by peer"
	case errors.As(err, &op):
		return op.Op // "dial", "remote error", …
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "EOF"
	default:
		return "other"
	}
}
