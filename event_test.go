package retrip

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/socketerr"
)

// What an Observer and a Trace are told.

func TestEventsAndTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Event
		transport := &Transport{
			Base:    script(status(429, "Retry-After: 2"), jsonError(400, "SlowDown"), fails(errReset), status(404)),
			PerKey:  func(string) *Strategy { s := longest(Standard()); s.MaxAttempts = 4; return s },
			Observe: func(e Event) { seen = append(seen, e) },
		}
		ctx, trace := WithTrace(t.Context())
		resp, err := get(ctx, transport)
		require.NoError(t, err)
		require.Equal(t, 404, resp.StatusCode)
		require.Equal(t, [][]Event{seen}, trace.Requests())

		type line struct {
			attempt, status, tokens int
			class                   Class
			code, from              string
			wait, elapsed           time.Duration
			reason                  Reason
			final                   bool
		}
		var lines []line
		for _, e := range seen {
			require.Equal(t, "example.com", e.Key)
			lines = append(lines, line{e.Attempt, e.Status, e.Tokens, e.Class, e.Code, e.WaitFrom, e.Wait, e.Elapsed, e.Reason, e.Final})
		}
		require.Equal(t, []line{
			{1, 429, 495, Throttled, "", "Retry-After", 2 * time.Second, 0, 0, false},
			{2, 400, 490, Throttled, "SlowDown", "backoff", 2 * time.Second, 2 * time.Second, 0, false},
			{3, 0, 485, Transient, "", "backoff", 400 * time.Millisecond, 4 * time.Second, 0, false},
			{4, 404, 485, Permanent, "", "", 0, 4400 * time.Millisecond, NotRetryable, true},
		}, lines)
		require.ErrorIs(t, seen[2].Err, socketerr.ConnReset)
	})
}

// A request that ends while it waits still has exactly one final event.
func TestFinalEventOfACancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Backoff = Constant{Wait: time.Hour}
		ctx, trace := WithTrace(t.Context())
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Minute, cancel)
		_, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.Error(t, err)
		events := trace.Requests()[0]
		require.Len(t, events, 2)
		require.False(t, events[0].Final)
		require.True(t, events[1].Final)
		require.Equal(t, Cancelled, events[1].Reason)
		require.Equal(t, time.Minute, events[1].Elapsed)
		require.Zero(t, events[1].Sent, "it is not an attempt's")
		require.Zero(t, events[1].Wait)
	})
}

func TestCodeOutsideTheListsIsNotRepeated(t *testing.T) {
	ctx, trace := WithTrace(t.Context())
	_, err := get(ctx, &Transport{Base: script(jsonError(400, "password=hunter2"))})
	require.NoError(t, err)
	require.Empty(t, trace.Requests()[0][0].Code)
}
