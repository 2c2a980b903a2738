package migrate

import (
	"fmt"
	"reflect"
	"time"

	"github.com/retrip-go/retrip"
)

// BackOff makes a Backoff of a policy of github.com/cenkalti/backoff, v4 to v7:
//
//	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy {
//		s := retrip.Standard()
//		s.MaxAttempts = 5
//		s.Backoff = migrate.BackOff(backoff.NewExponentialBackOff, backoff.DefaultMaxElapsedTime)
//		s.ThrottleBackoff = nil // the same after throttling
//		return s
//	}}
//
// Such a policy counts its calls and serves one operation at a time, whereas a
// Backoff keeps no state. That is why BackOff takes a function that makes a new
// one, from any goroutine. For the n-th retry it makes one, calls Reset, and
// then NextBackOff n times, of which the last counts. So intervals grow as
// before, each random draw is independent of the others, and WithMaxRetries and
// whatever else answers -1 (Stop) ends the retries. Beyond the 1000th retry the
// wait is that of the 1000th.
//
// A policy that is always new knows no time. What stops by the clock, such as
// MaxElapsedTime in v4, does not stop here: maxElapsed does instead. No retry
// is planned for later than that after the first attempt ended; the duration of
// that attempt, which may be long, does not count as it did. 0 or less is no
// limit, here as there. Without a policy to make, BackOff returns nil, which is an
// error as Strategy.Backoff; as ThrottleBackoff it means the same as Backoff.
func BackOff[B interface {
	NextBackOff() time.Duration
	Reset()
}](create func() B, maxElapsed time.Duration) retrip.Backoff {
	if create == nil || isNil(create()) {
		return nil // Validate reports it
	}
	return renewed[B]{create, maxElapsed}
}

type renewed[B interface {
	NextBackOff() time.Duration
	Reset()
}] struct {
	create     func() B
	maxElapsed time.Duration
}

const (
	stop      = -1   // backoff.Stop
	mostSteps = 1000 // our choice: a policy's NextBackOff is called that often for one wait
)

func (b renewed[B]) Delay(r retrip.Retry) (d time.Duration, ok bool) {
	policy := b.create()
	if isNil(policy) {
		return 0, false
	}
	policy.Reset()
	for range min(r.Index+1, mostSteps) {
		if d = policy.NextBackOff(); d == stop {
			return 0, false
		}
	}
	return d, b.maxElapsed <= 0 || d <= b.maxElapsed-r.Elapsed
}

func (b renewed[B]) String() string {
	return fmt.Sprintf("a new %v for each retry, within %v", reflect.TypeFor[B](), b.maxElapsed)
}

func isNil(policy any) bool {
	v := reflect.ValueOf(policy)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
