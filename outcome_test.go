package retrip_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// The attempts of a request are kept apart, and what the caller gets tells of
// them all.

// A classifier hears of an attempt's own code and body only, not of those of
// the attempt before.
func TestOutcomesAreApart(t *testing.T) {
	type heard struct{ code, body string }
	var got []heard
	s := immediately(asking(retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		got = append(got, heard{a.Code, string(a.Body)})
		return retrip.Unknown
	})))
	base := script(
		answer(503, `{"code":"Busy"}`, "Content-Type: application/json"),
		fails(errors.New("connection lost")),
		answer(503, "busy", "Content-Type: text/plain"),
	)
	req := newRequest(t, "GET", nil)
	resp, err := (&retrip.Transport{Strategy: s, Base: base}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []heard{{"Busy", `{"code":"Busy"}`}, {}, {}}, got)
}

// An event tells when its own attempt was sent and how long that one waited
// for the limiter.
func TestAttemptsAreTimedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retrip.Adaptive()
		s.Backoff = retrip.Constant{Wait: 10 * time.Second}
		transport := &retrip.Transport{Strategy: s, Base: script(
			answer(429, ""), answer(503, ""), answer(200, ""),
		)}
		send := func(ctx context.Context) {
			req := newRequest(t, "GET", nil).WithContext(ctx)
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		send(retrip.WithMaxAttempts(t.Context(), 1)) // from here on one in two seconds
		start := time.Now()
		ctx, trace := retrip.WithTrace(t.Context())
		send(ctx)
		events := trace.Requests()[0]
		require.Len(t, events, 2)
		require.Equal(t, 2*time.Second, events[0].LimiterWait)
		require.Equal(t, start.Add(2*time.Second), events[0].Sent)
		require.Zero(t, events[1].LimiterWait)
		require.Equal(t, start.Add(12*time.Second), events[1].Sent)
	})
}

// An error of a request that its caller cancelled also tells what failed before.
func TestErrorsTellWhatFailedBefore(t *testing.T) {
	failure := errors.New("connection lost")
	ctx, cancel := context.WithCancel(t.Context())
	cancels := func(req *http.Request) (*http.Response, error) { cancel(); return nil, req.Context().Err() }
	for name, row := range map[string]struct {
		strategy *retrip.Strategy
		steps    []step
	}{
		"cancelled during the second attempt": {immediately(), []step{fails(failure), cancels}},
		"cancelled after the failure":         {cancelling(func() { cancel() }), []step{fails(failure)}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			base := script(row.steps...)
			_, err := (&retrip.Transport{Strategy: row.strategy, Base: base}).RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
			require.Len(t, base.Sent(), len(row.steps))
			require.ErrorIs(t, err, retrip.ErrCancelled)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, failure)
		})
	}
}

// cancelling calls cancel while it is asked what an outcome means.
func cancelling(cancel func()) *retrip.Strategy {
	return immediately(asking(retrip.ClassifierFunc(func(retrip.Attempt) retrip.Class {
		cancel()
		return retrip.Transient
	})))
}

// A Prepare that opens copies of the body and then fails or panics leaves the
// caller's body closed.
func TestPrepareThatEndsWithACopyOpen(t *testing.T) {
	for name, end := range map[string]func(*http.Request, io.Reader) error{
		"panics": func(*http.Request, io.Reader) error { panic("no key") },
		"fails": func(req *http.Request, another io.Reader) error {
			req.Body = io.NopCloser(another)
			return errors.New("no key")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := opaque("order")
				transport := &retrip.Transport{
					Base: step(func(*http.Request) (*http.Response, error) { panic("sent") }),
					Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
						another, err := req.GetBody()
						require.NoError(t, err)
						_, err = another.Read(make([]byte, 1))
						require.NoError(t, err)
						return end(req, another)
					},
				}
				req := newRequest(t, "PUT", body)
				func() {
					defer func() {
						if value := recover(); value != nil {
							require.Equal(t, "no key", value)
						}
					}()
					_, err := transport.RoundTrip(req)
					require.ErrorIs(t, err, retrip.ErrPrepareFailed)
				}()
				synctest.Wait()
				require.Positive(t, body.Closes())
			})
		})
	}
}

// The tokens of a retry that is called off come back once, before the event
// tells of it.
func TestCancelledWaitReturnsItsTokensOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := retrip.Standard()
		s.Backoff = retrip.Constant{Wait: time.Second}
		bucket := s.Quota.(*retrip.Bucket)
		require.True(t, bucket.Take(t.Context(), retrip.Failure{Cost: 100})) // other requests' retries
		ctx, trace := retrip.WithTrace(ctx)
		time.AfterFunc(time.Second/2, cancel)
		req := newRequest(t, "GET", nil).WithContext(ctx)
		_, err := (&retrip.Transport{Strategy: s, Base: script(answer(503, ""))}).RoundTrip(req)
		require.ErrorIs(t, err, retrip.ErrCancelled)
		require.Equal(t, 400, bucket.Tokens())
		events := trace.Requests()[0]
		require.Len(t, events, 2)
		require.Equal(t, []int{400, 395}, []int{events[0].TokensBefore, events[0].Tokens})
		require.Equal(t, []int{395, 400}, []int{events[1].TokensBefore, events[1].Tokens})
	})
}

// The caller may give up when it is clear already that no retry follows: while
// a long poll waits before it returns, or in Observe. The error tells that, too.
func TestErrorTellsTheEndOfTheContextAfterTheDecision(t *testing.T) {
	failure := errors.New("connection lost")
	var cancel context.CancelFunc
	poll := retrip.Standard()
	poll.Quota, poll.Backoff = retrip.NewBucket(0), retrip.Constant{Wait: time.Second}
	poll.LongPoll = func(*http.Request) bool {
		time.AfterFunc(time.Second/2, cancel)
		return true
	}
	for reason, transport := range map[error]*retrip.Transport{
		retrip.ErrQuotaExhausted: {Strategy: poll, Base: script(fails(failure))},
		retrip.ErrAttemptsExhausted: {
			Strategy: immediately(), Base: script(fails(failure), fails(failure), fails(failure)),
			Observe: func(e retrip.Event) {
				if e.Final {
					cancel()
				}
			},
		},
	} {
		t.Run(reason.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ctx context.Context
				ctx, cancel = context.WithCancel(t.Context())
				req := newRequest(t, "GET", nil).WithContext(ctx)
				_, err := transport.RoundTrip(req)
				require.ErrorIs(t, err, reason)
				require.ErrorIs(t, err, failure)
				require.ErrorIs(t, err, context.Canceled)
			})
		})
	}
}

// A body that is sent only once is not kept, however much could be. Without
// Prepare, the base gets the caller's own body.
func TestBodyOfASingleAttemptIsNotKept(t *testing.T) {
	const size = 32 << 20
	var got io.ReadCloser
	base := step(func(req *http.Request) (*http.Response, error) {
		got = req.Body
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 32<<10))
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		require.NoError(t, req.Body.Close())
		return answer(503, "")(req)
	})
	for name, prepare := range map[string]func(*http.Request, retrip.PrepareInfo) error{
		"alone":        nil,
		"with Prepare": func(*http.Request, retrip.PrepareInfo) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			transport := &retrip.Transport{Base: base, ReplayBuffer: 2 * size, Prepare: prepare}
			ctx := retrip.WithMaxAttempts(t.Context(), 1)
			body := &testkit.Body{ReadCloser: io.NopCloser(io.LimitReader(testkit.Endless, size))}
			req := newRequest(t, "PUT", body).WithContext(ctx)
			allocated := testkit.Allocated(func() {
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			})
			require.Less(t, allocated, int64(size/4))
			require.Equal(t, prepare == nil, got == io.ReadCloser(body))
		})
	}
}

// A response that a retry follows is closed once, also one without content, and
// also if the retry panics before it is sent.
func TestResponseBeforeARetryIsClosedOnce(t *testing.T) {
	for name, prepare := range map[string]func(*http.Request, retrip.PrepareInfo) error{
		"retry": nil,
		"panic": func(_ *http.Request, info retrip.PrepareInfo) error {
			if info.Number == 2 {
				panic("no key")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(answer(503, ""), answer(200, ""))
				transport := &retrip.Transport{Strategy: immediately(), Prepare: prepare, Base: base}
				req := newRequest(t, "GET", nil)
				func() {
					defer func() { require.Equal(t, name == "panic", recover() != nil) }()
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}()
				synctest.Wait()
				require.Equal(t, 1, base.Bodies()[0].Closes())
			})
		})
	}
}

// An attempt that exceeds its timeout fails with the timeout, whatever the base
// makes of it, and a response that comes too late is closed.
func TestAttemptTimeoutWinsOverTheBase(t *testing.T) {
	for name, late := range map[string]bool{"late response": true, "context's error": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := opaque("late")
				transport := &retrip.Transport{AttemptTimeout: time.Second, Base: step(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					if !late {
						return nil, req.Context().Err()
					}
					return testkit.Stream(200, body)(req)
				})}
				req := newRequest(t, "GET", nil).WithContext(retrip.WithMaxAttempts(t.Context(), 1))
				_, err := transport.RoundTrip(req)
				require.ErrorAs(t, err, new(*retrip.AttemptTimeoutError))
				require.Equal(t, late, body.Closes() > 0)
			})
		})
	}
}

// A server may answer before it has the whole request. Then the end of its
// response does not end the attempt, which still sends; closing it does.
func TestAttemptTimeoutLeavesAnUploadAlone(t *testing.T) {
	var attempt context.Context
	transport := &retrip.Transport{AttemptTimeout: time.Minute, Base: step(func(req *http.Request) (*http.Response, error) {
		attempt = req.Context()
		return answer(200, "early")(req)
	})}
	req := newRequest(t, "PUT", strings.NewReader("order"))
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, attempt.Err())
	require.NoError(t, resp.Body.Close())
	require.Error(t, attempt.Err())
}

// The time that Prepare takes is not part of the attempt.
func TestAttemptIsSentAfterPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &retrip.Transport{
			Base:    script(answer(200, "")),
			Prepare: func(*http.Request, retrip.PrepareInfo) error { time.Sleep(time.Second); return nil },
		}
		start := time.Now()
		ctx, trace := retrip.WithTrace(t.Context())
		req := newRequest(t, "GET", nil).WithContext(ctx)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, start.Add(time.Second), trace.Requests()[0][0].Sent)
	})
}
