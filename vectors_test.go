package retrip

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The vectors in testdata/vectors collect what the SDKs' own tests and sources
// say. Those of the presets run in package aws.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

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
				s := Standard()
				s.Backoff = Constant{}
				base := script()
				var signed []float64
				transport := &Transport{Base: base, Strategy: s, Prepare: func(_ *http.Request, p PrepareInfo) error {
					signed = append(signed, time.Since(epoch).Seconds()+p.Skew.Seconds())
					return nil
				}}
				offset := func() float64 {
					req := newRequest(t, "GET", nil)
					return entryOf(transport, req).skew.offset().Seconds()
				}
				_, err := transport.RoundTrip(&http.Request{}) // so that the settings are read
				require.Error(t, err)
				if before := v.Ops[0].Before; before != 0 {
					entryOf(transport, newRequest(t, "GET", nil)).skew.store(time.Duration(before * 1e9))
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
