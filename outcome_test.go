package retrip_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A play answers the attempts of one test, in their order.
type play []func(*http.Request) (*http.Response, error)

func (p *play) RoundTrip(req *http.Request) (*http.Response, error) {
	next := (*p)[0]
	*p = (*p)[1:]
	return next(req)
}

func answers(status int, body, contentType string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp := answerWith(req, status, body)
		resp.Header.Set("Content-Type", contentType)
		return resp, nil
	}
}

func errs(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// A classifier hears of an attempt's own code and body only, not of those of
// the attempt before.
func TestOutcomesAreApart(t *testing.T) {
	type heard struct{ code, body string }
	var got []heard
	s := immediately()
	s.Classifiers = append([]retrip.Classifier{retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		got = append(got, heard{a.Code, string(a.Body)})
		return retrip.Unknown
	})}, s.Classifiers...)
	base := &play{
		answers(503, `{"code":"Busy"}`, "application/json"),
		errs(errors.New("connection lost")),
		answers(503, "busy", "text/plain"),
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://example.com/", nil)
	require.NoError(t, err)
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
		transport := &retrip.Transport{Strategy: s, Base: &play{
			answers(429, "", ""), answers(503, "", ""), answers(200, "", ""),
		}}
		send := func(ctx context.Context) {
			req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
			require.NoError(t, err)
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
	for name, transport := range map[string]*retrip.Transport{
		"cancelled during the second attempt": {Strategy: immediately(), Base: &play{errs(failure), cancels}},
		"cancelled after the failure": {
			Strategy: cancelling(func() { cancel() }), Base: &play{errs(failure)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(req)
			require.ErrorIs(t, err, retrip.ErrCancelled)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, failure)
		})
	}
}

// cancelling calls cancel while it is asked what an outcome means.
func cancelling(cancel func()) *retrip.Strategy {
	s := immediately()
	s.Classifiers = append([]retrip.Classifier{retrip.ClassifierFunc(func(retrip.Attempt) retrip.Class {
		cancel()
		return retrip.Transient
	})}, s.Classifiers...)
	return s
}

// A file that can't be read fails every attempt alike, and the caller gets the
// error as the base returned it.
func TestErrorOfAFileProvesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(path, []byte("order"), 0o600))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	sent := 0
	var failure error
	transport := &retrip.Transport{Strategy: immediately(), Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		sent++
		_, failure = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return nil, failure
	})}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://example.com/", file)
	require.NoError(t, err)
	_, err = transport.RoundTrip(req)
	require.Error(t, err)
	require.True(t, err == failure, "%v", err)
	require.Equal(t, 1, sent)
	require.ErrorIs(t, file.Close(), os.ErrClosed)
}

// The base may send a copy of the body that Prepare put there. Its error is no
// proof either.
func TestErrorOfACopyProvesNothing(t *testing.T) {
	sent := 0
	transport := &retrip.Transport{
		Strategy: immediately(),
		Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			sent++
			require.NoError(t, req.Body.Close())
			another, err := req.GetBody()
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, another)
			require.NoError(t, another.Close())
			return nil, err
		}),
		Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
			req.Body, req.ContentLength = breaking(), -1
			req.GetBody = func() (io.ReadCloser, error) { return breaking(), nil }
			return nil
		},
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.com/", nil)
	require.NoError(t, err)
	_, err = transport.RoundTrip(req)
	require.ErrorIs(t, err, error(dialError))
	require.Equal(t, 1, sent)
}

// A body from GetBody that was not read did not fail: a failed dial of a retry
// proves that nothing was sent.
func TestFailedDialIsProofAfterGetBody(t *testing.T) {
	base := &play{answers(429, "", ""), errs(dialError), answers(200, "", "")}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.com/", strings.NewReader("order"))
	require.NoError(t, err)
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytesReader{strings.NewReader("order")}), nil }
	resp, err := (&retrip.Transport{Strategy: immediately(), Base: base}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Empty(t, *base)
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
				closed := false
				body := closing{strings.NewReader("order"), func() { closed = true }}
				transport := &retrip.Transport{
					Base: roundTrip(func(*http.Request) (*http.Response, error) { panic("sent") }),
					Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
						another, err := req.GetBody()
						require.NoError(t, err)
						_, err = another.Read(make([]byte, 1))
						require.NoError(t, err)
						return end(req, another)
					},
				}
				req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://example.com/", body)
				require.NoError(t, err)
				func() {
					defer func() {
						if value := recover(); value != nil {
							require.Equal(t, "no key", value)
						}
					}()
					_, err = transport.RoundTrip(req)
					require.ErrorIs(t, err, retrip.ErrPrepareFailed)
				}()
				synctest.Wait()
				require.True(t, closed)
			})
		})
	}
}

// A closing body calls a function when it is closed.
type closing struct {
	io.Reader
	close func()
}

func (c closing) Close() error { c.close(); return nil }

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
		req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
		require.NoError(t, err)
		_, err = (&retrip.Transport{Strategy: s, Base: &play{answers(503, "", "")}}).RoundTrip(req)
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
		retrip.ErrQuotaExhausted: {Strategy: poll, Base: &play{errs(failure)}},
		retrip.ErrAttemptsExhausted: {
			Strategy: immediately(), Base: &play{errs(failure), errs(failure), errs(failure)},
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
				req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
				require.NoError(t, err)
				_, err = transport.RoundTrip(req)
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
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		got = req.Body
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 32<<10))
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		return answerWith(req, 503, ""), req.Body.Close()
	})
	for name, prepare := range map[string]func(*http.Request, retrip.PrepareInfo) error{
		"alone":        nil,
		"with Prepare": func(*http.Request, retrip.PrepareInfo) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			transport := &retrip.Transport{Base: base, ReplayBuffer: 2 * size, Prepare: prepare}
			ctx := retrip.WithMaxAttempts(t.Context(), 1)
			body := &zeros{left: size}
			req, err := http.NewRequestWithContext(ctx, "PUT", "http://example.com/", body)
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := transport.RoundTrip(req)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/4))
			require.Equal(t, prepare == nil, got == io.ReadCloser(body))
		})
	}
}

// A zeros body gives as many bytes as are left.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	z.left -= n
	return n, nil
}

func (z *zeros) Close() error { return nil }

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
				var closes atomic.Int32
				transport := &retrip.Transport{Strategy: immediately(), Prepare: prepare, Base: &play{
					func(req *http.Request) (*http.Response, error) {
						resp := answerWith(req, 503, "")
						resp.Body = closing{strings.NewReader(""), func() { closes.Add(1) }}
						return resp, nil
					},
					answers(200, "", ""),
				}}
				req, err := http.NewRequestWithContext(t.Context(), "GET", "http://example.com/", nil)
				require.NoError(t, err)
				func() {
					defer func() { require.Equal(t, name == "panic", recover() != nil) }()
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}()
				synctest.Wait()
				require.EqualValues(t, 1, closes.Load())
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
				closed := false
				transport := &retrip.Transport{AttemptTimeout: time.Second, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					if !late {
						return nil, req.Context().Err()
					}
					resp := answerWith(req, 200, "")
					resp.Body = closing{strings.NewReader("late"), func() { closed = true }}
					return resp, nil
				})}
				req, err := http.NewRequestWithContext(retrip.WithMaxAttempts(t.Context(), 1), "GET", "http://example.com/", nil)
				require.NoError(t, err)
				_, err = transport.RoundTrip(req)
				require.ErrorAs(t, err, new(*retrip.AttemptTimeoutError))
				require.Equal(t, late, closed)
			})
		})
	}
}

// A server may answer before it has the whole request. Then the end of its
// response does not end the attempt, which still sends; closing it does.
func TestAttemptTimeoutLeavesAnUploadAlone(t *testing.T) {
	var attempt context.Context
	transport := &retrip.Transport{AttemptTimeout: time.Minute, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		attempt = req.Context()
		return answerWith(req, 200, "early"), nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://example.com/", strings.NewReader("order"))
	require.NoError(t, err)
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
			Base:    &play{answers(200, "", "")},
			Prepare: func(*http.Request, retrip.PrepareInfo) error { time.Sleep(time.Second); return nil },
		}
		start := time.Now()
		ctx, trace := retrip.WithTrace(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, start.Add(time.Second), trace.Requests()[0][0].Sent)
	})
}
