package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/cenkalti/backoff/v7"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// An end is how a request ended: after so many attempts and so long, with a
// body or an error.
type end struct {
	attempts int
	took     time.Duration
	body     string
	err      string // what it contains
	is, not  error  // what errors.Is finds in it, and what not
}

// What differs, and why. All else is the same: see compare.
func TestDifferences(t *testing.T) {
	t.Parallel()
	get := request{method: http.MethodGet}
	large := strings.Repeat("x", 1<<20+1) // more than Transport.ReplayBuffer keeps
	moved := outcome{name: "302", status: 302, header: "Location: /other", moved: true}
	slow := outcome{name: "slow error", status: 503, header: "Content-Type: application/json", body: `"busy"`, stalls: time.Second}

	for _, row := range []struct {
		name, why    string
		peer         func() (peer, ours way)
		script       []outcome
		send         request
		theirs, ours end
	}{
		{
			name: "retryablehttp, last response",
			why:  "A response is never turned into an error, and the server's words are the caller's.",
			peer: thrice(nil), script: []outcome{busy}, send: get,
			theirs: end{attempts: 3, took: 3 * time.Second, err: "giving up after 3 attempt(s)"},
			ours:   end{attempts: 3, took: 3 * time.Second, body: "busy"},
		},
		{
			name: "retryablehttp, CheckRetry's own error",
			why:  "The same: it ends the retries and is dropped.",
			peer: thrice(func(c *retryablehttp.Client) {
				c.CheckRetry = func(context.Context, *http.Response, error) (bool, error) { return false, errors.New("enough") }
			}),
			script: []outcome{busy}, send: get,
			theirs: end{attempts: 1, err: "enough"},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "retryablehttp, wait beyond the deadline",
			why:  "Who can't be served in time had better know at once, and why.",
			peer: thrice(nil), script: []outcome{{status: 503, header: "Retry-After: 60", body: "busy"}, fine},
			send:   request{method: http.MethodGet, deadline: 10 * time.Second},
			theirs: end{attempts: 1, took: 10 * time.Second, err: "deadline", is: context.DeadlineExceeded},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "retryablehttp, wait beyond any cap",
			why:  "There is none where the policy reads Retry-After itself: it waits, as there.",
			peer: thrice(nil), script: []outcome{{status: 503, header: "Retry-After: 86400", body: "busy"}, fine}, send: get,
			theirs: end{attempts: 2, took: 24 * time.Hour, body: "hello"},
			ours:   end{attempts: 2, took: 24 * time.Hour, body: "hello"},
		},
		{
			name: "retryablehttp, wait beyond the cap",
			why:  "Where retrip reads Retry-After, a wait above Strategy.MaxRetryAfter is the caller's to decide on.",
			peer: func() (peer, ours way) {
				peer, _ = thrice(nil)()
				return peer, func(base http.RoundTripper) *http.Client {
					s := pageRetryAfter(migrate.RetryableHTTP{CheckRetry: retryablehttp.DefaultRetryPolicy, RetryMax: 2})
					return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s}}
				}
			},
			script: []outcome{{status: 503, header: "Retry-After: 86400", body: "busy"}, fine}, send: get,
			theirs: end{attempts: 2, took: 24 * time.Hour, body: "hello"},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "retryablehttp, large body",
			why:  "A body that can't be opened again is kept up to Transport.ReplayBuffer, 1 MiB, not whole in memory whatever its size.",
			peer: thrice(nil), script: []outcome{busy, fine}, send: request{method: http.MethodPut, body: large, opaque: true},
			theirs: end{attempts: 2, took: time.Second, body: "hello"},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "retryablehttp, quota",
			why:  "When nothing works, retries only add load. Strategy.Quota = nil takes it away.",
			peer: thrice(nil), script: []outcome{busy}, send: request{method: http.MethodGet, times: 100},
			theirs: end{attempts: 300, took: 300 * time.Second, err: "giving up"},
			ours:   end{attempts: 200, took: 150 * time.Second, body: "busy"},
		},
		{
			name: "retryablehttp, redirects",
			why:  "They are the client's business: a hop that fails is repeated, not the hops before.",
			peer: thrice(nil), script: []outcome{moved, busy}, send: get,
			theirs: end{attempts: 6, took: 3 * time.Second, err: "giving up"},
			ours:   end{attempts: 4, took: 3 * time.Second, body: "busy"},
		},
		{
			name: "retryablehttp, slow error body",
			why:  "A 4xx or 5xx in JSON or XML is read ahead for 250 ms; CheckRetry sees what came until then.",
			peer: thrice(func(c *retryablehttp.Client) {
				c.CheckRetry = func(_ context.Context, resp *http.Response, _ error) (bool, error) { return saysBusy(resp) }
			}),
			script: []outcome{slow, fine}, send: get,
			theirs: end{attempts: 2, took: 2 * time.Second, body: "hello"},
			ours:   end{attempts: 1, took: time.Second, body: `"busy"`},
		},
		{
			name: "rehttp, wait beyond the deadline",
			why:  "As above.",
			peer: minutely, script: []outcome{busy, fine}, send: request{method: http.MethodGet, deadline: 10 * time.Second},
			theirs: end{attempts: 1, took: 10 * time.Second, err: "net/http: request canceled", not: context.DeadlineExceeded},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "rehttp, cancelled while it waits",
			why:  "The context's error is not lost, nor what failed before.",
			peer: minutely, script: []outcome{busy, fine}, send: request{method: http.MethodGet, enough: 10 * time.Second},
			theirs: end{attempts: 1, took: 10 * time.Second, err: "net/http: request canceled", not: context.Canceled},
			ours:   end{attempts: 1, took: 10 * time.Second, err: "last status: 503", is: context.Canceled},
		},
		{
			name: "rehttp, large body",
			why:  "As above.",
			peer: minutely, script: []outcome{busy, fine}, send: request{method: http.MethodPut, body: large, opaque: true},
			theirs: end{attempts: 2, took: time.Minute, body: "hello"},
			ours:   end{attempts: 1, body: "busy"},
		},
		{
			name: "rehttp, body read by RetryFn",
			why:  "It sees a copy, so the caller still gets all of it.",
			peer: func() (peer, ours way) {
				return rehttpPair(func(a rehttp.Attempt) bool {
					text, err := io.ReadAll(a.Response.Body)
					return err == nil && string(text) == "pending"
				}, rehttp.ConstDelay(time.Second))
			},
			script: []outcome{{status: 200, body: "pending"}, fine}, send: get,
			theirs: end{attempts: 2, took: time.Second, body: ""},
			ours:   end{attempts: 2, took: time.Second, body: "hello"},
		},
		{
			name: "rehttp, stalled body",
			why:  "A response on its way out is read for a moment only, so that its connection can serve again.",
			peer: minutely, script: []outcome{{status: 503, body: "busy", stalls: 20 * time.Minute}, fine}, send: get,
			theirs: end{attempts: 2, took: 21 * time.Minute, body: "hello"},
			ours:   end{attempts: 2, took: time.Minute, body: "hello"},
		},
		{
			name: "rehttp, quota",
			why:  "As above.",
			peer: minutely, script: []outcome{busy}, send: request{method: http.MethodGet, times: 100},
			theirs: end{attempts: 300, took: 200 * time.Minute, body: "busy"},
			ours:   end{attempts: 200, took: 100 * time.Minute, body: "busy"},
		},
		{
			name: "backoff, time of the first attempt",
			why:  "Retry.Elapsed counts from the first failure, so that a slow one can be repeated at all.",
			peer: growingFor(4 * time.Second), script: []outcome{{status: 503, body: "busy", takes: 4 * time.Second}, fine}, send: get,
			theirs: end{attempts: 1, took: 4 * time.Second, err: "maximum elapsed time", is: backoff.ErrMaxElapsedTime},
			ours:   end{attempts: 2, took: 4500 * time.Millisecond, body: "hello"},
		},
		{
			name: "backoff, the server's wait",
			why:  "It does not start the policy anew: the waits go on growing. And it is no shorter than the policy's.",
			peer: growingFor(0),
			script: []outcome{
				busy, busy, {status: 503, header: "Retry-After: 7", body: "busy"}, {status: 503, header: "Retry-After: 1", body: "busy"}, busy, fine,
			},
			send:   get,
			theirs: end{attempts: 6, took: 500*time.Millisecond + 750*time.Millisecond + 7*time.Second + time.Second + 500*time.Millisecond, body: "hello"},
			ours:   end{attempts: 6, took: 500*time.Millisecond + 750*time.Millisecond + 7*time.Second + 1687500*time.Microsecond + 2531250*time.Microsecond, body: "hello"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			peer, ours := row.peer()
			requireEnd(t, row.theirs, play(t, row.script, row.send, peer), "theirs")
			requireEnd(t, row.ours, play(t, row.script, row.send, ours), "ours, since: "+row.why)
		})
	}
}

func requireEnd(t *testing.T, want end, got record, whose string) {
	t.Helper()
	require.Len(t, got.at, want.attempts, whose)
	require.Equal(t, want.took, got.took, whose)
	require.Equal(t, want.body, got.body, whose)
	if want.err == "" {
		require.NoError(t, got.err, whose)
		return
	}
	require.ErrorContains(t, got.err, want.err, whose)
	if want.is != nil {
		require.ErrorIs(t, got.err, want.is, whose)
	}
	if want.not != nil {
		require.NotErrorIs(t, got.err, want.not, whose)
	}
}

// thrice is retryablehttp with three attempts, and a change.
func thrice(change func(*retryablehttp.Client)) func() (peer, ours way) {
	return func() (peer, ours way) {
		return retryablePair(func(c *retryablehttp.Client) {
			if c.RetryMax = 2; change != nil {
				change(c)
			}
		})
	}
}

// minutely is rehttp with three attempts, a minute apart.
func minutely() (peer, ours way) {
	return rehttpPair(rehttp.RetryAll(rehttp.RetryMaxRetries(2), rehttp.RetryStatuses(503)), rehttp.ConstDelay(time.Minute))
}

// growingFor is cenkalti/backoff with waits that grow from half a second, and
// Retry-After in seconds.
func growingFor(maxElapsed time.Duration) func() (peer, ours way) {
	return func() (peer, ours way) {
		peer = func(base http.RoundTripper) *http.Client {
			return &http.Client{Transport: retrying{base, true, func(ctx context.Context, operation func() (*http.Response, error)) (*http.Response, error) {
				return backoff.Retry(ctx, operation, backoff.WithBackOff(growing()), backoff.WithMaxElapsedTime(maxElapsed))
			}}}
		}
		ours = func(base http.RoundTripper) *http.Client {
			s := retrip.Standard()
			s.MaxAttempts = 6
			s.Backoff = migrate.BackOff(growing, maxElapsed)
			s.ThrottleBackoff = nil
			return &http.Client{Transport: &retrip.Transport{Base: base, Strategy: s}}
		}
		return peer, ours
	}
}
