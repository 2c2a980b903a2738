package retrip

import (
	"encoding/json"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The modes' parameters against their sources.
func TestModes(t *testing.T) {
	const ms, cap = time.Millisecond, 20 * time.Second
	tests := []struct {
		mode               Mode
		name               string
		attempts           int
		backoff, throttled Backoff
		cost, throttleCost int
		limiter, gate      bool
	}{
		{ModeStandard, "standard", 3, FullJitter{100 * ms, cap}, FullJitter{1000 * ms, cap}, 5, 5, false, false},
		{ModeLegacy, "legacy", 4, FullJitter{100 * ms, cap}, EqualJitter{500 * ms, cap}, 5, 0, false, false},
		{ModeAdaptive, "adaptive", 3, FullJitter{100 * ms, cap}, FullJitter{1000 * ms, cap}, 5, 5, true, false},
		{ModeGated, "gated", 3, FullJitter{100 * ms, cap}, FullJitter{1000 * ms, cap}, 5, 5, false, true},
	}
	for _, tt := range tests {
		s := tt.mode.Strategy()
		require.NoError(t, s.check(tt.name))
		require.Equal(t, tt.attempts, s.MaxAttempts)
		require.Equal(t, tt.backoff, s.Backoff)
		require.Equal(t, tt.throttled, s.ThrottleBackoff)
		require.Equal(t, tt.cost, s.Cost)
		require.Equal(t, tt.throttleCost, s.ThrottleCost)
		require.Equal(t, tt.limiter, s.Limiter != nil)
		if _, gate := s.Quota.(*Gate); !tt.gate {
			require.Equal(t, 500, s.tokens())
		} else {
			require.True(t, gate)
		}
		require.Equal(t, time.Minute, s.MaxRetryAfter)
		require.False(t, s.RetryNonIdempotent)
		require.NotSame(t, s.Quota, tt.mode.Strategy().Quota, "each its own state")

		require.Equal(t, tt.name, tt.mode.String())
		var m Mode
		require.NoError(t, m.UnmarshalText([]byte(tt.name)))
		require.Equal(t, tt.mode, m)
	}
	require.Len(t, modes, len(tests))
	require.Error(t, (&Transport{Strategy: Mode(99).Strategy()}).Validate())
}

func TestModeFromOutside(t *testing.T) {
	var fromFlag Mode
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&fromFlag, "mode", ModeStandard, "")
	require.NoError(t, flags.Parse([]string{"-mode", "Adaptive"}))
	require.Equal(t, ModeAdaptive, fromFlag)
	require.ErrorContains(t, flags.Parse([]string{"-mode", "fast"}), `retrip: unknown mode "fast": use one of standard, legacy, adaptive, gated`)
	require.Equal(t, ModeAdaptive, fromFlag, "an error changes nothing")

	var fromJSON struct{ Retry Mode }
	require.NoError(t, json.Unmarshal([]byte(`{"Retry":"legacy"}`), &fromJSON))
	require.Equal(t, ModeLegacy, fromJSON.Retry)
	text, err := json.Marshal(fromJSON)
	require.NoError(t, err)
	require.JSONEq(t, `{"Retry":"legacy"}`, string(text))
	_, err = Mode(99).MarshalText()
	require.Error(t, err)
}

func TestStrategyPrintsItsSettings(t *testing.T) {
	require.Contains(t, Legacy().String(), "\nThrottleBackoff: EqualJitter{Base:500ms Cap:20s}\nQuota: 500 of 500 tokens\n")
	require.Equal(t, "<nil>", (*Strategy)(nil).String())
}

func TestCloneIsFresh(t *testing.T) {
	s := Adaptive()
	require.True(t, s.Quota.(*Bucket).take(100))
	c := s.Clone()
	require.Equal(t, 500, c.tokens())
	require.NotSame(t, s.Limiter, c.Limiter)
	c.Classifiers[0], c.Hints[0] = nil, nil
	require.NotNil(t, s.Classifiers[0])
	require.NotNil(t, s.Hints[0])
}
