package migrate_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/migrate"
)

// A doubling is a policy with state: 1 s, 2 s, 4 s, … and -1 from the limit on.
// It must be Reset before its first use.
type doubling struct {
	next  time.Duration
	limit time.Duration
	calls int
}

func (d *doubling) Reset() { d.next, d.calls = time.Second, 0 }

func (d *doubling) NextBackOff() time.Duration {
	d.calls++
	now := d.next
	d.next *= 2
	if d.limit > 0 && now > d.limit {
		return -1
	}
	return now
}

func backOff(create func() *doubling, maxElapsed time.Duration) *retrip.Strategy {
	s := retrip.Standard()
	s.MaxAttempts, s.Backoff, s.ThrottleBackoff = 6, migrate.BackOff(create, maxElapsed), nil
	return s
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limit, maxElapsed time.Duration
		waits             []time.Duration
	}{
		"no limits":        {0, 0, seconds(1, 2, 4, 8, 16)},
		"stops":            {4 * time.Second, 0, seconds(1, 2, 4)},
		"stops at once":    {time.Millisecond, 0, nil},
		"elapsed":          {0, 7 * time.Second, seconds(1, 2, 4)},
		"a little before":  {0, 7*time.Second - 1, seconds(1, 2)},
		"elapsed at once":  {0, time.Second - 1, nil},
		"negative is none": {0, -1, seconds(1, 2, 4, 8, 16)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := backOff(func() *doubling { return &doubling{limit: row.limit} }, row.maxElapsed)
			for range 2 { // and again from the beginning
				b, r := call(t, s, get(t), answer{status: 503, body: "last words"})
				require.NoError(t, r.err)
				require.Equal(t, "last words", r.body)
				require.Equal(t, row.waits, b.waits())
			}
		})
	}
}

// One policy for each retry, reset, and asked once for each retry so far.
func TestBackOffIsFresh(t *testing.T) {
	t.Parallel()
	var made []*doubling
	b := migrate.BackOff(func() *doubling {
		made = append(made, &doubling{next: time.Hour})
		return made[len(made)-1]
	}, 0)
	made = nil // but for the one that showed that there is one
	for i, want := range seconds(1, 2, 4) {
		d, ok := b.Delay(retrip.Retry{Index: i})
		require.True(t, ok)
		require.Equal(t, want, d)
		require.Len(t, made, i+1)
		require.Equal(t, i+1, made[i].calls)
	}
	_, _ = b.Delay(retrip.Retry{Index: 1<<30 - 1})
	require.Equal(t, 1000, made[3].calls)
}

// A die is a policy that draws each wait, and none like the one before.
type die struct{ r *rand.Rand }

func (d die) Reset()                     {}
func (d die) NextBackOff() time.Duration { return time.Duration(d.r.IntN(1000)) }

// Draws differ from retry to retry and from request to request, also when many
// goroutines draw at once.
func TestBackOffDraws(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		seed   uint64
		counts [1000]int
		group  sync.WaitGroup
	)
	b := migrate.BackOff(func() die {
		mu.Lock()
		defer mu.Unlock()
		seed++
		return die{rand.New(rand.NewPCG(seed, 1))}
	}, 0)
	for range 8 {
		group.Go(func() {
			for i := range 1000 {
				d, _ := b.Delay(retrip.Retry{Index: i % 4})
				mu.Lock()
				counts[d]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for d, n := range counts {
		require.Less(t, n, 40, "draws of %d, 8 are expected", d)
	}
}

func TestBackOffRefuses(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func() *doubling{
		"no function":          nil,
		"function without any": func() *doubling { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, backOff(create, 0), "Backoff is nil")
		})
	}
	s := retrip.Standard()
	s.Backoff = migrate.BackOff(func() policy { return nil }, 0)
	refuses(t, s, "Backoff is nil")

	// One that has none later on stops.
	first := true
	b := migrate.BackOff(func() *doubling {
		if first {
			first = false
			return new(doubling)
		}
		return nil
	}, 0)
	_, ok := b.Delay(retrip.Retry{})
	require.False(t, ok)
}

type policy interface {
	NextBackOff() time.Duration
	Reset()
}

func ExampleBackOff() {
	s := retrip.Standard()
	s.MaxAttempts = 5
	// Or backoff.NewExponentialBackOff, backoff.DefaultMaxElapsedTime.
	s.Backoff = migrate.BackOff(func() *doubling { return new(doubling) }, time.Minute)
	s.ThrottleBackoff = nil // the same after throttling
	fmt.Println(s.Backoff)
	for i := range 3 {
		fmt.Println(s.Backoff.Delay(retrip.Retry{Index: i}))
	}
	// Output:
	// a new *migrate_test.doubling for each retry, within 1m0s
	// 1s true
	// 2s true
	// 4s true
}
