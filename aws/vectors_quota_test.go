package aws_test

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/socketerr"
)

type quotaParams struct {
	Inherits      string
	Capacity      *int
	Cost          *int
	ThrottleCost  *int            `json:"throttle_cost"`
	TimeoutCost   *int            `json:"timeout_cost"`
	BaseMS        *int            `json:"base_ms"`
	ThrottleMS    *int            `json:"throttle_base_ms"`
	MaxBackoffMS  *int            `json:"max_backoff_ms"`
	FirstExponent *int            `json:"first_exponent"`
	MaxAttempts   *int            `json:"max_attempts"`
	Jitter        *string         `json:"throttle_jitter"`
	RetrySuccess  *string         `json:"retry_success"`
	LongPoll      *bool           `json:"long_poll_sleep_on_empty"`
	RetryAfter    json.RawMessage `json:"retry_after"`
	Cap           *string
}

// strategyOf makes a strategy by setting fields, which is how a user reaches
// what has no preset.
func strategyOf(p quotaParams) (*retrip.Strategy, *retrip.Bucket) {
	s := aws.Standard2026()
	bucket := retrip.NewBucket(*p.Capacity)
	s.Quota, s.MaxRetryAfter = bucket, time.Hour // the SDKs have no cap
	s.Cost, s.ThrottleCost, s.TimeoutCost, s.MaxAttempts = *p.Cost, *p.ThrottleCost, *p.TimeoutCost, *p.MaxAttempts
	top := time.Duration(*p.MaxBackoffMS) * time.Millisecond
	first := time.Duration(*p.BaseMS<<*p.FirstExponent) * time.Millisecond
	s.Backoff = retrip.FullJitter{Base: first, Cap: max(top, first)}
	throttled := time.Duration(*p.ThrottleMS<<*p.FirstExponent) * time.Millisecond
	s.ThrottleBackoff = retrip.FullJitter{Base: throttled, Cap: max(top, throttled)}
	if p.Jitter != nil {
		s.ThrottleBackoff = retrip.EqualJitter{Base: throttled, Cap: top}
	}
	if *p.RetrySuccess == "last_cost_plus_1" {
		s.Quota = oneMore{bucket}
	}
	if !*p.LongPoll {
		s.LongPoll = nil
	}
	switch rule := string(p.RetryAfter); {
	case rule == "null":
		s.Hints = nil
	case strings.Contains(rule, "Retry-After seconds"):
		s.Hints = []retrip.HintReader{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds}}
	}
	return longest(s), bucket
}

// oneMore is the quota of aws-sdk-go-v2 before 2026: every success adds 1, also
// on top of what a retry gets back.
type oneMore struct{ *retrip.Bucket }

func (q oneMore) Answered(class retrip.Class, cost int) {
	if cost > 0 {
		cost++
	}
	q.Bucket.Answered(class, cost)
}

type quotaAttempt struct {
	Status     int
	Code, IO   string
	Amz        *string `json:"x_amz_retry_after"`
	RetryAfter *string `json:"retry_after"`
	Outcome    string
	Quota      int
	DelayMS    *float64 `json:"delay_ms"`
}

func (a quotaAttempt) play() step {
	switch a.IO {
	case "reset":
		return fails(&net.OpError{Op: "read", Err: socketerr.ConnReset})
	case "timeout":
		return fails(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})
	}
	var headers []string
	if a.Amz != nil {
		headers = append(headers, "X-Amz-Retry-After: "+*a.Amz)
	}
	if a.RetryAfter != nil {
		headers = append(headers, "Retry-After: "+*a.RetryAfter)
	}
	if a.Code != "" {
		headers = append(headers, "X-Amzn-Errortype: "+a.Code)
	}
	return status(a.Status, headers...)
}

// A quotaScenario is a client's requests under a set of parameters.
type quotaScenario struct {
	ID, Params  string
	Over        json.RawMessage // parameters that differ from the set's
	StartQuota  *int            `json:"start_quota"`
	LongPolling bool            `json:"long_polling"`
	Ops         [][]quotaAttempt
}

func (sc quotaScenario) play(t *testing.T, s *retrip.Strategy, bucket *retrip.Bucket) {
	synctest.Test(t, func(t *testing.T) {
		if sc.StartQuota != nil {
			bucket.Take(t.Context(), retrip.Failure{Cost: bucket.Tokens() - *sc.StartQuota})
		}
		for _, attempts := range sc.Ops {
			playQuota(t, s, bucket, attempts, sc.LongPolling)
		}
	})
}

// isPreset reports whether the scenario changes at most the capacity and the
// attempts of its set.
func (sc quotaScenario) isPreset(t *testing.T) bool {
	var over map[string]any
	if sc.Over != nil {
		require.NoError(t, json.Unmarshal(sc.Over, &over))
	}
	delete(over, "capacity")
	delete(over, "max_attempts")
	return len(over) == 0
}

// quotaPresets are the sets of parameters for which there is a preset.
var quotaPresets = map[string]func() *retrip.Strategy{
	"std2026": aws.Standard2026, "std2026_dynamodb": aws.Standard2026DynamoDB,
	"java2_standard_pre2026": retrip.Standard, "java2_legacy": retrip.Legacy,
}

// presetOf makes the strategy of a scenario from a preset.
func presetOf(sc quotaScenario, p quotaParams) (*retrip.Strategy, *retrip.Bucket) {
	s := longest(quotaPresets[sc.Params]())
	if sc.Over != nil {
		s.MaxAttempts = *p.MaxAttempts
	}
	if strings.HasPrefix(sc.Params, "java2") {
		s.Hints = []retrip.HintReader{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds}} // ours read more
	}
	bucket := retrip.NewBucket(*p.Capacity)
	s.Quota, s.MaxRetryAfter = bucket, time.Hour // the SDKs have no cap
	return s, bucket
}

func TestVectorsQuota(t *testing.T) {
	var file struct {
		ParamSets map[string]json.RawMessage `json:"param_sets"`
		Scenarios []quotaScenario
	}
	sdkVectors(t, "standard_quota.json", &file)
	var load func(name string, into *quotaParams)
	load = func(name string, into *quotaParams) {
		var own quotaParams
		require.NoError(t, json.Unmarshal(file.ParamSets[name], &own))
		if own.Inherits != "" {
			load(own.Inherits, into)
		}
		require.NoError(t, json.Unmarshal(file.ParamSets[name], into))
	}
	for _, sc := range file.Scenarios {
		var p quotaParams
		load(sc.Params, &p)
		if sc.Over != nil {
			require.NoError(t, json.Unmarshal(sc.Over, &p))
		}
		t.Run(sc.ID+" set by fields", func(t *testing.T) {
			s, bucket := strategyOf(p)
			sc.play(t, s, bucket)
		})
		if quotaPresets[sc.Params] != nil && sc.isPreset(t) {
			t.Run(sc.ID+" preset", func(t *testing.T) {
				s, bucket := presetOf(sc, p)
				sc.play(t, s, bucket)
			})
		}
	}
}

func playQuota(t *testing.T, s *retrip.Strategy, bucket *retrip.Bucket, attempts []quotaAttempt, longPoll bool) {
	var steps []step
	for _, a := range attempts {
		steps = append(steps, a.play())
	}
	base := script(steps...)
	var quota []int
	transport := &retrip.Transport{Base: base, Strategy: s, Observe: func(retrip.Event) { quota = append(quota, bucket.Tokens()) }}
	ctx, trace := retrip.WithTrace(t.Context())
	req := newRequest(t, "GET", nil).WithContext(ctx)
	if longPoll {
		req.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
	}
	_, _ = transport.RoundTrip(req)
	end := time.Now()

	events := trace.Requests()[0]
	require.Len(t, events, len(attempts))
	for i, a := range attempts {
		e := events[i]
		outcome := map[retrip.Reason]string{
			retrip.AttemptsExhausted: "max_attempts", retrip.QuotaExhausted: "quota", retrip.NotRetryable: "not_retryable",
		}[e.Reason]
		switch {
		case !e.Final:
			outcome = "retry"
		case e.Class == retrip.Success:
			outcome = "success"
		}
		require.Equal(t, a.Outcome, outcome, "attempt %d", i+1)
		require.Equal(t, a.Quota, quota[i], "attempt %d", i+1)
		until := end
		if !e.Final {
			until = base.Sent()[i+1].At
		}
		want := 0.0
		if a.DelayMS != nil {
			want = *a.DelayMS
		}
		require.InDelta(t, want, float64(until.Sub(base.Sent()[i].At))/1e6, 1e-3, "attempt %d", i+1)
	}
}
