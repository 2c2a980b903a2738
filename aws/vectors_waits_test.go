package aws_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

func waited(t *testing.T, s *retrip.Strategy, headers ...string) (wait time.Duration, retried bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503, headers...), status(200))
		_, err := get(t.Context(), &retrip.Transport{Base: base, Strategy: longest(s)})
		require.NoError(t, err)
		if retried = len(base.Sent()) == 2; retried {
			wait = base.Waits()[0]
		}
	})
	return wait, retried
}

// requireWait checks how long s waits if its backoff is a constant.
func requireWait(t *testing.T, name string, s *retrip.Strategy, backoff, want float64, headers ...string) {
	t.Helper()
	s.Backoff, s.MaxRetryAfter = retrip.Constant{Wait: time.Duration(backoff * 1e6)}, 1e4*time.Hour
	wait, retried := waited(t, s, headers...)
	require.True(t, retried, name)
	require.InDelta(t, want, float64(wait)/1e6, 1e-3, name)
}

// seconds reads a number of them, as milliseconds.
func seconds(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return 1000 * n
}

func TestVectorsServerWaitsOfAWS(t *testing.T) {
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
	}
	sdkVectors(t, "retry_after.json", &file)
	for _, row := range file.Amz {
		requireWait(t, "amz "+row.Value, aws.Standard2026(), 50, row.ExpectMS, "X-Amz-Retry-After: "+row.Value)
	}
	for _, row := range file.Clamp {
		requireWait(t, fmt.Sprint("clamp ", row), aws.Standard2026(), row.T, row.Delay, fmt.Sprintf("X-Amz-Retry-After: %d", row.Header))
	}
}

func TestVectorsServerWaitsWithDates(t *testing.T) {
	var file struct {
		HTTPDates []struct {
			Value   string
			Now     time.Time
			DelayMS float64 `json:"delay_ms"`
			Invalid bool
		} `json:"http_dates"`
	}
	sdkVectors(t, "retry_after.json", &file)
	for _, row := range file.HTTPDates {
		want := row.DelayMS
		if _, differ := deliberate["http_dates "+row.Value]; differ {
			want = seconds(t, row.Value)
		} else if row.Invalid {
			want = 0
		}
		requireWait(t, "date "+row.Value, retrip.Standard(), 0, want, "Retry-After: "+row.Value, "Date: "+row.Now.UTC().Format(http.TimeFormat))
	}
}

func TestVectorsServerWaitsOfSDKs(t *testing.T) {
	var file struct {
		SDK []struct {
			SDK, Header, Value string
			SuggestedMS        *float64 `json:"suggested_ms"`
		} `json:"sdk_headers"`
	}
	sdkVectors(t, "retry_after.json", &file)
	for _, row := range file.SDK {
		var s *retrip.Strategy
		switch row.SDK {
		case "java_v2 pre-2026 (sync)":
			s = aws.AdaptiveV1()
			s.Limiter = nil
		case "java_v2 2026":
			s = aws.Standard2026()
		case "js_v2 metadata calls":
			requireWait(t, "js_v2", aws.JavaScriptV2(), 100, 100+seconds(t, row.Value), "Retry-After: "+row.Value)
			continue
		default:
			require.True(t, differs("sdk_headers "+row.SDK), "%+v", row)
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
		requireWait(t, fmt.Sprintf("%+v", row), s, 0, *row.SuggestedMS, headers...)
	}
}

// differs reports whether some row that begins so differs deliberately.
func differs(prefix string) bool {
	for name := range deliberate {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
