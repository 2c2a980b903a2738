package redisquota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// doubts makes the fleet of a quota have so much doubt, in quarters, that is two
// seconds old.
func (m *memory) doubts(q *redisquota.Quota, quarters int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hashes[q.Stats().RedisKey] = &hash{d: quarters, m: 32, late: true, since: time.Now().UnixMilli() - 2000, w: time.Now().UnixMilli() / 10_000}
}

// one is a process, in virtual time, with a server. Its reports come seldom, so that a
// test sees only what is asked.
func one(t *testing.T, test func(t *testing.T, server *memory, fleet *redisquota.Fleet, quota *redisquota.Quota)) {
	synctest.Test(t, func(t *testing.T) {
		server := newMemory()
		fleet := newFleet(t, server, redisquota.Options{Interval: 10 * time.Second})
		test(t, server, fleet, fleet.Quota("api"))
	})
}

// retry fails once, and reports whether a retry may follow and how long that took to say.
func retry(t *testing.T, q *redisquota.Quota) (allowed bool, took time.Duration) {
	f := failure()
	q.Failed(f)
	begun := time.Now()
	return q.Take(t.Context(), f), time.Since(begun)
}

// From six failures of others on, a fleet refuses. What a request added does not count
// against it.
func TestFleetRefusesFromSixFailuresOfOthers(t *testing.T) {
	for before, want := range map[int64]bool{0: true, 20: true, 23: true, 24: false, 28: false} {
		one(t, func(t *testing.T, server *memory, fleet *redisquota.Fleet, quota *redisquota.Quota) {
			server.doubts(quota, before)
			allowed, _ := retry(t, quota)
			require.Equal(t, want, allowed, "%d quarters", before)
			require.Equal(t, before+4 >= 24, quota.Shut(3), "%d quarters", before)
			require.Equal(t, want, fleet.Stats().Refused == 0)
			require.Equal(t, want, quota.Stats().Refused == 0)
			require.False(t, quota.Full())
		})
	}
}

// The process's own gate stops retries, whatever the fleet says, and such a process
// reports no more failures.
func TestOwnGateDecidesFirst(t *testing.T) {
	one(t, func(t *testing.T, server *memory, _ *redisquota.Fleet, quota *redisquota.Quota) {
		for range 4 {
			allowed, _ := retry(t, quota)
			require.True(t, allowed)
			time.Sleep(time.Second)
		}
		require.True(t, quota.Shut(3))
		time.Sleep(time.Minute) // what there is to report is reported
		require.False(t, quota.Full())
		reports := server.evals.Load()
		for range 100 {
			allowed, _ := retry(t, quota)
			require.False(t, allowed)
			time.Sleep(time.Second)
		}
		require.Equal(t, reports, server.evals.Load())
	})
}

// What is known of the fleet is used for a while without Redis, and then no more.
func TestVerdictEnds(t *testing.T) {
	one(t, func(t *testing.T, server *memory, fleet *redisquota.Fleet, quota *redisquota.Quota) {
		server.doubts(quota, 32)
		allowed, _ := retry(t, quota)
		require.False(t, allowed)
		server.kill()
		time.Sleep(20 * time.Second)
		require.True(t, quota.Shut(3))
		time.Sleep(2 * time.Second)
		require.False(t, quota.Shut(3))
		allowed, _ = retry(t, quota)
		require.True(t, allowed)
		synctest.Wait()
		require.True(t, fleet.Stats().Blind)
		time.Sleep(time.Second)
		require.False(t, fleet.Stats().Blind)
	})
}

// After one that waited in vain, no retry waits for a second, and Redis is not asked.
func TestOneRetryWaitsASecond(t *testing.T) {
	one(t, func(t *testing.T, server *memory, fleet *redisquota.Fleet, quota *redisquota.Quota) {
		server.hang()
		var waited []time.Duration
		for _, pause := range []time.Duration{0, 280, 280, 280, 0} { // a run of the script may take 250 ms
			allowed, took := retry(t, quota)
			require.True(t, allowed)
			quota.Answered(retrip.Success, 0) // keeps the gate open
			waited = append(waited, took)
			time.Sleep(pause * time.Millisecond)
		}
		require.Equal(t, []time.Duration{20 * time.Millisecond, 0, 0, 0, 0}, waited)
		require.EqualValues(t, 1, server.evals.Load())
		require.EqualValues(t, 1, fleet.Stats().Blinded)
		time.Sleep(time.Second)
		_, took := retry(t, quota)
		require.Equal(t, 20*time.Millisecond, took)
	})
}

// Timeouts end the fleet's first second. How long other failures took does not count,
// since it is known only if something times attempts.
func TestTimeoutsEndTheFirstSecond(t *testing.T) {
	for name, change := range map[string]func(*retrip.Failure){
		"quick":       func(*retrip.Failure) {},
		"timeout":     func(f *retrip.Failure) { f.Timeout = true },
		"of a second": func(f *retrip.Failure) { f.Sent = f.Done.Add(-time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newMemory()
				allowed := true
				for range 8 {
					quota := newFleet(t, server, redisquota.Options{}).Quota("api")
					f := failure()
					change(&f)
					quota.Failed(f)
					allowed = quota.Take(t.Context(), f)
				}
				require.Equal(t, name != "timeout", allowed)
			})
		})
	}
}

// Most answers of a busy process are sampled. Their number is about right.
func TestSampledAnswers(t *testing.T) {
	one(t, func(t *testing.T, server *memory, _ *redisquota.Fleet, quota *redisquota.Quota) {
		for range 100_000 {
			quota.Answered(retrip.Success, 0)
		}
		time.Sleep(20 * time.Second)
		require.InEpsilon(t, 100_000, server.hashes[quota.Stats().RedisKey].n, 0.05) // its standard error is 1 %
	})
}

// Answers from before the fleet began to doubt take nothing away: of a report, the part
// since then counts.
func TestOldAnswersDoNotCount(t *testing.T) {
	one(t, func(t *testing.T, server *memory, _ *redisquota.Fleet, quota *redisquota.Quota) {
		for range 4 {
			quota.Answered(retrip.Success, 0)
		}
		time.Sleep(4 * time.Second)
		server.doubts(quota, 28) // for two seconds: half of 32 quarters count
		retry(t, quota)
		require.Equal(t, (28.0-16+4)/4, quota.Stats().FleetDoubt)
	})
}
