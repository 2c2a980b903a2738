package aws_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/testkit"
)

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
			agreed := new(float64)
			if row.Candidate != nil {
				agreed = row.Candidate
			}
			base := script(
				testkit.Exchange(0, &row.Signed, 200, nil), // so that the next attempt is signed with this offset
				testkit.Exchange(0, row.Candidate, 403, map[string]string{"X-Amzn-Errortype": row.Code}),
				testkit.Exchange(0, agreed, 200, nil),
			)
			s := aws.Standard2026()
			s.Backoff = retrip.Constant{}
			transport := &retrip.Transport{Base: base, Strategy: s, Prepare: func(*http.Request, retrip.PrepareInfo) error { return nil }}
			for range 2 {
				_, err := get(t.Context(), transport)
				require.NoError(t, err)
			}
			require.Equal(t, row.Retry, len(base.Sent()) == 3, "%+v", row)
		})
	}
}
