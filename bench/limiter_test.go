package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/retrip-go/retrip"
	"golang.org/x/time/rate"
)

// What sleeps here sleeps in real time: it is benchmarks of what limiters do and
// take while time passes, those of others too, and these measure by the clock.

// throttled returns an adaptive strategy that counts every attempt, for requests
// sent one after the other, and makes none wait. There is no setting for that,
// so it takes a throttle in the middle of as much as can be sent before it: the
// rate is cut to 70 % of that, and since counting takes longer than not
// counting, it can't be reached any more. See waited.
func throttled(tb testing.TB) *retrip.Strategy {
	tb.Helper()
	s := retrip.Adaptive()
	s.MaxAttempts = 1
	rt := &retrip.Transport{Base: canned{}, Strategy: s}
	req := newShot(tb, "none", 0).Request
	fastest := time.Hour
	for range 6 { // or until a half second was not disturbed
		for end := nextHalf(); time.Now().Before(end); {
			start := time.Now()
			for range 1000 {
				_, _ = rt.RoundTrip(req)
			}
			fastest = min(fastest, time.Since(start))
		}
		if s.Limiter.State().Measured > 0.7*1000/fastest.Seconds() {
			break
		}
	}
	req.Response = answer(http.StatusTooManyRequests)
	mustAnswer(tb, rt, req, http.StatusTooManyRequests)
	if !s.Limiter.State().Enabled {
		tb.Fatal("the throttle was not heard")
	}
	time.Sleep(time.Second / 4) // for a stock of permits
	return s
}

// waited reports whether the limiter of rt, if it has one, ran out of permits
// all the same. Then the time says nothing.
func waited(rt http.RoundTripper) bool {
	t, ok := rt.(*retrip.Transport)
	if !ok || t.Strategy == nil || t.Strategy.Limiter == nil {
		return false
	}
	s := t.Strategy.Limiter.State()
	return s.Enabled && s.Tokens < s.Burst/100
}

// nextHalf is when the limiters' next half second begins: they measure in those
// of the clock.
func nextHalf() time.Time { return time.Now().Truncate(time.Second / 2).Add(time.Second / 2) }

// A gate lets attempts pass at a rate that it finds out. An attempt waits for
// its turn and then ends as told.
type gate struct {
	name string
	open func() (attempt func(ctx context.Context, throttled bool) error)
}

var gates = []gate{
	{"retrip", func() func(context.Context, bool) error {
		s := retrip.Adaptive()
		s.MaxAttempts = 1
		rt := &retrip.Transport{Strategy: s, Base: tripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == "PUT" {
				return answer(http.StatusTooManyRequests), nil
			}
			return answer(200), nil
		})}
		return slowed(func(ctx context.Context, throttled bool) error {
			req := &http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: "example.com"}, Header: http.Header{}}
			if throttled {
				req.Method = "PUT"
			}
			_, err := rt.RoundTrip(req.WithContext(ctx))
			return err
		})
	}},
	{"aws", func() func(context.Context, bool) error {
		mode := retry.NewAdaptiveMode()
		return slowed(func(ctx context.Context, throttled bool) error {
			done, err := mode.GetAttemptToken(ctx)
			if err != nil {
				return err
			}
			var outcome error
			if throttled {
				outcome = &smithy.GenericAPIError{Code: "ThrottlingException"}
			}
			return done(outcome)
		})
	}},
	{"x-time-rate", func() func(context.Context, bool) error { // for orientation: it is told its rate
		limiter := rate.NewLimiter(100, 1)
		return func(ctx context.Context, _ bool) error { return limiter.Wait(ctx) }
	}},
}

// slowed brings an adaptive limiter to 100 permits a second, and from there it
// goes up slowly: 0.7·0.8·(89 attempts in a half second).
func slowed(attempt func(context.Context, bool) error) func(context.Context, bool) error {
	time.Sleep(time.Until(nextHalf())) // the half second that is measured
	for range 89 {
		_ = attempt(context.Background(), false)
	}
	time.Sleep(time.Until(nextHalf())) // in which it is taken note of
	_ = attempt(context.Background(), true)
	return attempt
}

// BenchmarkQueue is what a permit costs where many wait for one, all the time,
// in processor time; and what it costs when they all give up at once.
func BenchmarkQueue(b *testing.B) {
	for _, waiters := range []int{100, 1000, 10_000} {
		for _, g := range gates {
			b.Run(fmt.Sprintf("waiters=%d/peer=%s", waiters, g.name), func(b *testing.B) {
				attempt := g.open()
				ctx, cancel := context.WithCancel(context.Background())
				var (
					wg     sync.WaitGroup
					served atomic.Int64
				)
				for range waiters {
					wg.Go(func() {
						for attempt(ctx, false) == nil {
							served.Add(1)
						}
					})
				}
				time.Sleep(time.Second / 2) // until they stand in line
				var (
					permits int64
					cpu     time.Duration
				)
				for b.Loop() {
					permits -= served.Load()
					cpu -= processorTime(b)
					time.Sleep(time.Second) // the measurement
					cpu += processorTime(b)
					permits += served.Load()
				}
				gaveUp := time.Now()
				cancel()
				wg.Wait()
				b.ReportMetric(float64(time.Since(gaveUp))/float64(waiters), "leave-ns/waiter")
				b.ReportMetric(float64(cpu)/float64(permits), "cpu-ns/permit")
				b.ReportMetric(float64(permits)/float64(b.N), "permits/s")
				b.ReportMetric(0, "ns/op") // which is the length of the measurement
			})
		}
	}
}

// processorTime is what this process has used so far.
func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
