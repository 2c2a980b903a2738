package retrip

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffs(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		backoff   Backoff
		low, high []time.Duration // with the dice at 0 and at 1, for the first retries
	}{
		{Constant{Wait: 70 * ms}, milliseconds(70, 70, 70), milliseconds(70, 70, 70)},
		{Exponential{100 * ms, 300 * ms}, milliseconds(100, 200, 300, 300), milliseconds(100, 200, 300, 300)},
		{FullJitter{100 * ms, 300 * ms}, milliseconds(0, 0, 0, 0), milliseconds(100, 200, 300, 300)},
		{FullJitter{100 * ms, 0}, milliseconds(0, 0, 0, 0), milliseconds(100, 200, 400, 800)},
		{EqualJitter{100 * ms, 300 * ms}, milliseconds(50, 100, 150, 150), milliseconds(100, 200, 300, 300)},
		{DecorrelatedJitter{100 * ms, 1000 * ms}, milliseconds(100, 100, 100), milliseconds(300, 900, 1000, 1000)},
		{CapAfterJitter{100 * ms, 300 * ms}, milliseconds(0, 0, 0, 0), milliseconds(100, 200, 300, 300)},
	}
	for _, tt := range tests {
		for dice, want := range map[float64][]time.Duration{0: tt.low, 1: tt.high} {
			var prev time.Duration
			for i, d := range want {
				got, ok := tt.backoff.Delay(Retry{Index: i, Prev: prev, Rand: dice})
				require.True(t, ok)
				require.Equal(t, d, got, "%+v, retry %d, dice %v", tt.backoff, i, dice)
				prev = got
			}
		}
	}
	d, _ := CapAfterJitter{100 * ms, 300 * ms}.Delay(Retry{Index: 3, Rand: 0.25})
	require.Equal(t, 200*ms, d, "drawn from 800 ms before the cap of 300 ms")
	d, _ = FullJitter{100 * ms, 300 * ms}.Delay(Retry{Index: 3, Rand: 0.25})
	require.Equal(t, 75*ms, d, "drawn from the cap")
}

// Without a cap, waits grow to the largest Duration and stay there.
func TestWaitsWithoutACapDoNotOverflow(t *testing.T) {
	const base = 100 * time.Millisecond
	for _, backoff := range []Backoff{Exponential{Base: base}, FullJitter{Base: base}, EqualJitter{Base: base}, CapAfterJitter{Base: base}} {
		var prev time.Duration
		for n := range 100 {
			d, ok := backoff.Delay(Retry{Index: n, Rand: 1})
			require.True(t, ok)
			require.GreaterOrEqual(t, d, prev, "%T, retry %d", backoff, n)
			prev = d
		}
		require.Equal(t, time.Duration(math.MaxInt64), prev, "%T", backoff)
	}
}

// Without a Rand of the user's own, all waits up to the ceiling are equally likely.
func TestJitterIsUniform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retries = 4000
		s := Standard()
		s.MaxAttempts, s.Quota, s.Backoff = retries+1, nil, FullJitter{Base: time.Second, Cap: time.Second}
		base := script(status(503))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		var quarters [4]int
		for _, wait := range base.Waits() {
			quarters[min(wait*4/time.Second, 3)]++
		}
		for i, n := range quarters {
			require.InDelta(t, retries/4, n, 250, "quarter %d", i) // nine standard deviations
		}
	})
}

// No retry count, dice or previous wait makes a wait negative or above its cap.
func FuzzBackoffs(f *testing.F) {
	f.Add(int64(time.Second), int64(time.Minute), 3, 0.5, int64(time.Second))
	f.Add(int64(math.MaxInt64), int64(0), 63, 1.0, int64(math.MaxInt64))
	f.Add(int64(1), int64(0), math.MaxInt, math.NaN(), int64(-1))
	f.Fuzz(func(t *testing.T, base, cap int64, n int, dice float64, prev int64) {
		b, c := time.Duration(base), time.Duration(cap)
		for _, backoff := range []Backoff{
			Exponential{b, c}, FullJitter{b, c}, EqualJitter{b, c}, DecorrelatedJitter{b, c}, CapAfterJitter{b, c},
		} {
			if backoff.(interface{ check() error }).check() != nil {
				continue
			}
			d, ok := backoff.Delay(Retry{Index: n, Rand: dice, Prev: time.Duration(prev)})
			if !ok || d < 0 || c > 0 && d > c {
				t.Fatalf("%T%+v waits %v", backoff, backoff, d)
			}
		}
	})
}
