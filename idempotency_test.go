package retrip

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func keyOf(req *http.Request) string { return req.Header.Get("Idempotency-Key") }

// An unsafe request gets one key for all its attempts, and the caller's own
// request does not change.
func TestIdempotencyKeyIsTheSameForAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503), fails(errReset), status(200))
		rt := &IdempotencyKeyTransport{Base: &Transport{Base: base}, Hosts: []string{"example.com"}}
		for _, method := range []string{"POST", "PATCH"} {
			base.Begin()
			req := newRequest(t, method, strings.NewReader("pay"))
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Same(t, req, resp.Request)
			require.Empty(t, keyOf(req))
			sent := base.Sent()
			require.Len(t, sent, 3)
			require.Len(t, keyOf(sent[0].Request), 26)
			require.Equal(t, keyOf(sent[0].Request), keyOf(sent[1].Request))
			require.Equal(t, keyOf(sent[0].Request), keyOf(sent[2].Request))
		}
	})
}

func TestIdempotencyKeyOnlyWhereItBelongs(t *testing.T) {
	base := script(status(200))
	rt := &IdempotencyKeyTransport{Base: &Transport{Base: base}, Hosts: []string{"example.com", "other.example:8443", "pi.example"}}
	tests := []struct {
		method, target, header string
		want                   bool
	}{
		{"POST", "https://example.com/", "", true},
		{"POST", "https://EXAMPLE.com:443/", "", true},
		{"POST", "https://other.example:8443/", "", true},
		{"POST", "https://other.example/", "", false},
		{"POST", "https://example.com.evil.example/", "", false},
		{"GET", "https://example.com/", "", false},
		{"PUT", "https://example.com/", "", false},
		{"POST", "https://example.com/", "X-Idempotency-Key", false},
		{"POST", "https://example.com/", "idempotency-key", false},
		{"POST", "https://pi.example/", "", true},
		{"POST", "https://p\u0130.example/", "", false}, // which is dialled as xn--…
		{"POST", "https://p%C4%B0.example/", "", false},
	}
	for _, tt := range tests {
		base.Begin()
		req := newRequest(t, tt.method, nil)
		var err error
		req.URL, err = url.Parse(tt.target)
		require.NoError(t, err)
		if tt.header != "" {
			req.Header[tt.header] = []string{"its own"}
		}
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, tt.want, keyOf(base.Sent()[0].Request) != "", "%s %s %s", tt.method, tt.target, tt.header)
	}

	own := newRequest(t, "POST", nil)
	own.Header.Set("Idempotency-Key", "mine")
	base.Begin()
	_, err := rt.RoundTrip(own)
	require.NoError(t, err)
	require.Equal(t, "mine", keyOf(base.Sent()[0].Request))

	body := opaque("body")
	_, err = (&IdempotencyKeyTransport{Base: &Transport{Base: base}}).RoundTrip(newRequest(t, "POST", body))
	require.EqualError(t, err, "retrip: IdempotencyKeyTransport.Hosts is empty: name the hosts whose service honours the key")
	require.Equal(t, 1, body.Closes())
	_, err = rt.RoundTrip(nil)
	require.Error(t, err)
}

// A redirect that keeps the method and the body does not take the key along.
func TestIdempotencyKeyIsNotRedirected(t *testing.T) {
	var keys []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys = append(keys, keyOf(r))
	}))
	defer elsewhere.Close()
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, keyOf(r))
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer here.Close()
	client := &http.Client{Transport: &IdempotencyKeyTransport{Hosts: []string{strings.TrimPrefix(here.URL, "http://")}}}
	defer client.CloseIdleConnections()
	resp, err := client.Post(here.URL, "text/plain", strings.NewReader("pay"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, keys, 2)
	require.NotEmpty(t, keys[0])
	require.Empty(t, keys[1])
}
