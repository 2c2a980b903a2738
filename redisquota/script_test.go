package redisquota_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// An engine runs the script at a time in milliseconds.
type engine func(t *testing.T, now int64, args [5]int64) []int64

// The script does what simulations say of it, in every history, also where the server's
// clock is set back.
func TestScriptAgreesWithItsModel(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		agrees(t, func(t *testing.T) engine {
			m := miniredis.RunT(t)
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			script := rueidis.NewLuaScript(redisquota.Script)
			return func(t *testing.T, now int64, args [5]int64) []int64 {
				m.SetTime(time.UnixMilli(now))
				return run(t, client, script, args[:]...)
			}
		})
	})
	withServers(t, func(t *testing.T, program string) {
		client := serve(t, program).client()
		// A server's clock can't be set: the script gets the time as arguments.
		script := strings.Replace(redisquota.Script, "redis.call('TIME')", "{ARGV[6], ARGV[7]}", 1)
		require.NotEqual(t, redisquota.Script, script)
		clocked := rueidis.NewLuaScript(script)
		agrees(t, func(t *testing.T) engine {
			do(t, client, "DEL", "key")
			return func(t *testing.T, now int64, args [5]int64) []int64 {
				return run(t, client, clocked, append(args[:], now/1000, now%1000*1000+rand.Int64N(1000))...)
			}
		})
	})
}

func run(t *testing.T, client rueidis.Client, script *rueidis.Lua, args ...int64) []int64 {
	var words []string
	for _, n := range args {
		words = append(words, strconv.FormatInt(n, 10))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := script.Exec(ctx, client, []string{"key"}, words).AsIntSlice()
	require.NoError(t, err)
	return reply
}

// agrees compares an engine with the model in histories of chance.
func agrees(t *testing.T, fresh func(*testing.T) engine) {
	histories := 50
	if raceEnabled {
		histories = 10
	}
	for seed := range histories {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		engine, model := fresh(t), newMemory()
		now := int64(1_700_000_000_000) + random.Int64N(20_000)
		var past []string
		for range 100 {
			now += clockStep(random)
			args := someEvidence(random)
			past = append(past, fmt.Sprint(now, args))
			require.Equal(t, model.eval("key", now, args), engine(t, now, args), "seed %d: %q", seed, past)
		}
	}
}

func clockStep(random *rand.Rand) int64 {
	switch random.IntN(10) {
	case 0:
		return -random.Int64N(30_000)
	case 1:
		return random.Int64N(30_000)
	case 2:
		return 0
	}
	return random.Int64N(500)
}

func someEvidence(random *rand.Rand) [5]int64 {
	most := []int64{1, 3, 30, 3000}[random.IntN(4)]
	answers, failures := random.Int64N(most), random.Int64N(most)
	adds := int64(0)
	if failures > 0 {
		adds = random.Int64N(8 * failures)
	}
	return [5]int64{answers, failures, adds, random.Int64N(5) / 4, 1 + random.Int64N(1000)}
}

// What is kept for a dependency is small, and gone a minute after the last report.
func TestScriptKeepsLittle(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		client := serve(t, program).client()
		run(t, client, rueidis.NewLuaScript(redisquota.Script), 1000, 1000, 8000, 1, 500)
		left, err := do(t, client, "PTTL", "key").AsInt64()
		require.NoError(t, err)
		require.InDelta(t, 60_000, left, 5000)
		bytes, err := do(t, client, "MEMORY", "USAGE", "key").AsInt64()
		require.NoError(t, err)
		t.Logf("%d bytes", bytes)
		require.Less(t, bytes, int64(300))
	})
}

// The script takes the server less than 20 µs.
func TestScriptIsQuick(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		client := serve(t, program).client()
		script := rueidis.NewLuaScript(redisquota.Script)
		for range 3000 {
			run(t, client, script, 1, 1, 4, 0, 500)
		}
		info, err := do(t, client, "INFO", "commandstats").ToString()
		require.NoError(t, err)
		_, stats, _ := strings.Cut(info, "cmdstat_evalsha:")
		_, text, _ := strings.Cut(stats, "usec_per_call=")
		text, _, _ = strings.Cut(text, ",")
		perCall, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		t.Logf("%v µs", perCall)
		require.Less(t, perCall, 200.0) // ten times the bar: this machine may be busy
	})
}
