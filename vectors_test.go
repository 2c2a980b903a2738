package retrip

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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

func vectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
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
func strategyOf(p quotaParams) (*Strategy, *Bucket) {
	s := Standard2026()
	bucket := NewBucket(*p.Capacity)
	s.Quota, s.MaxRetryAfter = bucket, time.Hour // the SDKs have no cap
	s.Cost, s.ThrottleCost, s.TimeoutCost, s.MaxAttempts = *p.Cost, *p.ThrottleCost, *p.TimeoutCost, *p.MaxAttempts
	top := time.Duration(*p.MaxBackoffMS) * time.Millisecond
	first := time.Duration(*p.BaseMS<<*p.FirstExponent) * time.Millisecond
	s.Backoff = FullJitter{first, max(top, first)}
	throttled := time.Duration(*p.ThrottleMS<<*p.FirstExponent) * time.Millisecond
	s.ThrottleBackoff = FullJitter{throttled, max(top, throttled)}
	if p.Jitter != nil {
		s.ThrottleBackoff = EqualJitter{throttled, top}
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
		s.Hints = []HintReader{HintHeader{Name: "Retry-After", Format: Seconds}}
	}
	return longest(s), bucket
}

// oneMore is the quota of aws-sdk-go-v2 before 2026: every success adds 1, also
// on top of what a retry gets back.
type oneMore struct{ *Bucket }

func (q oneMore) Give(n int) {
	if n > 1 {
		n++
	}
	q.Bucket.Give(n)
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
		return fails(&net.OpError{Op: "read", Err: syscall.ECONNRESET})
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
	vectors(t, "standard_quota.json", &file)
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
	presets := map[string]func() *Strategy{
		"std2026": Standard2026, "std2026_dynamodb": Standard2026DynamoDB,
		"java2_standard_pre2026": Standard, "java2_legacy": Legacy,
	}
	for _, sc := range file.Scenarios {
		var p quotaParams
		load(sc.Params, &p)
		if sc.Over != nil {
			require.NoError(t, json.Unmarshal(sc.Over, &p))
		}
		run := func(name string, s *Strategy, bucket *Bucket) {
			t.Run(sc.ID+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if sc.StartQuota != nil {
						bucket.Take(bucket.Tokens() - *sc.StartQuota)
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
				s.Hints = []HintReader{HintHeader{Name: "Retry-After", Format: Seconds}} // ours read more
			}
			s.MaxRetryAfter = time.Hour // the SDKs have no cap
			bucket := NewBucket(*p.Capacity)
			s.Quota = bucket
			run("preset", s, bucket)
		}
	}
}

func playQuota(t *testing.T, s *Strategy, bucket *Bucket, attempts []quotaAttempt, longPoll bool) {
	var steps []step
	for _, a := range attempts {
		steps = append(steps, a.play())
	}
	base := script(steps...)
	var quota []int
	transport := &Transport{Base: base, Strategy: s, Observe: func(Event) { quota = append(quota, bucket.Tokens()) }}
	ctx, trace := WithTrace(t.Context())
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
		outcome := map[Reason]string{
			AttemptsExhausted: "max_attempts", QuotaExhausted: "quota", NotRetryable: "not_retryable",
		}[e.Reason]
		switch {
		case !e.Final:
			outcome = "retry"
		case e.Class == Success:
			outcome = "success"
		}
		require.Equal(t, a.Outcome, outcome, "attempt %d", i+1)
		require.Equal(t, a.Quota, quota[i], "attempt %d", i+1)
		until := end
		if !e.Final {
			until = base.sent()[i+1].at
		}
		want := 0.0
		if a.DelayMS != nil {
			want = *a.DelayMS
		}
		require.InDelta(t, want, float64(until.Sub(base.sent()[i].at))/1e6, 1e-3, "attempt %d", i+1)
	}
}

// ---- Backoff algorithms

func backoffOf(id string) Backoff {
	const ms, s, cap = time.Millisecond, time.Second, 20 * time.Second
	exponential := func(f func(n int) time.Duration) Backoff {
		return BackoffFunc(func(r Retry) (time.Duration, bool) { return f(r.Index), true })
	}
	jittered := func(f func(n int, dice float64) time.Duration) Backoff {
		return BackoffFunc(func(r Retry) (time.Duration, bool) { return f(r.Index, r.Rand), true })
	}
	switch id {
	case "std2026_transient":
		return Standard2026().Backoff
	case "std2026_throttling":
		return Standard2026().ThrottleBackoff
	case "std2026_dynamodb_transient":
		return Standard2026DynamoDB().Backoff
	case "botocore_standard_pre2026", "smithy_rs_2.0":
		return FullJitter{s, cap}
	case "smithy_ts_pre2026_transient":
		return FullJitter{100 * ms, cap}
	case "smithy_ts_pre2026_throttling":
		return FullJitter{500 * ms, cap}
	case "php_v2_pre2026":
		return CapAfterJitter{2 * s, cap}
	case "php_legacy":
		return FullJitter{100 * ms, cap}
	case "java_v2_full":
		return Standard().Backoff
	case "java_v2_legacy_throttling_half":
		return Legacy().ThrottleBackoff
	case "java_v1_full":
		return JavaV1().Backoff
	case "java_v1_equal_throttling":
		return JavaV1().ThrottleBackoff
	case "java_v1_dynamodb":
		return JavaV1DynamoDB().Backoff
	case "java_v1_before_2016":
		return Exponential{300 * ms, cap}
	case "js_v2":
		return JavaScriptV2().Backoff
	case "js_v2_dynamodb":
		return JavaScriptV2DynamoDB().Backoff
	case "js_v2_metadata_calls_old":
		return FullJitter{Base: 200 * ms}
	case "botocore_legacy":
		return Botocore("").Backoff
	case "botocore_legacy_dynamodb":
		return Botocore("dynamodb").Backoff
	case "kms_page_pseudocode":
		return AlibabaKMS().Backoff
	case "kms_page_java":
		return AlibabaKMSJava().Backoff
	case "jitter_article_full":
		return FullJitter{100 * ms, 10 * s}
	case "jitter_article_equal":
		return EqualJitter{100 * ms, 10 * s}
	case "jitter_article_decorrelated":
		return DecorrelatedJitter{100 * ms, 10 * s}
	case "oss_go_v2":
		return FullJitter{800 * ms, cap}

	// What no type of ours computes is a function away.
	case "go_v2_pre2026":
		return jittered(func(n int, dice float64) time.Duration {
			if n >= 4 {
				return cap
			}
			return scale(s<<(n+1), dice)
		})
	case "go_v1_default":
		return jittered(func(n int, dice float64) time.Duration { return (30*ms + scale(30*ms, dice)) << n })
	case "go_v1_throttling":
		return jittered(func(n int, dice float64) time.Duration { return (500*ms + scale(500*ms, dice)) << n })
	case "tea_legacy_GetBackoffTime":
		return jittered(func(n int, dice float64) time.Duration { return scale(s<<(n+1)-2*s, dice) })
	case "dara_exponential_1.5.3+":
		return exponential(func(n int) time.Duration { return 200 * ms << n })
	case "dara_exponential_until_1.5.2":
		return exponential(func(n int) time.Duration { return ms << (5 * (n + 1)) })
	}
	return nil
}

func TestVectorsBackoff(t *testing.T) {
	var file struct {
		Algorithms []struct {
			ID    string
			MaxMS []float64       `json:"max_ms"`
			MinMS json.RawMessage `json:"min_ms"`
		}
	}
	vectors(t, "backoff.json", &file)
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
		for dice, want := range map[float64][]float64{0: low, 1: alg.MaxMS} {
			synctest.Test(t, func(t *testing.T) {
				s := Standard()
				s.Quota, s.ThrottleBackoff, s.MaxAttempts = nil, nil, len(want)+1
				s.Backoff = backoffOf(alg.ID)
				require.NotNil(t, s.Backoff, alg.ID)
				s.Rand = func() float64 { return dice }
				base := script(status(503))
				_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
				require.NoError(t, err)
				require.Len(t, base.waits(), len(want))
				for i, wait := range base.waits() {
					require.InDelta(t, want[i], float64(wait)/1e6, tolerance, "%s, dice %v, retry %d", alg.ID, dice, i)
				}
			})
		}
	}
}

// ---- Server-directed waits

func waited(t *testing.T, s *Strategy, headers ...string) (wait time.Duration, retried bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503, headers...), status(200))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: longest(s)})
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
	vectors(t, "retry_after.json", &file)
	with := func(own float64, s *Strategy) *Strategy {
		s.Backoff, s.MaxRetryAfter = Constant{Wait: time.Duration(own * 1e6)}, 1e4*time.Hour
		return s
	}
	check := func(name string, s *Strategy, want float64, headers ...string) {
		t.Helper()
		wait, retried := waited(t, s, headers...)
		require.True(t, retried, name)
		require.InDelta(t, want, float64(wait)/1e6, 1e-3, name)
	}
	for _, row := range file.Amz {
		check("amz "+row.Value, with(50, Standard2026()), row.ExpectMS, "X-Amz-Retry-After: "+row.Value)
	}
	for _, row := range file.Clamp {
		check(fmt.Sprint("clamp ", row), with(row.T, Standard2026()), row.Delay, fmt.Sprintf("X-Amz-Retry-After: %d", row.Header))
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
		check("date "+row.Value, with(0, Standard()), want, "Retry-After: "+row.Value, "Date: "+row.Now.UTC().Format(http.TimeFormat))
	}
	for _, row := range file.SDK {
		var s *Strategy
		switch row.SDK {
		case "java_v2 pre-2026 (sync)":
			s = AdaptiveV1()
			s.Limiter = nil
		case "java_v2 2026":
			s = Standard2026()
		case "js_v2 metadata calls":
			seconds, err := strconv.ParseFloat(row.Value, 64)
			require.NoError(t, err)
			check("js_v2", with(100, JavaScriptV2()), 100+1000*seconds, "Retry-After: "+row.Value)
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
		resp.TLS = tlsState
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
	vectors(t, "clock_skew.json", &file)
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
			s := Standard2026()
			s.Backoff = Constant{}
			transport := &Transport{Base: base, Strategy: s, Prepare: func(*http.Request, PrepareInfo) error { return nil }}
			for range 2 {
				_, err := get(t.Context(), transport)
				require.NoError(t, err)
			}
			require.Equal(t, row.Retry, len(base.sent()) == 3, "%+v", row)
		})
	}
}

func TestVectorsClockSkewSequences(t *testing.T) {
	var file struct {
		Vectors []struct {
			ID  string
			Ops []struct {
				Before   float64 `json:"client_skew_before"`
				After    float64 `json:"client_skew_after"`
				Outcome  string
				Attempts []struct {
					Send, Recv float64
					SignAt     float64 `json:"sign_at"`
					Status     int
					Date, Age  *float64
					Code, IO   string
				}
			}
		} `json:"sep_vectors"`
	}
	vectors(t, "clock_skew.json", &file)
	for _, v := range file.Vectors {
		t.Run(v.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Standard2026()
				s.Backoff = Constant{}
				base := script()
				var signed []float64
				transport := &Transport{Base: base, Strategy: s, Prepare: func(_ *http.Request, p PrepareInfo) error {
					signed = append(signed, time.Since(epoch).Seconds()+p.Skew.Seconds())
					return nil
				}}
				offset := func() float64 {
					req := newRequest(t, "GET", nil)
					return transport.keys.find(HostKey(req), transport.newEntry).skew.offset().Seconds()
				}
				_, err := transport.RoundTrip(&http.Request{}) // so that the settings are read
				require.Error(t, err)
				if before := v.Ops[0].Before; before != 0 {
					transport.keys.find("example.com", transport.newEntry).skew.store(time.Duration(before * 1e9))
				}
				for _, op := range v.Ops {
					require.InDelta(t, op.Before, offset(), 1e-9)
					base.steps, base.got, signed = nil, nil, nil
					for _, a := range op.Attempts {
						age, date := "", 0.0
						if a.Age != nil {
							age = fmt.Sprint(*a.Age)
						}
						if a.Date != nil {
							date = *a.Date
						}
						if a.IO != "" {
							took := a.Recv - a.Send
							base.steps = append(base.steps, func(*http.Request) (*http.Response, error) {
								time.Sleep(time.Duration(took * 1e9))
								return nil, errReset
							})
							continue
						}
						base.steps = append(base.steps, exchange(a.Recv-a.Send, date, a.Date != nil, a.Status, a.Code, age))
					}
					time.Sleep(time.Until(epoch.Add(time.Duration(op.Attempts[0].Send * 1e9))))
					resp, err := get(t.Context(), transport)
					require.NoError(t, err)
					require.Equal(t, op.Outcome == "success", resp.StatusCode < 400)
					require.Len(t, signed, len(op.Attempts))
					for i, a := range op.Attempts {
						require.InDelta(t, a.SignAt, signed[i], 1e-9, "attempt %d", i+1)
					}
					require.InDelta(t, op.After, offset(), 1e-9)
				}
			})
		})
	}
}

// ---- Codes, statuses and errors

func classOf(t *testing.T, s *Strategy, play step) Class {
	t.Helper()
	ctx, trace := WithTrace(WithMaxAttempts(t.Context(), 1))
	_, _ = get(ctx, &Transport{Base: script(play), Strategy: s})
	return trace.Requests()[0][0].Class
}

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
	vectors(t, "error_codes.json", &file)
	classes := map[string]Class{
		"throttling": Throttled, "transient": Transient, "none": Permanent,
		"clock_skew_if_skewed": Permanent, // the clocks agree here; see the clock skew vectors
	}
	for code, row := range file.Codes {
		modes := []func() *Strategy{Standard, Legacy, Adaptive, Standard2026, Adaptive2026}
		if row.Vendor == "alibaba" {
			modes = []func() *Strategy{AlibabaKMS, AlibabaKMSJava}
		}
		for _, mode := range modes {
			require.Equal(t, classes[row.Class], classOf(t, mode(), status(400, "X-Amzn-Errortype: "+code)), code)
		}
	}
	require.Equal(t, Throttled, classOf(t, Standard2026(), jsonError(503, "SlowDown")), "a code beats a status")

	sets := map[string]func() *Strategy{"aws2026": Standard2026, "java_v2": AdaptiveV1, "java_v1": JavaV1, "js_v2": JavaScriptV2}
	for name, preset := range sets {
		set := file.Sets[name]
		for _, code := range set.Throttling {
			require.Equal(t, Throttled, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
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
			require.Equal(t, Transient, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
		}
		listed := map[string]bool{}
		for _, code := range append(append(retryable, set.Throttling...), set.ClockSkew...) {
			listed[code] = true
		}
		for code := range file.Codes {
			if !listed[code] {
				require.Equal(t, Permanent, classOf(t, preset(), jsonError(400, code)), "%s does not know %s", name, code)
			}
		}
	}

	columns := map[string]func() *Strategy{
		"aws2026": Standard2026, "java_v2": AdaptiveV1, "js_v2": JavaScriptV2,
		"botocore_legacy": func() *Strategy { return Botocore("") }, "java_v1": JavaV1,
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
				require.Contains(t, []Class{Permanent, Success}, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "throttling"):
				require.Equal(t, Throttled, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "transient"), strings.HasPrefix(word, "retry"):
				require.Contains(t, []Class{Transient, Throttled}, got, "%s: %d", column, code)
			default:
				t.Fatalf("%s: %d: %q?", column, code, word)
			}
		}
	}

	errs := map[string]error{
		"connection reset by peer (read or write)": syscall.ECONNRESET,
		"connection refused":                       &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"broken pipe":                              syscall.EPIPE,
		"use of closed network connection":         net.ErrClosed,
		"DNS temporary (SERVFAIL, timeout)":        &net.DNSError{IsTemporary: true},
		"connect timeout":                          &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"attempt timeout (SDK's own)":              &AttemptTimeoutError{time.Second},
		"HTTP/2 GOAWAY / REFUSED_STREAM":           http2StreamError{Code: refusedStream},
		"EOF":                                      io.EOF,
		"read timeout":                             os.ErrDeadlineExceeded,
		"unexpected EOF":                           io.ErrUnexpectedEOF,
	}
	for _, row := range file.IO {
		err, ok := errs[row.Error]
		switch {
		case ok:
			require.Equal(t, Transient, classOf(t, Standard2026(), fails(err)), row.Error)
		case strings.HasPrefix(row.Error, "caller cancelled"):
			ctx, cancel := context.WithCancel(t.Context())
			base := script(func(*http.Request) (*http.Response, error) { cancel(); return nil, context.Canceled })
			_, err := get(ctx, &Transport{Base: base})
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, base.sent(), 1)
		case strings.HasPrefix(row.Error, "response body truncated"):
			base := script(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: io.NopCloser(iotestErr{})}, nil
			})
			_, err := get(t.Context(), &Transport{Base: base})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Len(t, base.sent(), 1)
		default:
			t.Errorf("no error for %q", row.Error)
		}
	}
}

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
	vectors(t, "error_body.json", &file)
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
			s := Standard2026()
			s.MaxAttempts = 1
			s.Classifiers = append([]Classifier{ClassifierFunc(func(a Attempt) Class {
				if a.Body != nil || a.Code != "" {
					code = a.Code
				}
				return Unknown
			})}, s.Classifiers...)
			ctx, trace := WithTrace(t.Context())
			req := s3Request(t, row.Op).WithContext(ctx)
			resp, err := (&Transport{Base: script(answer(row.Status, row.Body, headers...)), Strategy: s}).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, row.Body, string(body))

			class := trace.Requests()[0][0].Class
			switch {
			case row.Expect != nil && *row.Expect == "SUCCESS":
				require.Equal(t, Success, class)
			case row.Status/100 == 2:
				require.Contains(t, []Class{Transient, Throttled}, class, "like a 500")
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

func TestVectorsAdaptive(t *testing.T) {
	const near = 1e-9
	type row struct {
		T          float64
		Throttled  bool
		Measured   float64 `json:"measured_tx_rate"`
		Fill       float64 `json:"fill_rate"`
		Calculated float64 `json:"calculated_rate"`
		Max        float64 `json:"max_capacity"`
		Enabled    bool

		Op       string
		Granted  bool
		Wait     float64 `json:"wait_s"`
		Capacity float64
	}
	var file struct {
		CubicSuccess struct {
			Max  float64 `json:"last_max_rate"`
			At   float64 `json:"last_throttle_time"`
			Rows []row
		} `json:"cubic_success"`
		CubicMixed struct {
			Max  float64 `json:"last_max_rate"`
			At   float64 `json:"last_throttle_time"`
			Rows []row
		} `json:"cubic_mixed"`
		ThrottleFirst struct{ Rows []row } `json:"cubic_throttle_first"`
		ZeroPoint     []struct {
			WMax float64 `json:"w_max"`
			K    float64
		} `json:"zero_point"`
		UpdateRows  []row `json:"update_rows"`
		RateClocker []struct {
			ID       string
			Times    []float64
			Measured []float64
		} `json:"rate_clocker"`
		Sequences []struct {
			ID     string
			Start  float64
			Events []row
		} `json:"acquire_sequences"`
	}
	vectors(t, "adaptive.json", &file)

	since := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	l := new(Limiter)
	l.throttledFrom(file.CubicSuccess.Max, since(file.CubicSuccess.At))
	for _, r := range file.CubicSuccess.Rows {
		require.InDelta(t, r.Calculated, l.curve(since(r.T)), near)
	}
	// Driven by hand, as its note says: what is throttled is the last rate.
	l.throttledFrom(file.CubicMixed.Max, since(file.CubicMixed.At))
	for _, r := range file.CubicMixed.Rows {
		if r.Throttled {
			l.rate *= beta
			l.throttledFrom(l.rate, since(r.T))
		} else {
			l.rate = l.curve(since(r.T))
		}
		require.InDelta(t, r.Calculated, l.rate, near)
	}
	for _, r := range file.ThrottleFirst.Rows {
		l := limiterAt(0)
		l.update(second(r.T), true)
		require.InDelta(t, r.Calculated, beta*l.State().Measured, 1e-8, "published with 8 decimals")
	}
	for _, r := range file.ZeroPoint {
		l.throttledFrom(r.WMax, 0)
		require.InDelta(t, r.K, l.recovery, near)
	}
	l = limiterAt(0)
	for _, r := range file.UpdateRows {
		l.update(second(r.T), r.Throttled)
		got := l.State()
		require.InDelta(t, r.Measured, got.Measured, near, "t=%v", r.T)
		require.InDelta(t, r.Fill, got.Rate, near, "t=%v", r.T)
		require.InDelta(t, r.Max, got.Burst, near, "t=%v", r.T)
		require.Equal(t, r.Enabled, got.Enabled, "t=%v", r.T)
	}
	for _, c := range file.RateClocker {
		l := limiterAt(0)
		for i, at := range c.Times {
			l.count(second(at))
			require.InDelta(t, c.Measured[i], l.State().Measured, near, "%s %d", c.ID, i)
		}
	}
	for _, seq := range file.Sequences {
		l := limiterAt(seq.Start)
		for i, e := range seq.Events {
			switch e.Op {
			case "update":
				l.update(second(e.T), e.Throttled)
				require.InDelta(t, e.Measured, l.State().Measured, near, "%s %d", seq.ID, i)
				require.InDelta(t, e.Fill, l.State().Rate, near, "%s %d", seq.ID, i)
				require.InDelta(t, e.Max, l.State().Burst, near, "%s %d", seq.ID, i)
			case "acquire":
				_, p := l.admit(second(e.T), false)
				require.Equal(t, e.Granted, p == nil, "%s %d", seq.ID, i)
				if p != nil {
					_, wait := l.turn(p, second(e.T))
					require.InDelta(t, e.Wait, wait.Seconds(), 2*near, "%s %d", seq.ID, i)
					l.leave(p)
				}
			default:
				t.Fatalf("%s: %q?", seq.ID, e.Op)
			}
			require.InDelta(t, e.Capacity, l.State().Tokens, near, "%s %d", seq.ID, i)
		}
	}
}
