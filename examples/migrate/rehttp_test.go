package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/rehttp"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

func rehttpPair(retry rehttp.RetryFn, delay rehttp.DelayFn) (peer, ours way) {
	peer = func(base http.RoundTripper) *http.Client {
		tr := rehttp.NewTransport(base, retry, delay)
		tr.PerAttemptTimeout = perAttempt
		return &http.Client{Transport: tr}
	}
	ours = func(base http.RoundTripper) *http.Client {
		s := migrate.Rehttp(retry, delay)
		return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s, AttemptTimeout: perAttempt}}
	}
	return peer, ours
}

func TestRehttp(t *testing.T) {
	t.Parallel()
	upper := func(n int64) int64 { return n - 1 } // the longest wait, in place of any
	for name, row := range map[string]struct {
		retry rehttp.RetryFn
		delay rehttp.DelayFn
	}{
		"statuses and temporary errors": {
			rehttp.RetryAll(rehttp.RetryMaxRetries(3),
				rehttp.RetryAny(rehttp.RetryTemporaryErr(), rehttp.RetryStatuses(429, 502, 503, 504))),
			rehttp.ExpJitterDelayWithRand(100*time.Millisecond, 300*time.Millisecond, upper),
		},
		"methods, statuses and timeouts": {
			rehttp.RetryAll(rehttp.RetryMaxRetries(2), rehttp.RetryHTTPMethods("GET", "put"),
				rehttp.RetryAny(rehttp.RetryTimeoutErr(), rehttp.RetryStatusInterval(500, 600))),
			rehttp.ConstDelay(time.Second),
		},
		"errors": {
			rehttp.RetryAll(rehttp.RetryMaxRetries(1), rehttp.RetryIsErr(func(err error) bool { return errors.Is(err, syscall.ECONNRESET) })),
			rehttp.ConstDelay(0),
		},
		"everything, a success too": {rehttp.RetryMaxRetries(2), rehttp.ConstDelay(-time.Second)},
		"nothing":                   {rehttp.RetryAny(), rehttp.ConstDelay(time.Second)},
		"by the body": {
			func(a rehttp.Attempt) bool {
				if a.Index == 3 || a.Error != nil || a.Response.StatusCode != 503 {
					return false
				}
				text, err := io.ReadAll(a.Response.Body) // which is lost to the caller there
				return err == nil && strings.Contains(string(text), "busy")
			},
			func(a rehttp.Attempt) time.Duration {
				return time.Duration(a.Response.StatusCode+a.Index) * time.Millisecond
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer, ours := rehttpPair(row.retry, row.delay)
			compare(t, peer, ours)
		})
	}
}
