package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/cenkalti/backoff/v7"
	"github.com/gojek/heimdall/v7"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
	"github.com/ybbus/httpretry"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// A network has a host that is down, and others that fail once.
type network struct{ met map[string]bool }

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if host := req.URL.Host; host == "down" || !n.met[host] {
		n.met[host] = true
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// pageClients are the clients of the page.
func pageClients(t *testing.T) map[string]*http.Client {
	retryable := func() *http.Client {
		_, transport, client := pageRetryable()
		transport.Base = &network{map[string]bool{}}
		return client
	}
	_, re := pageRehttp(rehttp.RetryAll(rehttp.RetryMaxRetries(3), rehttp.RetryStatuses(503)), rehttp.ConstDelay(time.Second))
	_, failsafe := pageFailsafe()
	_, heim := pageHeimdall(heimdall.NewRetrier(heimdall.NewConstantBackoff(time.Second, 0)))
	_, httpRetry := pageHTTPRetry(func(status int, err error) bool { return status == 503 }, httpretry.ConstantBackoff(time.Second, 0))
	_, backOff, err := pageBackOff(t.Context(), func() (*http.Response, error) { return nil, backoff.Permanent(errors.New("no")) })
	require.Error(t, err)
	clients := map[string]*http.Client{
		"start": pageStart(), "rehttp": {Transport: re}, "failsafehttp": {Transport: failsafe},
		"heimdall": heim, "httpretry": httpRetry, "cenkalti/backoff": backOff,
	}
	for _, client := range clients {
		client.Transport.(*retrip.Transport).Base = &network{map[string]bool{}}
	}
	clients["go-retryablehttp"] = retryable()
	return clients
}

// A host that is down uses up its own retries, and those of no other host.
func TestPageHosts(t *testing.T) {
	t.Parallel()
	for name, client := range pageClients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for range 60 {
					if resp, err := client.Get("http://down/"); err == nil {
						require.Equal(t, 503, resp.StatusCode)
					} else {
						require.ErrorAs(t, err, new(*migrate.GiveUpError))
					}
				}
				resp, err := client.Get("http://up/")
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
			})
		})
	}
}

// No snippet gives all hosts one strategy.
func TestPagePerKey(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../migrate/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, page, "policies.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "Strategy: ", file)
	}
}

// The hook gets the numbers that it gets there.
func TestRequestLogHook(t *testing.T) {
	t.Parallel()
	numbers := func(send func(hook retryablehttp.RequestLogHook) *http.Client) (got []int) {
		client := send(func(_ retryablehttp.Logger, _ *http.Request, n int) { got = append(got, n) })
		synctest.Test(t, func(t *testing.T) {
			_, err := client.Get("http://down/")
			require.Error(t, err)
		})
		return got
	}
	theirs := numbers(func(hook retryablehttp.RequestLogHook) *http.Client {
		c := newRetryable(func(c *retryablehttp.Client) { c.RetryMax, c.RequestLogHook = 3, hook })
		c.HTTPClient.Transport = &network{map[string]bool{}}
		return c.StandardClient()
	})
	ours := numbers(func(hook retryablehttp.RequestLogHook) *http.Client {
		_, transport, client := pageRetryable()
		transport.Base, transport.Prepare = &network{map[string]bool{}}, beforeAttempts(hook)
		return client
	})
	require.Equal(t, []int{0, 1, 2, 3}, theirs)
	require.Equal(t, theirs, ours)
}
