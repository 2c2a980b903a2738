package retrip_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A listeningQuota notes what it hears, and allows some retries.
type listeningQuota struct {
	allow int
	heard []any
}

type (
	answered struct {
		class retrip.Class
		cost  int
	}
	asked    retrip.Failure
	returned int
)

func (q *listeningQuota) Answered(class retrip.Class, cost int) {
	q.heard = append(q.heard, answered{class, cost})
}
func (q *listeningQuota) Failed(f retrip.Failure) { q.heard = append(q.heard, f) }
func (q *listeningQuota) Return(cost int)         { q.heard = append(q.heard, returned(cost)) }
func (q *listeningQuota) Take(_ context.Context, f retrip.Failure) bool {
	q.heard = append(q.heard, asked(f))
	q.allow--
	return q.allow >= 0
}

// A quota hears of each attempt once, and is asked last.
func TestQuotaHearsOfEachAttempt(t *testing.T) {
	failure := func(attempt int, class retrip.Class) retrip.Failure {
		return retrip.Failure{Class: class, Attempt: attempt, MaxAttempts: 3, Cost: 5}
	}
	hinted := func(f retrip.Failure) retrip.Failure { f.Hinted = 1; return f } // once, by now
	timeout := func(f retrip.Failure) retrip.Failure { f.Timeout = true; return f }
	transient := failure(1, retrip.Transient)
	hint, second := hinted(failure(1, retrip.Throttled)), timeout(hinted(failure(2, retrip.Transient)))
	hint.Hint = true
	for name, row := range map[string]struct {
		method string
		allow  int
		steps  []step
		want   []any
	}{
		"success":             {"GET", 9, []step{status(200)}, []any{answered{retrip.Success, 0}}},
		"the client's fault":  {"GET", 9, []step{status(404)}, []any{answered{retrip.Permanent, 0}}},
		"no answer, for good": {"GET", 9, []step{fails(x509.UnknownAuthorityError{})}, nil},
		"recovers":            {"GET", 9, []step{status(503), status(200)}, []any{transient, asked(transient), answered{retrip.Success, 5}}},
		"refused":             {"GET", 0, []step{status(503)}, []any{transient, asked(transient)}},
		"not idempotent":      {"POST", 9, []step{status(503)}, []any{transient}},
		"a wait over the cap": {"GET", 9, []step{status(429, "Retry-After: 99")}, []any{failure(1, retrip.Throttled)}},
		"all attempts": {"GET", 9, []step{status(429, "Retry-After: 1"), fails(syscall.ETIMEDOUT), status(503)}, []any{
			hint, asked(hint), second, asked(second), hinted(failure(3, retrip.Transient)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quota := &listeningQuota{allow: row.allow}
				s := retrip.Standard()
				s.Quota = quota
				base := script(row.steps...)
				resp, err := (&retrip.Transport{Strategy: s, Base: base}).RoundTrip(newRequest(t, row.method, nil))
				if err == nil {
					require.NoError(t, resp.Body.Close())
				}
				require.Len(t, base.Sent(), len(row.steps))
				require.Equal(t, row.want, withoutTimes(quota.heard))
			})
		})
	}
}

// withoutTimes takes away when the attempts were.
func withoutTimes(heard []any) []any {
	for i := range heard {
		switch f := heard[i].(type) {
		case retrip.Failure:
			f.Sent, f.Done = time.Time{}, time.Time{}
			heard[i] = f
		case asked:
			f.Sent, f.Done = time.Time{}, time.Time{}
			heard[i] = f
		}
	}
	return heard
}

// A cancelled attempt is neither success nor failure, and a retry that is
// cancelled while it waits returns what it took.
func TestQuotaAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := &listeningQuota{allow: 9}
		s := retrip.Standard()
		s.Quota, s.Backoff = quota, retrip.Constant{Wait: time.Minute}
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			if req.Method == "HEAD" {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return answer(503, "")(req)
		})}
		for _, method := range []string{"HEAD", "GET"} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			req := newRequest(t, method, nil).WithContext(ctx)
			_, err := transport.RoundTrip(req)
			require.ErrorIs(t, err, context.Canceled)
		}
		f := retrip.Failure{Class: retrip.Transient, Attempt: 1, MaxAttempts: 3, Cost: 5}
		require.Equal(t, []any{f, asked(f), returned(5)}, withoutTimes(quota.heard))
	})
}

// A quota that allows a retry at no cost hears, too, that it was not sent.
func TestQuotaHearsOfACancelledRetryThatCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := &listeningQuota{allow: 9}
		s := retrip.Legacy()
		s.Quota, s.ThrottleBackoff = quota, retrip.Constant{Wait: time.Minute}
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			return answer(429, "")(req)
		})}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req := newRequest(t, "GET", nil).WithContext(ctx)
		_, err := transport.RoundTrip(req)
		require.ErrorIs(t, err, context.Canceled)
		f := retrip.Failure{Class: retrip.Throttled, Attempt: 1, MaxAttempts: 4}
		require.Equal(t, []any{f, asked(f), returned(0)}, withoutTimes(quota.heard))
	})
}
