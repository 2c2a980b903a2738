package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const want = `key                        answers          outcome             waited for the limiter
api.example.com            503 503 200      success             0s
gateway.example.com        503              attempts exhausted  0s
batch.example.com          503 503 503 200  success             0s
tables.example.com/orders  400              attempts exhausted  0s
tables.example.com/users   200              success             0s
tables.example.com/users   200              success             0s
tables.example.com/users   200              success             0s
tables.example.com/orders  200              success             `

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Greater(t, len(out.String()), len(want))
	require.Equal(t, want, out.String()[:len(want)])

	// How long the last request waits depends on when in the second the
	// limiter was made. That it waits does not.
	wait, err := time.ParseDuration(strings.TrimSpace(out.String()[len(want):]))
	require.NoError(t, err)
	require.Positive(t, wait)
}

func TestResource(t *testing.T) {
	t.Parallel()
	for url, key := range map[string]string{
		"http://API.example.com/a/b":                 "api.example.com",
		"https://api.example.com:443/a?b":            "api.example.com",
		"http://tables.example.com/orders":           "tables.example.com/orders",
		"http://tables.example.com/orders/1/history": "tables.example.com/orders",
		"http://tables.example.com":                  "tables.example.com/",
	} {
		require.Equal(t, key, resource(httptest.NewRequest(http.MethodGet, url, nil)), url)
	}
}
