package retrip_test

import (
	"fmt"
	"time"

	"github.com/retrip-go/retrip"
)

// A backoff of one's own is a function of its argument.
func ExampleBackoffFunc() {
	s := retrip.Standard()
	s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) {
		return time.Duration(r.Index+1) * time.Second, r.Elapsed < time.Minute
	})
	d, ok := s.Backoff.Delay(retrip.Retry{Index: 2})
	fmt.Println(d, ok)
	// Output: 3s true
}

// delays prints the waits before the first retries, with the middle of the jitter.
func delays(b retrip.Backoff) {
	var r retrip.Retry
	for r.Rand = 0.5; r.Index < 5; r.Index++ {
		d, ok := b.Delay(r)
		if !ok {
			fmt.Println("stop")
			return
		}
		r.Prev, r.Elapsed = d, r.Elapsed+d
		fmt.Print(d, " ")
	}
	fmt.Println()
}

// A type of one's own. It computes, and keeps nothing: one value serves all
// requests. Transport.Validate asks a part with a method Validate.
func ExampleBackoff() {
	s := retrip.Standard()
	s.Backoff, s.ThrottleBackoff = linear{2 * time.Second}, nil
	delays(s.Backoff)
	// Output: 2s 4s 6s 8s 10s
}

// A Retry has everything a delay depends on, so a backoff is tested without a
// clock.
func ExampleRetry() {
	backoff := retrip.FullJitter{Base: time.Second, Cap: 20 * time.Second}
	fmt.Println(backoff.Delay(retrip.Retry{Index: 2, Rand: 0.25}))
	// Output: 1s true
}

func ExampleConstant() {
	delays(retrip.Constant{Wait: 2 * time.Second, Period: 7 * time.Second})
	// Output: 2s 2s 2s stop
}

func ExampleExponential() {
	delays(retrip.Exponential{Base: 100 * time.Millisecond, Cap: time.Second})
	// Output: 100ms 200ms 400ms 800ms 1s
}

func ExampleFullJitter() {
	delays(retrip.FullJitter{Base: 100 * time.Millisecond, Cap: time.Second})
	// Output: 50ms 100ms 200ms 400ms 500ms
}

func ExampleEqualJitter() {
	delays(retrip.EqualJitter{Base: 100 * time.Millisecond, Cap: time.Second})
	// Output: 75ms 150ms 300ms 600ms 750ms
}

func ExampleDecorrelatedJitter() {
	delays(retrip.DecorrelatedJitter{Base: 100 * time.Millisecond, Cap: time.Second})
	// Output: 200ms 350ms 575ms 912.5ms 1s
}

func ExampleCapAfterJitter() {
	delays(retrip.CapAfterJitter{Base: 100 * time.Millisecond, Cap: time.Second})
	// Output: 50ms 100ms 200ms 400ms 800ms
}
