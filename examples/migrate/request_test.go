package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// A counted is a body that counts its closes.
type counted struct {
	io.Reader
	closes int
}

func (c *counted) Close() error {
	c.closes++
	return nil
}

// The caller's request is the caller's: not modified, its body closed once.
func TestCallersRequest(t *testing.T) {
	t.Parallel()
	client := newRetryable(func(*retryablehttp.Client) {})
	retry, delay := rehttp.RetryMaxRetries(1), rehttp.ConstDelay(0)
	send := func(t *testing.T, make func(http.RoundTripper) http.RoundTripper) (changed bool, closes int) {
		body := &counted{Reader: strings.NewReader("a thing")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://host/path", body)
		require.NoError(t, err)
		b := &base{outcomes: []outcome{busy, fine}, start: time.Now()}
		resp, err := make(b).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []string{"a thing", "a thing"}, b.bodies)
		return req.Body != body, body.closes
	}
	for name, row := range map[string]struct {
		make    func(http.RoundTripper) http.RoundTripper
		changed bool
		closes  int
	}{
		"retryablehttp": {func(base http.RoundTripper) http.RoundTripper {
			client.HTTPClient.Transport = base
			return client.StandardClient().Transport
		}, true, 0},
		"retryablehttp, adapted": {func(base http.RoundTripper) http.RoundTripper {
			return &retrip.Transport{Base: base, Strategy: retryableStrategy(client)}
		}, false, 1},
		"rehttp": {func(base http.RoundTripper) http.RoundTripper {
			return rehttp.NewTransport(base, retry, delay)
		}, true, 1},
		"rehttp, adapted": {func(base http.RoundTripper) http.RoundTripper {
			return &retrip.Transport{Base: base, Strategy: migrate.Rehttp(retry, delay)}
		}, false, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			changed, closes := send(t, row.make)
			require.Equal(t, row.changed, changed, name)
			require.Equal(t, row.closes, closes, name)
		})
	}
}
