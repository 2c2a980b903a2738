package aws_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/services"
)

// The vectors in testdata/vectors collect what the SDKs' own tests and sources
// say. Each row runs through RoundTrip in virtual time with the jitter pinned;
// a row on which we mean to differ stands here with the reason.
var deliberate = map[string]string{
	// Java draws whole milliseconds below the ceiling, we draw up to it: 1 ms.
	"backoff java_v2_full":                  "jitter is continuous",
	"backoff jitter_article_aws_claim":      "gives no numbers of its own",
	"backoff oss_go_v2_equal_jitter_option": "gives no numbers of its own",

	// RFC 9110 knows no fractions, services send them (Shopify's "2.0").
	"http_dates 1.5": "fractions of a second are read",

	// A server that asks for 292 years gets no retry, not an immediate one.
	"sdk_headers java_v2 pre-2026 (sync) 9223372036854775807": "a wait above the cap ends the request",
	"sdk_headers java_v2 pre-2026 (async) 1":                  "the asynchronous client looked at no header; ours is one client",

	// Not presets of ours.
	"sdk_headers smithy_typescript":  "no preset: its modes are those of 2026, clamp included",
	"sdk_headers go_v1":              "no preset",
	"sdk_headers smithy_rs pre-2026": "no preset",
	"sdk_headers alibaba openapi go": "no preset: the header's unit is that service's own",
}

func sdkVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

// ---- Quota and backoff scenarios

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

func TestVectorsQuota(t *testing.T) {
	var file struct {
		ParamSets map[string]json.RawMessage `json:"param_sets"`
		Scenarios []struct {
			ID, Params  string
			Over        json.RawMessage
			StartQuota  *int `json:"start_quota"`
			LongPolling bool `json:"long_polling"`
			Ops         [][]quotaAttempt
		}
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
	// The sets that are presets of ours, which must then be the same thing.
	presets := map[string]func() *retrip.Strategy{
		"std2026": aws.Standard2026, "std2026_dynamodb": aws.Standard2026DynamoDB,
		"java2_standard_pre2026": retrip.Standard, "java2_legacy": retrip.Legacy,
	}
	for _, sc := range file.Scenarios {
		var p quotaParams
		load(sc.Params, &p)
		if sc.Over != nil {
			require.NoError(t, json.Unmarshal(sc.Over, &p))
		}
		run := func(name string, s *retrip.Strategy, bucket *retrip.Bucket) {
			t.Run(sc.ID+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if sc.StartQuota != nil {
						bucket.Take(t.Context(), retrip.Failure{Cost: bucket.Tokens() - *sc.StartQuota})
					}
					for _, attempts := range sc.Ops {
						playQuota(t, s, bucket, attempts, sc.LongPolling)
					}
				})
			})
		}
		s, bucket := strategyOf(p)
		run("set by fields", s, bucket)
		var over map[string]any
		if sc.Over != nil {
			require.NoError(t, json.Unmarshal(sc.Over, &over))
		}
		delete(over, "capacity")
		delete(over, "max_attempts")
		if preset := presets[sc.Params]; preset != nil && len(over) == 0 { // else it is no longer the preset
			s := longest(preset())
			if sc.Over != nil {
				s.MaxAttempts = *p.MaxAttempts
			}
			if strings.HasPrefix(sc.Params, "java2") {
				s.Hints = []retrip.HintReader{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds}} // ours read more
			}
			s.MaxRetryAfter = time.Hour // the SDKs have no cap
			bucket := retrip.NewBucket(*p.Capacity)
			s.Quota = bucket
			run("preset", s, bucket)
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
			until = base.sent()[i+1]
		}
		want := 0.0
		if a.DelayMS != nil {
			want = *a.DelayMS
		}
		require.InDelta(t, want, float64(until.Sub(base.sent()[i]))/1e6, 1e-3, "attempt %d", i+1)
	}
}

// ---- Backoff algorithms

func backoffOf(id string) retrip.Backoff {
	const ms, s, cap = time.Millisecond, time.Second, 20 * time.Second
	exponential := func(f func(n int) time.Duration) retrip.Backoff {
		return retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return f(r.Index), true })
	}
	jittered := func(f func(n int, dice float64) time.Duration) retrip.Backoff {
		return retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) { return f(r.Index, r.Rand), true })
	}
	switch id {
	case "std2026_transient":
		return aws.Standard2026().Backoff
	case "std2026_throttling":
		return aws.Standard2026().ThrottleBackoff
	case "std2026_dynamodb_transient":
		return aws.Standard2026DynamoDB().Backoff
	case "botocore_standard_pre2026", "smithy_rs_2.0":
		return retrip.FullJitter{Base: s, Cap: cap}
	case "smithy_ts_pre2026_transient":
		return retrip.FullJitter{Base: 100 * ms, Cap: cap}
	case "smithy_ts_pre2026_throttling":
		return retrip.FullJitter{Base: 500 * ms, Cap: cap}
	case "php_v2_pre2026":
		return retrip.CapAfterJitter{Base: 2 * s, Cap: cap}
	case "php_legacy":
		return retrip.FullJitter{Base: 100 * ms, Cap: cap}
	case "java_v2_full":
		return retrip.Standard().Backoff
	case "java_v2_legacy_throttling_half":
		return retrip.Legacy().ThrottleBackoff
	case "java_v1_full":
		return aws.JavaV1().Backoff
	case "java_v1_equal_throttling":
		return aws.JavaV1().ThrottleBackoff
	case "java_v1_dynamodb":
		return aws.JavaV1DynamoDB().Backoff
	case "java_v1_before_2016":
		return retrip.Exponential{Base: 300 * ms, Cap: cap}
	case "js_v2":
		return aws.JavaScriptV2().Backoff
	case "js_v2_dynamodb":
		return aws.JavaScriptV2DynamoDB().Backoff
	case "js_v2_metadata_calls_old":
		return retrip.FullJitter{Base: 200 * ms}
	case "botocore_legacy":
		return aws.Botocore("").Backoff
	case "botocore_legacy_dynamodb":
		return aws.Botocore("dynamodb").Backoff
	case "kms_page_pseudocode":
		return services.AlibabaKMS().Backoff
	case "kms_page_java":
		return services.AlibabaKMSJava().Backoff
	case "jitter_article_full":
		return retrip.FullJitter{Base: 100 * ms, Cap: 10 * s}
	case "jitter_article_equal":
		return retrip.EqualJitter{Base: 100 * ms, Cap: 10 * s}
	case "jitter_article_decorrelated":
		return retrip.DecorrelatedJitter{Base: 100 * ms, Cap: 10 * s}
	case "oss_go_v2":
		return retrip.FullJitter{Base: 800 * ms, Cap: cap}

	// What no type of ours computes is a function away.
	case "go_v2_pre2026":
		return jittered(func(n int, dice float64) time.Duration {
			if n >= 4 {
				return cap
			}
			return fraction(s<<(n+1), dice)
		})
	case "go_v1_default":
		return jittered(func(n int, dice float64) time.Duration { return (30*ms + fraction(30*ms, dice)) << n })
	case "go_v1_throttling":
		return jittered(func(n int, dice float64) time.Duration { return (500*ms + fraction(500*ms, dice)) << n })
	case "tea_legacy_GetBackoffTime":
		return jittered(func(n int, dice float64) time.Duration { return fraction(s<<(n+1)-2*s, dice) })
	case "dara_exponential_1.5.3+":
		return exponential(func(n int) time.Duration { return 200 * ms << n })
	case "dara_exponential_until_1.5.2":
		return exponential(func(n int) time.Duration { return ms << (5 * (n + 1)) })
	}
	return nil
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
		backoff := backoffOf(alg.ID)
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
				require.Len(t, base.waits(), len(low))
				for i, wait := range base.waits() {
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

// ---- Server-directed waits

func waited(t *testing.T, s *retrip.Strategy, headers ...string) (wait time.Duration, retried bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503, headers...), status(200))
		_, err := get(t.Context(), &retrip.Transport{Base: base, Strategy: longest(s)})
		require.NoError(t, err)
		if retried = len(base.sent()) == 2; retried {
			wait = base.waits()[0]
		}
	})
	return wait, retried
}

func TestVectorsServerWaits(t *testing.T) {
	var file struct {
		Amz []struct {
			Value    string
			ExpectMS float64 `json:"expect_ms"`
		} `json:"x_amz_retry_after"`
		Clamp []struct {
			T      float64 `json:"t_ms"`
			Header int64   `json:"header_ms"`
			Delay  float64 `json:"delay_ms"`
		}
		HTTPDates []struct {
			Value   string
			Now     time.Time
			DelayMS float64 `json:"delay_ms"`
			Invalid bool
		} `json:"http_dates"`
		SDK []struct {
			SDK, Header, Value string
			SuggestedMS        *float64 `json:"suggested_ms"`
		} `json:"sdk_headers"`
	}
	sdkVectors(t, "retry_after.json", &file)
	with := func(own float64, s *retrip.Strategy) *retrip.Strategy {
		s.Backoff, s.MaxRetryAfter = retrip.Constant{Wait: time.Duration(own * 1e6)}, 1e4*time.Hour
		return s
	}
	check := func(name string, s *retrip.Strategy, want float64, headers ...string) {
		t.Helper()
		wait, retried := waited(t, s, headers...)
		require.True(t, retried, name)
		require.InDelta(t, want, float64(wait)/1e6, 1e-3, name)
	}
	for _, row := range file.Amz {
		check("amz "+row.Value, with(50, aws.Standard2026()), row.ExpectMS, "X-Amz-Retry-After: "+row.Value)
	}
	for _, row := range file.Clamp {
		check(fmt.Sprint("clamp ", row), with(row.T, aws.Standard2026()), row.Delay, fmt.Sprintf("X-Amz-Retry-After: %d", row.Header))
	}
	for _, row := range file.HTTPDates {
		want := row.DelayMS
		if _, differ := deliberate["http_dates "+row.Value]; differ {
			seconds, err := strconv.ParseFloat(row.Value, 64)
			require.NoError(t, err)
			want = 1000 * seconds
		} else if row.Invalid {
			want = 0
		}
		check("date "+row.Value, with(0, retrip.Standard()), want, "Retry-After: "+row.Value, "Date: "+row.Now.UTC().Format(http.TimeFormat))
	}
	for _, row := range file.SDK {
		var s *retrip.Strategy
		switch row.SDK {
		case "java_v2 pre-2026 (sync)":
			s = aws.AdaptiveV1()
			s.Limiter = nil
		case "java_v2 2026":
			s = aws.Standard2026()
		case "js_v2 metadata calls":
			seconds, err := strconv.ParseFloat(row.Value, 64)
			require.NoError(t, err)
			check("js_v2", with(100, aws.JavaScriptV2()), 100+1000*seconds, "Retry-After: "+row.Value)
			continue
		}
		if s == nil {
			found := false
			for name := range deliberate {
				found = found || strings.HasPrefix(name, "sdk_headers "+row.SDK)
			}
			require.True(t, found, "%+v", row)
			continue
		}
		if _, differ := deliberate["sdk_headers "+row.SDK+" "+row.Value]; differ {
			_, retried := waited(t, s, row.Header+": "+row.Value)
			require.False(t, retried)
			continue
		}
		var headers []string
		names, values := strings.Split(row.Header, " + "), strings.Split(row.Value, " / ")
		for i := range names {
			headers = append(headers, names[i]+": "+values[i])
		}
		check(fmt.Sprintf("%+v", row), with(0, s), *row.SuggestedMS, headers...)
	}
}

// ---- Clock skew

// exchange answers with a status and code after a while, with a Date.
func exchange(took, date float64, hasDate bool, code int, name string, age string) step {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(time.Duration(took * 1e9))
		var headers []string
		if hasDate {
			headers = append(headers, "Date: "+epoch.Add(time.Duration(date*1e9)).UTC().Format(http.TimeFormat))
		}
		if name != "" {
			headers = append(headers, "X-Amzn-Errortype: "+name)
		}
		if age != "" {
			headers = append(headers, "Age: "+age)
		}
		resp, err := status(code, headers...)(req)
		resp.TLS = &tls.ConnectionState{} // the clock is measured over TLS only
		return resp, err
	}
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where virtual time begins

func TestVectorsClockSkewDecisions(t *testing.T) {
	var file struct {
		Classify []struct {
			Code      string
			Signed    float64  `json:"attempt_skew_s"`
			Candidate *float64 `json:"candidate_skew_s"`
			Retry     bool     `json:"retry_as_skew"`
		}
	}
	sdkVectors(t, "clock_skew.json", &file)
	for _, row := range file.Classify {
		synctest.Test(t, func(t *testing.T) {
			var candidate float64
			if row.Candidate != nil {
				candidate = *row.Candidate
			}
			base := script(
				exchange(0, row.Signed, true, 200, "", ""), // so that the next attempt is signed with this offset
				exchange(0, candidate, row.Candidate != nil, 403, row.Code, ""),
				exchange(0, candidate, true, 200, "", ""),
			)
			s := aws.Standard2026()
			s.Backoff = retrip.Constant{}
			transport := &retrip.Transport{Base: base, Strategy: s, Prepare: func(*http.Request, retrip.PrepareInfo) error { return nil }}
			for range 2 {
				_, err := get(t.Context(), transport)
				require.NoError(t, err)
			}
			require.Equal(t, row.Retry, len(base.sent()) == 3, "%+v", row)
		})
	}
}

// ---- Codes, statuses and errors

func TestVectorsErrorCodes(t *testing.T) {
	var file struct {
		Codes map[string]struct{ Class, Vendor string }
		Sets  map[string]struct {
			Throttling []string
			Transient  []string
			Retryable  []string
			ClockSkew  []string `json:"clock_skew"`
			Definite   []string `json:"clock_skew_definite"`
		} `json:"sdk_sets"`
		Statuses []map[string]any
		IO       []struct {
			Error string
			GoV2  string `json:"go_v2"`
		}
	}
	sdkVectors(t, "error_codes.json", &file)
	classes := map[string]retrip.Class{
		"throttling": retrip.Throttled, "transient": retrip.Transient, "none": retrip.Permanent,
		"clock_skew_if_skewed": retrip.Permanent, // the clocks agree here; see the clock skew vectors
	}
	for code, row := range file.Codes {
		modes := []func() *retrip.Strategy{retrip.Standard, retrip.Legacy, retrip.Adaptive, aws.Standard2026, aws.Adaptive2026}
		if row.Vendor == "alibaba" {
			modes = []func() *retrip.Strategy{services.AlibabaKMS, services.AlibabaKMSJava}
		}
		for _, mode := range modes {
			require.Equal(t, classes[row.Class], classOf(t, mode(), status(400, "X-Amzn-Errortype: "+code)), code)
		}
	}
	require.Equal(t, retrip.Throttled, classOf(t, aws.Standard2026(), jsonError(503, "SlowDown")), "a code beats a status")

	sets := map[string]func() *retrip.Strategy{"aws2026": aws.Standard2026, "java_v2": aws.AdaptiveV1, "java_v1": aws.JavaV1, "js_v2": aws.JavaScriptV2}
	for name, preset := range sets {
		set := file.Sets[name]
		for _, code := range set.Throttling {
			require.Equal(t, retrip.Throttled, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
		}
		retryable := append(append(set.Transient, set.Retryable...), set.Definite...)
		if name == "java_v1" {
			retryable = append(retryable, set.ClockSkew...)
		}
		for _, code := range retryable {
			switch code {
			case "NetworkingError", "TimeoutError", "CRC32CheckFailed": // the SDK's own names, not the server's
				continue
			}
			require.Equal(t, retrip.Transient, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
		}
		listed := map[string]bool{}
		for _, code := range append(append(retryable, set.Throttling...), set.ClockSkew...) {
			listed[code] = true
		}
		for code := range file.Codes {
			if !listed[code] {
				require.Equal(t, retrip.Permanent, classOf(t, preset(), jsonError(400, code)), "%s does not know %s", name, code)
			}
		}
	}

	columns := map[string]func() *retrip.Strategy{
		"aws2026": aws.Standard2026, "java_v2": aws.AdaptiveV1, "js_v2": aws.JavaScriptV2,
		"botocore_legacy": func() *retrip.Strategy { return aws.Botocore("") }, "java_v1": aws.JavaV1,
	}
	for _, row := range file.Statuses {
		code := int(row["status"].(float64))
		for column, preset := range columns {
			word, ok := row[column].(string)
			if !ok {
				continue
			}
			got := classOf(t, preset(), status(code))
			switch {
			case strings.HasPrefix(word, "none"), word == "by code only", word == "possible clock skew", strings.HasPrefix(word, "redirect"):
				require.Contains(t, []retrip.Class{retrip.Permanent, retrip.Success}, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "throttling"):
				require.Equal(t, retrip.Throttled, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "transient"), strings.HasPrefix(word, "retry"):
				require.Contains(t, []retrip.Class{retrip.Transient, retrip.Throttled}, got, "%s: %d", column, code)
			default:
				t.Fatalf("%s: %d: %q?", column, code, word)
			}
		}
	}

	errs := map[string]error{
		"connection reset by peer (read or write)": socketerr.ConnReset,
		"connection refused":                       &net.OpError{Op: "dial", Err: socketerr.ConnRefused},
		"broken pipe":                              socketerr.BrokenPipe,
		"use of closed network connection":         net.ErrClosed,
		"DNS temporary (SERVFAIL, timeout)":        &net.DNSError{IsTemporary: true},
		"connect timeout":                          &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"attempt timeout (SDK's own)":              &retrip.AttemptTimeoutError{After: time.Second},
		"HTTP/2 GOAWAY / REFUSED_STREAM":           http2StreamError{Code: 7},
		"EOF":                                      io.EOF,
		"read timeout":                             os.ErrDeadlineExceeded,
		"unexpected EOF":                           io.ErrUnexpectedEOF,
	}
	for _, row := range file.IO {
		err, ok := errs[row.Error]
		switch {
		case ok:
			require.Equal(t, retrip.Transient, classOf(t, aws.Standard2026(), fails(err)), row.Error)
		case strings.HasPrefix(row.Error, "caller cancelled"):
			ctx, cancel := context.WithCancel(t.Context())
			base := script(func(*http.Request) (*http.Response, error) { cancel(); return nil, context.Canceled })
			_, err := get(ctx, &retrip.Transport{Base: base})
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, base.sent(), 1)
		case strings.HasPrefix(row.Error, "response body truncated"):
			base := script(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: io.NopCloser(iotestErr{})}, nil
			})
			_, err := get(t.Context(), &retrip.Transport{Base: base})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Len(t, base.sent(), 1)
		default:
			t.Errorf("no error for %q", row.Error)
		}
	}
}

// http2StreamError has the shape of net/http's own.
type http2StreamError struct {
	StreamID, Code uint32
	Cause          error
}

func (e http2StreamError) Error() string { return "REFUSED_STREAM" }

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// ---- Error bodies

func TestVectorsErrorBodies(t *testing.T) {
	type sample struct {
		ID, Protocol, Op string
		Status           int
		Body             string
		Headers          map[string]string
		Expect           *string
	}
	var file struct{ Samples, Alibaba []sample }
	sdkVectors(t, "error_body.json", &file)
	for _, row := range append(file.Samples, file.Alibaba...) {
		t.Run(row.ID, func(t *testing.T) {
			contentType := "application/x-amz-json-1.1"
			switch {
			case row.Headers["Content-Type"] != "":
				contentType = row.Headers["Content-Type"]
			case strings.HasPrefix(row.Body, "<html"):
				contentType = "text/html"
			case row.Protocol == "restXml":
				contentType = "application/xml"
			case row.Protocol == "awsQuery", row.Protocol == "ec2Query", strings.HasPrefix(row.Body, "<"):
				contentType = "text/xml; charset=utf-8"
			}
			headers := []string{"Content-Type: " + contentType}
			for name, value := range row.Headers {
				headers = append(headers, name+": "+value)
			}
			var code string
			s := aws.Standard2026()
			s.MaxAttempts = 1
			s.Classifiers = append([]retrip.Classifier{retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
				if a.Body != nil || a.Code != "" {
					code = a.Code
				}
				return retrip.Unknown
			})}, s.Classifiers...)
			ctx, trace := retrip.WithTrace(t.Context())
			req := s3Request(t, row.Op).WithContext(ctx)
			resp, err := (&retrip.Transport{Base: script(answer(row.Status, row.Body, headers...)), Strategy: s}).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, row.Body, string(body))

			class := trace.Requests()[0][0].Class
			switch {
			case row.Expect != nil && *row.Expect == "SUCCESS":
				require.Equal(t, retrip.Success, class)
			case row.Status/100 == 2:
				require.Contains(t, []retrip.Class{retrip.Transient, retrip.Throttled}, class, "like a 500")
			case row.Expect == nil:
				require.Empty(t, code)
			default:
				require.Equal(t, *row.Expect, code)
			}
		})
	}
}

func s3Request(t *testing.T, op string) *http.Request {
	t.Helper()
	method, target := "POST", "https://service.us-east-1.amazonaws.com/"
	const bucket = "https://bucket.s3.us-east-1.amazonaws.com"
	switch op {
	case "ListBuckets":
		method, target = "GET", "https://s3.us-east-1.amazonaws.com/?x-id=ListBuckets"
	case "HeadBucket":
		method, target = "HEAD", bucket
	case "CopyObject":
		method, target = "PUT", bucket+"/key?x-id=CopyObject"
	case "CompleteMultipartUpload":
		target = bucket + "/key?uploadId=1"
	case "UploadPartCopy":
		method, target = "PUT", bucket+"/key?partNumber=1&uploadId=1"
	case "ListObjectsV2":
		method, target = "GET", bucket+"/?list-type=2"
	case "ListObjects":
		method, target = "GET", bucket+"/?prefix=a"
	case "ListParts":
		method, target = "GET", bucket+"/key?uploadId=1"
	case "GetBucketLocation":
		method, target = "GET", bucket+"/?location"
	case "GetBucketPolicy":
		method, target = "GET", bucket+"/?policy"
	case "GetObjectTorrent":
		method, target = "GET", bucket+"/key?torrent"
	case "SelectObjectContent":
		target = bucket + "/key?select&select-type=2"
	case "CreateMultipartUpload":
		target = bucket + "/key?uploads"
	case "PutObject", "PutObjectTagging", "UploadPart":
		method, target = "PUT", bucket+"/key?x-id="+op
	case "DeleteObjects":
		target = bucket + "/?delete"
	case "GetObject":
		method, target = "GET", bucket+"/key?x-id=GetObject"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, nil)
	require.NoError(t, err)
	return req
}

// ---- Adaptive
