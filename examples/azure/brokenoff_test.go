package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// azcore reads the body of an answer within its retry loop, so it asks again if
// the body breaks off. retrip's work ends with the headers. MaxRetries -1 takes
// the one away, brokenOff keeps it and leaves all else to retrip.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		retry                 policy.RetryOptions
		method                string
		brokenOff, busy, want int // attempts that break off, attempts refused before, requests
		fails                 bool
	}{
		"no retries of azcore":            {retry: policy.RetryOptions{MaxRetries: -1}, method: "GET", brokenOff: 1, want: 1, fails: true},
		"azcore's default":                {method: "GET", brokenOff: 1, want: 2},
		"broken off":                      {retry: policy.RetryOptions{ShouldRetry: brokenOff}, method: "GET", brokenOff: 1, want: 2},
		"broken off, POST":                {retry: policy.RetryOptions{ShouldRetry: brokenOff}, method: "POST", brokenOff: 1, want: 1, fails: true},
		"busy, then broken off":           {retry: policy.RetryOptions{ShouldRetry: brokenOff}, method: "GET", busy: 2, brokenOff: 1, want: 4},
		"busy for ever":                   {retry: policy.RetryOptions{ShouldRetry: brokenOff}, method: "GET", busy: 99, want: 3, fails: true},
		"busy for ever, azcore's default": {method: "GET", busy: 99, want: 12, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				switch n := int(requests.Add(1)); {
				case n <= row.busy:
					w.WriteHeader(503)
				case n <= row.busy+row.brokenOff:
					w.Header().Set("Content-Length", "100")
					_, _ = io.WriteString(w, "half")
				}
			}))
			t.Cleanup(server.Close)
			transport := newTransport()
			t.Cleanup(transport.CloseIdleConnections)
			row.retry.RetryDelay = time.Millisecond
			pipeline := runtime.NewPipeline("example", "v1", runtime.PipelineOptions{}, &azcore.ClientOptions{
				Transport: transporter{&http.Client{Transport: transport}}, Retry: row.retry,
			})
			req, err := runtime.NewRequest(retrip.WithIdempotent(t.Context()), row.method, server.URL)
			require.NoError(t, err)
			resp, err := pipeline.Do(req)
			require.Equal(t, row.fails, err != nil || resp.StatusCode >= 400)
			require.EqualValues(t, row.want, requests.Load())
		})
	}
}

// brokenOff is a ShouldRetry. Only an answer whose body broke off comes with an
// error.
func brokenOff(resp *http.Response, err error) bool { return resp != nil && err != nil }

// The lines of docs/migrate.md.
func pageAzcore() (off, keeping azcore.ClientOptions) {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return retrip.Standard() }}
	options := azcore.ClientOptions{
		Transport: transporter{&http.Client{Transport: transport}}, // examples/azure/body.go
		Retry:     policy.RetryOptions{MaxRetries: -1},             // 0 would be azcore's default, 3
	}
	keeping = azcore.ClientOptions{
		Retry: policy.RetryOptions{ShouldRetry: brokenOff},
	}
	return options, keeping
}

func TestPageLines(t *testing.T) {
	t.Parallel()
	options, keeping := pageAzcore()
	require.EqualValues(t, -1, options.Retry.MaxRetries)
	require.NotNil(t, keeping.Retry.ShouldRetry)
}
