package retrip

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/socketerr"
)

// Whatever sleeps in this file sleeps in a bubble's virtual time.

// What each outcome costs and gives back, through the transport.
func TestTokens(t *testing.T) {
	tests := []struct {
		name  string
		make  func() *Strategy
		start int
		steps []step
		left  int
	}{
		{"first success", Standard, 10, []step{status(200)}, 11},
		{"redirect", Standard, 10, []step{status(302)}, 11},
		{"failure for good", Standard, 10, []step{status(404)}, 10},
		{"retry that succeeds", Standard, 10, []step{status(503), status(200)}, 10},
		{"retry that fails for good", Standard, 10, []step{status(503), status(404)}, 5},
		{"throttled", Standard, 10, []step{status(429), status(404)}, 5},
		{"throttled, legacy", Legacy, 10, []step{status(429), status(404)}, 10},
		{"throttled, legacy, success", Legacy, 10, []step{status(429), status(200)}, 11},
		{"cost 14", cost14, 20, []step{status(503), status(404)}, 6},
		{"cost 14, throttled", cost14, 20, []step{status(429), status(404)}, 15},
		{"cost 14, not enough", cost14, 13, []step{status(503), status(200)}, 13},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := tt.make()
			s.Quota.(*Bucket).take(500 - tt.start)
			_, err := get(t.Context(), &Transport{Base: script(tt.steps...), Strategy: s})
			require.NoError(t, err)
			require.Equal(t, tt.left, s.tokens(), tt.name)
		})
	}
}

// What a Backoff is told, and that it can't send a request to sleep for ever.
func TestRetryIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Retry
		var statuses []int
		s := longest(Standard())
		s.MaxAttempts = 4
		s.ThrottleBackoff = nil
		s.Backoff = BackoffFunc(func(r Retry) (time.Duration, bool) {
			if resp := r.Attempt.Response; resp != nil {
				statuses = append(statuses, resp.StatusCode)
			}
			r.Attempt = Attempt{}
			told = append(told, r)
			return time.Duration(r.Index-1) * time.Second, true // negative at first
		})
		base := script(status(503), status(429), func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return nil, errReset
		}, status(200))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, []Retry{
			{Index: 0, Class: Transient, Rand: 1},
			{Index: 1, Class: Throttled, Rand: 1},
			{Index: 2, Class: Transient, Rand: 1, Elapsed: time.Minute},
		}, told)
		require.Equal(t, []int{503, 429}, statuses)
		s.Backoff = DecorrelatedJitter{Base: time.Second}
		base = script(status(503))
		_, err = get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, milliseconds(3000, 9000, 27000), base.Waits(), "each from the one before")
	})
}

// A Backoff hears of its own delays only, also where the server asked for more.
func TestBackoffIsNotToldTheServersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.Backoff = DecorrelatedJitter{Base: time.Second}
		base := script(status(503, "Retry-After: 20"), status(503))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, milliseconds(20000, 9000), base.Waits())
	})
}

func TestBackoffThatStops(t *testing.T) {
	ctx, trace := WithTrace(t.Context())
	s := Standard()
	s.Backoff = BackoffFunc(func(Retry) (time.Duration, bool) { return 0, false })
	resp, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, BackoffStopped, trace.Requests()[0][0].Reason)
}

// Of several reasons the first in order is told.
func TestOrderOfReasons(t *testing.T) {
	reason := func(transport *Transport, req *http.Request) Reason {
		ctx, trace := WithTrace(req.Context())
		resp, err := transport.RoundTrip(req.WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
		return trace.Requests()[0][0].Reason
	}
	s := Standard()
	s.MaxAttempts, s.Quota = 1, NewBucket(0)
	require.Equal(t, NotRetryable, reason(&Transport{Base: script(status(404)), Strategy: s}, newRequest(t, "POST", opaque("x"))))
	require.Equal(t, NotIdempotent, reason(&Transport{Base: script(status(503)), Strategy: s}, newRequest(t, "POST", opaque("x"))))
	require.Equal(t, AttemptsExhausted, reason(&Transport{Base: script(status(503)), Strategy: s}, newRequest(t, "PUT", opaque("x"))))
	s = s.Clone()
	s.MaxAttempts = 2
	require.Equal(t, BodyNotReplayable, reason(&Transport{Base: script(status(503, "Retry-After: 99")), Strategy: s, ReplayBuffer: 1}, newRequest(t, "PUT", opaque("long"))))
	require.Equal(t, WaitOverCap, reason(&Transport{Base: script(status(503, "Retry-After: 99")), Strategy: s}, newRequest(t, "GET", nil)))
	require.Equal(t, QuotaExhausted, reason(&Transport{Base: script(status(503)), Strategy: s}, newRequest(t, "GET", nil)))
}

func TestWaitsAtTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503, "Retry-After: 60"), status(200))
		_, err := get(t.Context(), &Transport{Base: base})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 2, "the cap itself is allowed")

		s := Standard()
		s.Backoff = Constant{Wait: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		base = script(status(503))
		_, err = get(ctx, &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 1, "at the deadline it is too late")
	})
}

// The limiter's queue counts before a retry is begun: the answer is kept.
func TestQueueIsPartOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strategy := func() *Strategy {
			s := longest(Adaptive())
			s.Limiter.update(s.Limiter.clock(), true)
			time.Sleep(2 * time.Second) // then the first attempt may go, and the next at least half a second later
			return s
		}
		s := strategy()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		resp, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Zero(t, time.Since(start), "the backoff alone would fit, the queue does not")

		s = strategy()
		s.MaxLimiterWait = 300 * time.Millisecond
		trail, trace := WithTrace(t.Context())
		resp, err = get(trail, &Transport{Base: script(status(503)), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		e := trace.Requests()[0][0]
		require.Equal(t, WaitOverCap, e.Reason)
		require.Equal(t, "limiter", e.WaitFrom)
	})
}

// An attempt that the limiter lets go by the end of the backoff does not wait for it.
func TestBackoffIsPartOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.Backoff, s.MaxLimiterWait = Constant{Wait: 3 * time.Second}, 300*time.Millisecond
		base := script(status(429), status(503), status(200))
		transport := &Transport{Base: base, Strategy: s}
		_, err := get(WithMaxAttempts(t.Context(), 1), transport)
		require.NoError(t, err)
		time.Sleep(2 * time.Second) // for the first of the next two, at one in two seconds
		resp, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 3*time.Second, base.Waits()[1])
	})
}

// A permit that an attempt does not use goes to the next.
func TestPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		s.Limiter.update(s.Limiter.clock(), true)
		time.Sleep(2 * time.Second)
		fail := true
		transport := &Transport{Base: script(status(200)), Strategy: s, Prepare: func(*http.Request, PrepareInfo) error {
			if fail {
				return io.ErrNoProgress
			}
			return nil
		}}
		start := time.Now()
		_, err := get(t.Context(), transport)
		require.ErrorIs(t, err, ErrPrepareFailed)
		fail = false
		_, err = get(t.Context(), transport)
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		_, err = get(t.Context(), transport)
		require.NoError(t, err)
		require.NotZero(t, time.Since(start), "used once, it is gone")
	})
}

// A permit that comes back goes to the head of the queue at once.
func TestPermitThatComesBackEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Adaptive()
		prepared := 0
		transport := &Transport{Base: script(status(429), status(200)), Strategy: s, Prepare: func(*http.Request, PrepareInfo) error {
			if prepared++; prepared == 2 {
				time.Sleep(time.Second / 2)
				return io.ErrNoProgress
			}
			return nil
		}}
		_, err := get(WithMaxAttempts(t.Context(), 1), transport) // from here on one in two seconds
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		start := time.Now()
		go func() { _, _ = get(t.Context(), transport) }()
		synctest.Wait()
		_, err = get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, time.Second/2, time.Since(start))
	})
}

// A response below 400 that a rule calls a failure has its times, too.
func TestFailuresBelow400(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.MaxAttempts = 9
		s.Classifiers = append([]Classifier{On(Transient, StatusIs(202))}, s.Classifiers...)
		s.Backoff = Constant{Wait: time.Second, Period: 3 * time.Second}
		base := script(status(202))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 4)

		base = script(status(202, "Retry-After: "+time.Now().Add(5*time.Second).UTC().Format(http.TimeFormat)), status(200))
		_, err = get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.InDelta(t, 5, base.Waits()[0].Seconds(), 4.1)
		require.Greater(t, base.Waits()[0], time.Second-1)
	})
}

// Verdicts that make no sense count as permanent.
func TestOddVerdicts(t *testing.T) {
	for _, class := range []Class{Class(77), NeedsBody, Unknown} {
		s := &Strategy{MaxAttempts: 3, Backoff: Constant{}, Classifiers: []Classifier{ClassifierFunc(func(Attempt) Class { return class })}}
		base := script(status(503))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 1)
	}
	s := Standard()
	s.Classifiers = append([]Classifier{On(Success, ErrorIs(socketerr.ConnReset))}, s.Classifiers...)
	ctx, trace := WithTrace(t.Context())
	_, err := get(ctx, &Transport{Base: script(fails(errReset)), Strategy: s})
	require.ErrorIs(t, err, socketerr.ConnReset)
	require.Equal(t, NotRetryable, trace.Requests()[0][0].Reason)
}

// A classifier that asks for the body again, or where there is none, leaves
// the decision to the others.
func TestClassifierThatAlwaysAsksForTheBody(t *testing.T) {
	for _, failure := range []step{status(503), fails(errReset)} {
		s := noWait()
		s.Classifiers = append([]Classifier{ClassifierFunc(func(Attempt) Class { return NeedsBody })}, s.Classifiers...)
		base := script(failure, status(200))
		resp, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, base.Sent(), 2)
	}
}

// Without a backoff, too, a request that is cancelled between two attempts is
// not sent again.
func TestCancelInObserve(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	_, err := get(ctx, &Transport{
		Strategy: noWait(),
		Observe:  func(Event) { cancel() },
		Base: step(func(*http.Request) (*http.Response, error) {
			attempts++
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		}),
	})
	require.ErrorIs(t, err, ErrCancelled)
	require.Equal(t, 1, attempts)
}

// An answer that comes as the caller gives up is still an answer.
func TestAnswerOfACancelledRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base := script(func(req *http.Request) (*http.Response, error) {
		cancel()
		return status(503)(req)
	})
	resp, err := get(ctx, &Transport{Base: base})
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Len(t, base.Sent(), 1)
}

// A long poll waits as long as the server asks, too.
func TestLongPollWaitsForTheServersHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.LongPoll = func(*http.Request) bool { return true }
		s.Quota = NewBucket(0)
		start := time.Now()
		_, err := get(t.Context(), &Transport{Base: script(status(503, "Retry-After: 3")), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// A bounded hint is cut first and then measured by MaxRetryAfter. A negative
// bound, which only a reader of the user's can give, is none.
func TestHintIsCutBeforeTheCap(t *testing.T) {
	for excess, want := range map[time.Duration]time.Duration{2 * time.Second: 2 * time.Second, -1: 9 * time.Second} {
		s := noWait()
		s.MaxRetryAfter = time.Second
		s.Hints = []HintReader{HintReaderFunc(func(Attempt) (Hint, bool) {
			return Hint{Wait: 9 * time.Second, MaxExcess: excess}, true
		})}
		ctx, trace := WithTrace(t.Context())
		_, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.NoError(t, err)
		e := trace.Requests()[0][0]
		require.Equal(t, []any{WaitOverCap, want}, []any{e.Reason, e.Wait})
	}
}

// An event that is not of an attempt has no times of one.
func TestEventThatIsNotOfAnAttempt(t *testing.T) {
	var events []Event
	_, err := get(t.Context(), &Transport{
		Base:    script(status(200)),
		Prepare: func(*http.Request, PrepareInfo) error { return errReset },
		Observe: func(e Event) { events = append(events, e) },
	})
	require.ErrorIs(t, err, ErrPrepareFailed)
	require.Len(t, events, 1)
	e := events[0]
	require.Equal(t, []any{0, Unknown, PrepareFailed, true}, []any{e.Attempt, e.Class, e.Reason, e.Final})
	require.True(t, e.Sent.IsZero() && e.Done.IsZero())
}

// The event of an attempt that the caller cancelled has no class: it says nothing
// about the server.
func TestClassOfACancelledAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ctx, trace := WithTrace(ctx)
	_, err := get(ctx, &Transport{Base: script(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, context.Canceled
	})})
	require.ErrorIs(t, err, context.Canceled)
	e := trace.Requests()[0][0]
	require.Equal(t, []any{1, Unknown, Cancelled, true}, []any{e.Attempt, e.Class, e.Reason, e.Final})
}

func TestLongPollWaitsWithItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for poll, wait := range map[string]time.Duration{"yes": 50 * time.Millisecond, "": 0} {
			s := longest(cost14())
			s.LongPoll = func(req *http.Request) bool { return req.Header.Get("Poll") != "" }
			s.Quota = NewBucket(0)
			req := newRequest(t, "GET", nil)
			req.Header.Set("Poll", poll)
			start := time.Now()
			resp, err := (&Transport{Base: script(answer(503, "no work")), Strategy: s}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, wait, time.Since(start), poll)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "no work", string(body))
		}
	})
}
