package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/retrip-go/retrip"
	"golang.org/x/time/rate"
)

// BenchmarkBudget is what pays for retries, alone, and used by many at once:
// what it costs a request that succeeds, and one that is retried and then
// succeeds. x-time-rate counts no successes; it is there for orientation, as
// is aws-adaptive, which is that mode's limiter before its first throttle.
func BenchmarkBudget(b *testing.B) {
	ctx := context.Background()
	bucket := retrip.NewBucket(500)
	tokens := ratelimit.NewTokenRateLimit(500)
	inFlight := budget.NewBuilder().WithMaxRate(1).Build().(interface { // what its retry policy calls
		RecordExecution()
		ReleaseExecution()
		TryAcquirePermit() bool
		ReleasePermit()
	})
	limiter := rate.NewLimiter(1<<40, 1<<30) // never empty; rate.Inf would be no limiter at all
	adaptive := retry.NewAdaptiveMode()
	success := func() bool { bucket.Answered(retrip.Success, 0); return true }
	retried := func() bool {
		failure := retrip.Failure{Class: retrip.Transient, Cost: 5}
		bucket.Failed(failure)
		if !bucket.Take(ctx, failure) {
			return false
		}
		bucket.Answered(retrip.Success, 5)
		return true
	}
	gate, done := new(retrip.Gate), time.Now()
	gateRetried := func() bool {
		failure := retrip.Failure{Class: retrip.Transient, Attempt: 1, MaxAttempts: 3, Done: done}
		gate.Failed(failure)
		ok := gate.Take(ctx, failure)
		gate.Answered(retrip.Success, 0)
		return ok
	}
	for _, budget := range []struct {
		name, op string
		use, our func() bool
	}{
		{"retrip", "success", success, success},
		{"retrip-gate", "success", func() bool { gate.Answered(retrip.Success, 0); return true }, success},
		{"aws", "success", func() bool { return tokens.AddTokens(1) == nil }, success},
		{"failsafe", "success", func() bool { inFlight.RecordExecution(); inFlight.ReleaseExecution(); return true }, success},
		{"aws-adaptive", "success", func() bool {
			done, err := adaptive.GetAttemptToken(ctx)
			return err == nil && done(nil) == nil
		}, success},
		{"retrip", "retry", retried, retried},
		{"retrip-gate", "retry", gateRetried, retried},
		{"aws", "retry", func() bool {
			release, err := tokens.GetToken(ctx, 5)
			return err == nil && release() == nil
		}, retried},
		{"failsafe", "retry", func() bool {
			inFlight.RecordExecution()
			defer inFlight.ReleaseExecution()
			if !inFlight.TryAcquirePermit() {
				return false
			}
			inFlight.ReleasePermit()
			return true
		}, retried},
		{"x-time-rate", "retry", func() bool { return limiter.Allow() }, retried},
	} {
		for _, procs := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("op=%s/procs=%d/peer=%s", budget.op, procs, budget.name), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				using := func(use func() bool) lane {
					return together(procs, func(int) {
						if !use() {
							b.Error("refused")
						}
					})
				}
				compare(b, nil, using(budget.use), using(func() bool { return true }), using(budget.our))
			})
		}
	}
}
