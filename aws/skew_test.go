package aws_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/testkit"
)

// A code that may mean a wrong clock is retried if the clocks differ by enough:
// with the SDK for Java by 4 minutes, with that for Go by more.
func TestLeastSkew(t *testing.T) {
	for _, row := range []struct {
		name   string
		make   func() *retrip.Strategy
		ahead  time.Duration
		resent bool
	}{
		{"Java", aws.AdaptiveV1, 239 * time.Second, false},
		{"Java", aws.AdaptiveV1, 240 * time.Second, true},
		{"Java", aws.AdaptiveV1, -240 * time.Second, true},
		{"Java", aws.AdaptiveV1, 241 * time.Second, true},
		{"Go", aws.Standard2026, 240 * time.Second, false},
		{"Go", aws.Standard2026, -240 * time.Second, false},
		{"Go", aws.Standard2026, 241 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ahead := row.ahead.Seconds()
			base := script(
				testkit.Exchange(0, &ahead, 403, map[string]string{"X-Amzn-Errortype": "InvalidSignatureException"}),
				testkit.Exchange(0, &ahead, 200, nil),
			)
			s := row.make()
			s.Backoff, s.ThrottleBackoff = retrip.Constant{}, nil
			transport := &retrip.Transport{Base: base, Strategy: s, Prepare: func(*http.Request, retrip.PrepareInfo) error { return nil }}
			_, err := get(t.Context(), transport)
			require.NoError(t, err)
			require.Equal(t, row.resent, len(base.Sent()) == 2, "%s, %v", row.name, row.ahead)
		})
	}
}
