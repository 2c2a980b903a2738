package retrip

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// The vectors in testdata/vectors collect what the SDKs' own tests and sources
// say. Those of the presets run in package aws.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	testkit.ReadJSON(t, filepath.Join("testdata", "vectors", name), into)
}

// A skewVector is a client's requests and what each leaves of the clock.
type skewVector struct {
	ID  string
	Ops []struct {
		Before   float64 `json:"client_skew_before"`
		After    float64 `json:"client_skew_after"`
		Outcome  string
		Attempts []skewAttempt
	}
}

type skewAttempt struct {
	Send, Recv float64
	SignAt     float64 `json:"sign_at"`
	Status     int
	Date, Age  *float64
	Code, IO   string
}

func (a skewAttempt) play() step {
	if a.IO != "" {
		return func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Duration((a.Recv - a.Send) * 1e9))
			return nil, errReset
		}
	}
	headers := map[string]string{"X-Amzn-Errortype": a.Code}
	if a.Age != nil {
		headers["Age"] = fmt.Sprint(*a.Age)
	}
	return testkit.Exchange(a.Recv-a.Send, a.Date, a.Status, headers)
}

func TestVectorsClockSkewSequences(t *testing.T) {
	var file struct {
		Vectors []skewVector `json:"sep_vectors"`
	}
	vectors(t, "clock_skew.json", &file)
	for _, v := range file.Vectors {
		t.Run(v.ID, func(t *testing.T) {
			synctest.Test(t, v.play)
		})
	}
}

func (v skewVector) play(t *testing.T) {
	base := script()
	var signed []float64
	transport := &Transport{Base: base, Strategy: noWait(tokens(500)), Prepare: func(_ *http.Request, p PrepareInfo) error {
		signed = append(signed, time.Since(testkit.Epoch).Seconds()+p.Skew.Seconds())
		return nil
	}}
	clock := func() *skew {
		return &transport.keys.find(HostKey(newRequest(t, "GET", nil)), transport.newEntry).skew
	}
	_, err := transport.RoundTrip(&http.Request{}) // so that the settings are read
	require.Error(t, err)
	if before := v.Ops[0].Before; before != 0 {
		clock().store(time.Duration(before * 1e9))
	}
	for _, op := range v.Ops {
		require.InDelta(t, op.Before, clock().offset().Seconds(), 1e-9)
		var steps []step
		for _, a := range op.Attempts {
			steps = append(steps, a.play())
		}
		base.Begin(steps...)
		signed = nil
		time.Sleep(time.Until(testkit.Epoch.Add(time.Duration(op.Attempts[0].Send * 1e9))))
		resp, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, op.Outcome == "success", resp.StatusCode < 400)
		require.Len(t, signed, len(op.Attempts))
		for i, a := range op.Attempts {
			require.InDelta(t, a.SignAt, signed[i], 1e-9, "attempt %d", i+1)
		}
		require.InDelta(t, op.After, clock().offset().Seconds(), 1e-9)
	}
}

const nearly = 1e-9 // how close a number is to the published one

// A limiterStep is what happens to a limiter at a time, and what it shows then.
type limiterStep struct {
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

// requireRates compares the rates after an update.
func (s limiterStep) requireRates(t *testing.T, l *Limiter, where string) {
	t.Helper()
	got := l.State()
	require.InDelta(t, s.Measured, got.Measured, nearly, where)
	require.InDelta(t, s.Fill, got.Rate, nearly, where)
	require.InDelta(t, s.Max, got.Burst, nearly, where)
}

// A cubicCurve is how a rate recovers from a throttle.
type cubicCurve struct {
	Max  float64 `json:"last_max_rate"`
	At   float64 `json:"last_throttle_time"`
	Rows []limiterStep
}

// limiter returns one that was throttled as the curve says.
func (c cubicCurve) limiter() *Limiter {
	l := new(Limiter)
	l.throttledFrom(c.Max, second(c.At))
	return l
}

func TestVectorsAdaptiveCurve(t *testing.T) {
	var file struct {
		Success       cubicCurve `json:"cubic_success"`
		Mixed         cubicCurve `json:"cubic_mixed"`
		ThrottleFirst cubicCurve `json:"cubic_throttle_first"`
		ZeroPoint     []struct {
			WMax float64 `json:"w_max"`
			K    float64
		} `json:"zero_point"`
	}
	vectors(t, "adaptive.json", &file)
	l := file.Success.limiter()
	for _, r := range file.Success.Rows {
		require.InDelta(t, r.Calculated, l.curve(second(r.T)), nearly)
	}
	// Driven by hand, as its note says: what is throttled is the last rate.
	l = file.Mixed.limiter()
	for _, r := range file.Mixed.Rows {
		if r.Throttled {
			l.rate *= beta
			l.throttledFrom(l.rate, second(r.T))
		} else {
			l.rate = l.curve(second(r.T))
		}
		require.InDelta(t, r.Calculated, l.rate, nearly)
	}
	for _, r := range file.ThrottleFirst.Rows {
		l := limiterAt(0)
		l.update(second(r.T), true)
		require.InDelta(t, r.Calculated, beta*l.State().Measured, 1e-8, "published with 8 decimals")
	}
	for _, r := range file.ZeroPoint {
		l.throttledFrom(r.WMax, 0)
		require.InDelta(t, r.K, l.recovery, nearly)
	}
}

func TestVectorsAdaptiveUpdates(t *testing.T) {
	var file struct {
		UpdateRows  []limiterStep `json:"update_rows"`
		RateClocker []struct {
			ID       string
			Times    []float64
			Measured []float64
		} `json:"rate_clocker"`
	}
	vectors(t, "adaptive.json", &file)
	l := limiterAt(0)
	for _, r := range file.UpdateRows {
		l.update(second(r.T), r.Throttled)
		where := fmt.Sprintf("t=%v", r.T)
		r.requireRates(t, l, where)
		require.Equal(t, r.Enabled, l.State().Enabled, where)
	}
	for _, c := range file.RateClocker {
		l := limiterAt(0)
		for i, at := range c.Times {
			l.count(second(at))
			require.InDelta(t, c.Measured[i], l.State().Measured, nearly, "%s %d", c.ID, i)
		}
	}
}

func TestVectorsAdaptiveSequences(t *testing.T) {
	var file struct {
		Sequences []struct {
			ID     string
			Start  float64
			Events []limiterStep
		} `json:"acquire_sequences"`
	}
	vectors(t, "adaptive.json", &file)
	for _, seq := range file.Sequences {
		l := limiterAt(seq.Start)
		for i, e := range seq.Events {
			where := fmt.Sprint(seq.ID, " ", i)
			switch e.Op {
			case "update":
				l.update(second(e.T), e.Throttled)
				e.requireRates(t, l, where)
			case "acquire":
				_, p := l.admit(second(e.T), false)
				require.Equal(t, e.Granted, p == nil, where)
				if p != nil {
					_, wait := l.turn(p, second(e.T))
					require.InDelta(t, e.Wait, wait.Seconds(), 2*nearly, where)
					l.leave(p)
				}
			default:
				t.Fatalf("%s: %q?", seq.ID, e.Op)
			}
			require.InDelta(t, e.Capacity, l.State().Tokens, nearly, where)
		}
	}
}
