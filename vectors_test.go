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
				offset := func() (skew float64) {
					for k := range transport.Keys() {
						skew += k.Skew.Seconds() // there is one host
					}
					return skew
				}
				if before := v.Ops[0].Before; before != 0 {
					base.steps = []step{exchange(0, before, true, 200, "", "")}
					_, err := get(t.Context(), transport)
					require.NoError(t, err)
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
