package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/retrip-go/retrip"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, `requests of one call             429 with Retry-After  500
client-go                        11                    1
client-go over retrip.Standard   33                    3
client-go over retrip beside it  11                    3
`, out.String())
}

// An apiServer fails each request in the same way and counts them.
type apiServer struct {
	requests int
	status   int
	header   http.Header
	err      error
}

func (s *apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests++
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.status, Header: s.header, Body: http.NoBody, Request: req}, nil
}

// What client-go retries is retried by client-go alone, and what it does not
// retry by retrip alone. (It compares io.ErrUnexpectedEOF with ==, and so does not
// recognize the error of retrip.Standard, which wraps it.)
func TestRetriesDoNotMultiply(t *testing.T) {
	retryAfter := http.Header{"Retry-After": {"1"}}
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, row := range map[string]struct {
		method                  string
		server                  apiServer
		alone, standard, beside int
	}{
		"GET, 429 with Retry-After":  {"GET", apiServer{status: 429, header: retryAfter}, 11, 33, 11},
		"POST, 429 with Retry-After": {"POST", apiServer{status: 429, header: retryAfter}, 11, 33, 11},
		"GET, 503 with Retry-After":  {"GET", apiServer{status: 503, header: retryAfter}, 11, 33, 11},
		"GET, 503":                   {"GET", apiServer{status: 503}, 1, 3, 3},
		"POST, 503":                  {"POST", apiServer{status: 503}, 1, 1, 1},
		"GET, 429":                   {"GET", apiServer{status: 429}, 1, 3, 3},
		"GET, 404":                   {"GET", apiServer{status: 404}, 1, 1, 1},
		"GET, connection reset":      {"GET", apiServer{err: reset}, 11, 33, 11},
		"GET, unexpected end":        {"GET", apiServer{err: io.ErrUnexpectedEOF}, 11, 3, 11},
		"PUT, connection reset":      {"PUT", apiServer{err: reset}, 1, 3, 3},
		"GET, connection refused":    {"GET", apiServer{err: refused}, 1, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range []int{row.alone, row.standard, row.beside} {
				synctest.Test(t, func(t *testing.T) {
					server := row.server
					require.Error(t, call(t, &server, row.method, layerings[i].strategy))
					require.Equal(t, want, server.requests, layerings[i].name)
				})
			}
		})
	}
}

func call(t *testing.T, server *apiServer, method string, strategy func(string) *retrip.Strategy) error {
	t.Helper()
	config := &rest.Config{Host: "http://server", Transport: server}
	if strategy != nil {
		wrap(config, strategy)
	}
	client, err := newClient(config)
	require.NoError(t, err)
	return client.Verb(method).AbsPath("/path").Body([]byte("{}")).Do(context.Background()).Error()
}

// Without client-go's retries, retrip's are all there are.
func TestMaxRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{status: 429, header: http.Header{"Retry-After": {"1"}}}
		config := &rest.Config{Host: "http://server", Transport: server}
		wrap(config, standard)
		client, err := newClient(config)
		require.NoError(t, err)
		require.Error(t, client.Get().AbsPath("/path").MaxRetries(0).Do(context.Background()).Error())
		require.Equal(t, 3, server.requests)
	})
}
