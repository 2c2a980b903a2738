package aws_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/services"
)

const ms, sec, top = time.Millisecond, time.Second, 20 * time.Second // top is the cap of most

// backoffs are the algorithms of the vectors.
var backoffs = map[string]retrip.Backoff{
	"std2026_transient":              aws.Standard2026().Backoff,
	"std2026_throttling":             aws.Standard2026().ThrottleBackoff,
	"std2026_dynamodb_transient":     aws.Standard2026DynamoDB().Backoff,
	"botocore_standard_pre2026":      retrip.FullJitter{Base: sec, Cap: top},
	"smithy_rs_2.0":                  retrip.FullJitter{Base: sec, Cap: top},
	"smithy_ts_pre2026_transient":    retrip.FullJitter{Base: 100 * ms, Cap: top},
	"smithy_ts_pre2026_throttling":   retrip.FullJitter{Base: 500 * ms, Cap: top},
	"php_v2_pre2026":                 retrip.CapAfterJitter{Base: 2 * sec, Cap: top},
	"php_legacy":                     retrip.FullJitter{Base: 100 * ms, Cap: top},
	"java_v2_full":                   retrip.Standard().Backoff,
	"java_v2_legacy_throttling_half": retrip.Legacy().ThrottleBackoff,
	"java_v1_full":                   aws.JavaV1().Backoff,
	"java_v1_equal_throttling":       aws.JavaV1().ThrottleBackoff,
	"java_v1_dynamodb":               aws.JavaV1DynamoDB().Backoff,
	"java_v1_before_2016":            retrip.Exponential{Base: 300 * ms, Cap: top},
	"js_v2":                          aws.JavaScriptV2().Backoff,
	"js_v2_dynamodb":                 aws.JavaScriptV2DynamoDB().Backoff,
	"js_v2_metadata_calls_old":       retrip.FullJitter{Base: 200 * ms},
	"botocore_legacy":                aws.Botocore("").Backoff,
	"botocore_legacy_dynamodb":       aws.Botocore("dynamodb").Backoff,
	"kms_page_pseudocode":            services.AlibabaKMS().Backoff,
	"kms_page_java":                  services.AlibabaKMSJava().Backoff,
	"jitter_article_full":            retrip.FullJitter{Base: 100 * ms, Cap: 10 * sec},
	"jitter_article_equal":           retrip.EqualJitter{Base: 100 * ms, Cap: 10 * sec},
	"jitter_article_decorrelated":    retrip.DecorrelatedJitter{Base: 100 * ms, Cap: 10 * sec},
	"oss_go_v2":                      retrip.FullJitter{Base: 800 * ms, Cap: top},

	// What no type of ours computes is a function away.
	"go_v2_pre2026": jittered(func(n int, dice float64) time.Duration {
		if n >= 4 {
			return top
		}
		return fraction(sec<<(n+1), dice)
	}),
	"go_v1_default":                jittered(func(n int, dice float64) time.Duration { return (30*ms + fraction(30*ms, dice)) << n }),
	"go_v1_throttling":             jittered(func(n int, dice float64) time.Duration { return (500*ms + fraction(500*ms, dice)) << n }),
	"tea_legacy_GetBackoffTime":    jittered(func(n int, dice float64) time.Duration { return fraction(sec<<(n+1)-2*sec, dice) }),
	"dara_exponential_1.5.3+":      exponential(func(n int) time.Duration { return 200 * ms << n }),
	"dara_exponential_until_1.5.2": exponential(func(n int) time.Duration { return ms << (5 * (n + 1)) }),
}

// exponential is a backoff without jitter.
func exponential(f func(n int) time.Duration) retrip.Backoff {
	return retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return f(r.Index), true })
}

// jittered is a backoff with the dice of the strategy.
func jittered(f func(n int, dice float64) time.Duration) retrip.Backoff {
	return retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return f(r.Index, r.Rand), true })
}

func fraction(d time.Duration, dice float64) time.Duration { return time.Duration(dice * float64(d)) }

func TestVectorsBackoff(t *testing.T) {
	var file struct {
		Algorithms []struct {
			ID    string
			MaxMS []float64       `json:"max_ms"`
			MinMS json.RawMessage `json:"min_ms"`
		}
	}
	sdkVectors(t, "backoff.json", &file)
	for _, alg := range file.Algorithms {
		if len(alg.MaxMS) == 0 {
			require.Contains(t, deliberate, "backoff "+alg.ID)
			continue
		}
		tolerance := 1e-3
		if _, ok := deliberate["backoff "+alg.ID]; ok {
			tolerance = 1 // a millisecond
		}
		low := make([]float64, len(alg.MaxMS))
		if len(alg.MinMS) > 0 && json.Unmarshal(alg.MinMS, &low) != nil {
			var all float64
			require.NoError(t, json.Unmarshal(alg.MinMS, &all))
			for i := range low {
				low[i] = all
			}
		}
		backoff := backoffs[alg.ID]
		require.NotNil(t, backoff, alg.ID)
		for _, dice := range []float64{0, 0.25, 0.5, 0.9, 1} {
			if dice != 0 && dice != 1 && !even(backoff) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s := retrip.Standard()
				s.Quota, s.ThrottleBackoff, s.MaxAttempts = nil, nil, len(low)+1
				s.Backoff = backoff
				s.Rand = func() float64 { return dice }
				base := script(status(503))
				_, err := get(t.Context(), &retrip.Transport{Base: base, Strategy: s})
				require.NoError(t, err)
				require.Len(t, base.Waits(), len(low))
				for i, wait := range base.Waits() {
					want := low[i] + dice*(alg.MaxMS[i]-low[i])
					require.InDelta(t, want, float64(wait)/1e6, tolerance, "%s, dice %v, retry %d", alg.ID, dice, i)
				}
			})
		}
	}
}

// even reports whether all waits of a backoff between the smallest and the largest
// are equally likely: it draws after the cap, and from no wait before.
func even(b retrip.Backoff) bool {
	switch b.(type) {
	case retrip.CapAfterJitter, retrip.DecorrelatedJitter:
		return false
	}
	return true
}
