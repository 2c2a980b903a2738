package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// resty reads the body of an answer within its retry loop, so it asks again if
// the body breaks off. retrip's work ends with the headers.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		retries, want int
		fails         bool
	}{
		"resty's retries":     {retries: 1, want: 2},
		"no retries of resty": {retries: 0, want: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) == 1 {
					w.Header().Set("Content-Length", "100")
					_, _ = io.WriteString(w, "half")
				}
			}))
			t.Cleanup(server.Close)
			transport := &retrip.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			client := newClient(server.URL, transport).SetRetryCount(row.retries).SetRetryWaitTime(time.Millisecond)
			_, err := client.R().Get("/")
			require.Equal(t, row.fails, err != nil)
			require.EqualValues(t, row.want, requests.Load())
		})
	}
}

// The lines of docs/migrate.md.
func pageResty() (before, after *resty.Client) {
	{
		client := resty.New().SetRetryCount(3) // before
		before = client
	}
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return retrip.Standard() }} // after
	client := resty.New().SetTransport(transport).SetRetryCount(0)
	return before, client
}

func TestPageLines(t *testing.T) {
	t.Parallel()
	before, after := pageResty()
	require.Equal(t, 3, before.RetryCount)
	require.Zero(t, after.RetryCount)
	for _, set := range []func(*retrip.Strategy){
		func(s *retrip.Strategy) { s.MaxAttempts = 4 },
		func(s *retrip.Strategy) {
			s.Backoff = retrip.EqualJitter{Base: 100 * time.Millisecond, Cap: 2 * time.Second}
		},
	} {
		s := retrip.Standard()
		set(s)
		require.NoError(t, (&retrip.Transport{Strategy: s}).Validate())
	}
}
