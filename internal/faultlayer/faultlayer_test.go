package faultlayer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each request that matches gets its fault, the others the handler's answer,
// and all are counted with what they brought.
func TestLayer(t *testing.T) {
	layer := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	server := httptest.NewServer(layer)
	defer server.Close()
	layer.Fail(func(r *http.Request) bool { return r.Method == "POST" },
		Answer(503, "later", "Retry-After", "1"), Reset)

	post := func() (*http.Response, error) {
		return http.Post(server.URL+"/path", "text/plain", strings.NewReader("body"))
	}
	resp, err := post()
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	require.NoError(t, resp.Body.Close())
	_, err = post()
	require.Error(t, err)
	resp, err = post()
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(text))
	require.NoError(t, resp.Body.Close())

	hits := layer.Hits()
	require.Len(t, hits, 3)
	sum := sha256.Sum256([]byte("body"))
	for i, hit := range hits {
		require.Equal(t, "/path", hit.Path)
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
		require.EqualValues(t, 4, hit.Size)
		require.Equal(t, i < 2, hit.Failed)
	}
}

// A client has its answer before the handler is done with the request.
func TestHitsWaitsForRequestsUnderWay(t *testing.T) {
	answered := make(chan struct{})
	layer := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-answered
	}))
	server := httptest.NewServer(layer)
	defer server.Close()
	resp, err := http.Get(server.URL)
	require.NoError(t, err)
	time.AfterFunc(10*time.Millisecond, func() { close(answered) })
	require.Len(t, layer.Hits(), 1)
	require.NoError(t, resp.Body.Close())
}

// A hit counts from its arrival: it is seen while its handler still runs, and
// stands before those that arrived later and ended earlier.
func TestHitsInOrderOfArrival(t *testing.T) {
	layer := New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server := httptest.NewServer(layer)
	defer server.Close()
	release := make(chan struct{})
	layer.Fail(nil, func(w http.ResponseWriter, r *http.Request) {
		Reset(w, r)
		<-release
	})
	_, err := http.Post(server.URL+"/first", "text/plain", strings.NewReader("body"))
	require.Error(t, err)
	arrived := layer.Arrived()
	require.Len(t, arrived, 1)
	require.Equal(t, "/first", arrived[0].Path)
	require.Equal(t, Hash([]byte("body")), arrived[0].Hash)
	require.EqualValues(t, 4, arrived[0].Size)
	require.False(t, arrived[0].Ended)

	resp, err := http.Get(server.URL + "/second")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	close(release)
	hits := layer.Hits()
	require.Len(t, hits, 2)
	for i, path := range []string{"/first", "/second"} {
		require.Equal(t, path, hits[i].Path)
		require.True(t, hits[i].Ended)
	}
}
