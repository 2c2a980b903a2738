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
	offset := func() (skew float64) {
		for k := range transport.Keys() {
			skew += k.Skew.Seconds() // there is one host
		}
		return skew
	}
	if before := v.Ops[0].Before; before != 0 {
		base.Begin(testkit.Exchange(0, &before, 200, nil))
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
	}
	for _, op := range v.Ops {
		require.InDelta(t, op.Before, offset(), 1e-9)
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
		require.InDelta(t, op.After, offset(), 1e-9)
	}
}
