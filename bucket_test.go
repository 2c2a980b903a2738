package retrip

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBucketTimeline(t *testing.T) {
	b := NewBucket(20)
	rows := []struct {
		give, take int
		ok         bool
		left       int
	}{
		{take: 14, ok: true, left: 6},
		{take: 14, ok: false, left: 6}, // all or nothing
		{take: 5, ok: true, left: 1},
		{take: 0, ok: true, left: 1},
		{take: -3, ok: true, left: 1}, // nothing can be gained by asking
		{give: 1, ok: true, left: 2},
		{give: -1, ok: true, left: 2},
		{give: 14, ok: true, left: 16},
		{give: 14, ok: true, left: 20}, // never above the capacity
		{give: math.MaxInt, ok: true, left: 20},
		{take: 20, ok: true, left: 0},
		{take: 1, ok: false, left: 0},
	}
	for i, row := range rows {
		if row.give != 0 {
			b.give(row.give)
		} else {
			require.Equal(t, row.ok, b.take(row.take), "row %d", i)
		}
		require.Equal(t, row.left, b.Tokens(), "row %d", i)
	}
	require.Equal(t, "0 of 20 tokens", b.String())
}

func TestZeroBucketRefuses(t *testing.T) {
	var b Bucket
	require.False(t, b.take(1))
	require.True(t, b.take(0))
	b.give(5)
	require.Zero(t, b.Tokens())
}

func TestBucketKeepsCount(t *testing.T) {
	b := NewBucket(500)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 100 {
				if b.take(5) {
					taken.Add(5)
				}
				b.give(1)
				taken.Add(-1)
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, b.Tokens(), 0)
	require.LessOrEqual(t, b.Tokens(), 500)
	require.LessOrEqual(t, int64(b.Tokens()), 500-taken.Load(), "some of what was given overflowed")
}

// However many take at once, a bucket gives no token twice.
func TestBucketGivesNoTokenTwice(t *testing.T) {
	capacity := 1 << 23 // a while, so that two meet also where one core is free
	if raceEnabled {
		capacity = 1 << 18
	}
	bucket := NewBucket(capacity)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := int64(0)
			for bucket.take(1) {
				n++
			}
			taken.Add(n)
		})
	}
	wg.Wait()
	require.EqualValues(t, capacity, taken.Load())
}

func TestQuotaIsExactUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.MaxAttempts = 2
		s.Quota = NewBucket(10 * s.Cost)
		base := script(status(503))
		transport := &Transport{Base: base, Strategy: s}
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				resp, err := get(t.Context(), transport)
				assert.NoError(t, err)
				assert.Equal(t, 503, resp.StatusCode)
			})
		}
		wg.Wait()
		require.Len(t, base.Sent(), 1010)
		require.Zero(t, s.tokens())
	})
}

func TestQuotaSpentKeepsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Standard()
		s.Quota = NewBucket(4)
		ctx, trace := WithTrace(t.Context())
		resp, err := get(ctx, &Transport{Base: script(status(503)), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, QuotaExhausted, trace.Requests()[0][0].Reason)

		s.Quota = nil // circuit breaking off
		base := script(status(503))
		_, err = get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 3)
	})
}

func TestStrategiesCanShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewBucket(500)
		transport := &Transport{Base: script(status(503)), PerKey: func(string) *Strategy {
			s := Standard()
			s.Quota = shared
			return s
		}}
		for _, host := range []string{"a", "b"} {
			req := newRequest(t, "GET", nil)
			req.URL.Host = host
			_, err := transport.RoundTrip(req)
			require.NoError(t, err)
		}
		require.Equal(t, 480, shared.Tokens())
	})
}
