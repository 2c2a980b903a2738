package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-github/v89/github"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), "\n5 calls, 7 requests, 4 comments.\n"), out.String())
}

// Whichever way GitHub says that it was too much, one wait and one more request
// make the call succeed, a POST with the same body.
func TestLimitsAreWaitedOut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Ünïcödé & <tags>. ", 4000)
	for name, test := range map[string]struct {
		method string
		fault  faultlayer.Fault
	}{
		"primary, 403":   {"GET", primaryLimit(http.StatusForbidden)},
		"primary, 429":   {"POST", primaryLimit(http.StatusTooManyRequests)},
		"secondary, 403": {"POST", secondaryLimit("1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, client := serve(t)
			server.faults.Fail(nil, test.fault)
			if test.method == "GET" {
				comments, _, err := list(t.Context(), client)
				require.NoError(t, err)
				require.Len(t, comments, 1)
				require.Equal(t, "First.", comments[0].GetBody())
				requireHits(t, server, "GET", "", 2)
			} else {
				comment, err := create(t.Context(), client, text)
				require.NoError(t, err)
				require.Equal(t, text, comment.GetBody())
				require.Equal(t, 2, server.count())
				requireHits(t, server, "POST", body(t, text), 2)
			}
			require.EqualValues(t, 2, base.calls.Load())
		})
	}
}

// A limit that does not end costs no more than the attempts, and go-github
// makes its error of GitHub's own words.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	limit := secondaryLimit("0")
	server.faults.Fail(nil, limit, limit, limit, limit)
	_, err := create(t.Context(), client, "text")
	var limited *github.AbuseRateLimitError
	require.ErrorAs(t, err, &limited)
	require.Equal(t, "You have exceeded a secondary rate limit", limited.Message)
	requireHits(t, server, "POST", body(t, "text"), 3)
	require.EqualValues(t, 3, base.calls.Load())
	require.Equal(t, 1, server.count())
}

// A reset beyond MaxRetryAfter is not waited for. The caller knows at once, and
// go-github from then on.
func TestLongWaitIsLeftToTheCaller(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.faults.Fail(nil, func(w http.ResponseWriter, r *http.Request) {
		limit(w, 0, time.Now().Add(time.Hour))
		refuse("API rate limit exceeded", "rate-limits", http.StatusForbidden)(w, r)
	})
	for range 3 {
		_, _, err := list(t.Context(), client)
		var limited *github.RateLimitError
		require.ErrorAs(t, err, &limited)
		require.Greater(t, time.Until(limited.Rate.Reset.Time), 50*time.Minute)
	}
	requireHits(t, server, "GET", "", 1)
	require.EqualValues(t, 1, base.calls.Load())
}

// go-github takes a success without remaining calls for the end of them, and
// sends nothing. With BypassRateLimitCheck it sends.
func TestRememberedLimit(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.faults.Fail(nil, server.lastCall)
	_, err := create(t.Context(), client, "text")
	require.NoError(t, err)
	_, _, err = list(t.Context(), client)
	require.ErrorAs(t, err, new(*github.RateLimitError))
	require.EqualValues(t, 1, base.calls.Load())

	_, _, err = list(context.WithValue(t.Context(), github.BypassRateLimitCheck, true), client)
	require.NoError(t, err)
	require.EqualValues(t, 2, base.calls.Load())
	require.Len(t, server.faults.Hits(), 2)
}

// SleepUntilPrimaryRateLimitResetWhenRateLimited is go-github's own retry. On
// top of retrip's three attempts it makes six of a GET. A POST it repeats
// without its body (seen over HTTP/2, which GitHub speaks).
func TestGoGitHubsOwnRetry(t *testing.T) {
	t.Parallel()
	refused := func(w http.ResponseWriter, r *http.Request) {
		limit(w, 0, time.Now().Add(-10*time.Second)) // so that nobody waits
		refuse("API rate limit exceeded", "rate-limits", http.StatusForbidden)(w, r)
	}
	ctx := context.WithValue(t.Context(), github.SleepUntilPrimaryRateLimitResetWhenRateLimited, true)

	server, base, client := serve(t)
	server.faults.Fail(nil, refused, refused, refused, refused, refused, refused, refused)
	_, _, err := list(ctx, client)
	require.ErrorAs(t, err, new(*github.RateLimitError))
	requireHits(t, server, "GET", "", 6)
	require.EqualValues(t, 6, base.calls.Load())

	server.faults.Reset()
	server.faults.Fail(nil, refused, refused, refused)
	h2 := httptest.NewUnstartedServer(server.faults)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	t.Cleanup(h2.Close)
	client, err = newClient(h2.URL, &retrip.Transport{Base: h2.Client().Transport, PerKey: strategy})
	require.NoError(t, err)
	_, err = create(ctx, client, "text")
	require.Error(t, err)
	hits := server.faults.Hits()
	require.Len(t, hits, 4)
	require.EqualValues(t, len(body(t, "text")), hits[2].Size)
	require.Zero(t, hits[3].Size)
	require.Equal(t, 1, server.count())
}

// When a connection that served before breaks, net/http itself replays a GET,
// below retrip and uncounted by it. A POST it does not replay, nor do we, since
// it may have had its effect.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.faults.Fail(nil, faultlayer.Reset)
	_, _, err := list(t.Context(), client)
	require.NoError(t, err)
	requireHits(t, server, "GET", "", 2)
	require.EqualValues(t, 2, base.calls.Load(), "on a fresh connection the retry is ours")

	server.faults.Fail(nil, faultlayer.Reset)
	_, _, err = list(t.Context(), client)
	require.NoError(t, err)
	requireHits(t, server, "GET", "", 4)
	require.EqualValues(t, 3, base.calls.Load(), "on a used one it is net/http's")

	server.faults.Reset()
	server.faults.Fail(nil, faultlayer.Reset)
	_, err = create(t.Context(), client, "text")
	require.ErrorIs(t, err, retrip.ErrNotIdempotent)
	requireHits(t, server, "POST", body(t, "text"), 1)
	require.EqualValues(t, 4, base.calls.Load())
	require.Equal(t, 1, server.count())
}

func list(ctx context.Context, client *github.Client) ([]*github.IssueComment, *github.Response, error) {
	return client.Issues.ListComments(ctx, "retrip-go", "retrip", 1, nil)
}

// serve starts a server and makes a client for it, over a base that counts.
func serve(t *testing.T) (*server, *meter, *github.Client) {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	base := &meter{RoundTripper: new(http.Transport)}
	client, err := newClient(server.URL, &retrip.Transport{Base: base, PerKey: strategy})
	require.NoError(t, err)
	return server, base, client
}

// A meter counts the calls of a base.
type meter struct {
	http.RoundTripper
	calls atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.calls.Add(1)
	return m.RoundTripper.RoundTrip(req)
}

// requireHits wants n requests to have arrived, all with the same body.
func requireHits(t *testing.T, s *server, method, body string, n int) {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := s.faults.Hits()
	require.Len(t, hits, n)
	sum := sha256.Sum256([]byte(body))
	for _, hit := range hits {
		require.Equal(t, method, hit.Method)
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
	}
}

// body is what go-github sends for a comment.
func body(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(map[string]string{"body": text}))
	return b.String()
}
