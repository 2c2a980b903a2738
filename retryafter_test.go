package retrip

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const noHint = -1

var (
	waitHeadersRead = time.Date(2026, 10, 21, 7, 27, 50, 0, time.UTC)
	resetAt         = HintHeader{Name: "X-RateLimit-Reset", Format: EpochSeconds}
)

var waitHeaders = []struct {
	reader HintHeader
	value  string
	date   string
	want   time.Duration
}{
	{retryAfter, "1", "", time.Second},
	{retryAfter, "0", "", 0},
	{retryAfter, " 120 ", "", 2 * time.Minute},
	{retryAfter, "0.5", "", time.Second / 2},
	{retryAfter, "2.", "", 2 * time.Second},
	{retryAfter, "Wed, 21 Oct 2026 07:28:00 GMT", "", 10 * time.Second},
	{retryAfter, "Wednesday, 21-Oct-26 07:28:00 GMT", "", 10 * time.Second},
	{retryAfter, "Wed Oct 21 07:28:00 2026", "", 10 * time.Second},
	{retryAfter, "Wed, 21 Oct 2026 07:27:00 GMT", "", 0},
	{retryAfter, "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:00 GMT", time.Minute}, // by the server's clock
	{retryAfter, "Wed, 21 Oct 2026 07:28:00 GMT", "yesterday", 10 * time.Second},
	{retryAfter, "Fri, 31 Dec 9999 23:59:59 GMT", "", math.MaxInt64},
	{retryAfter, "9223372037", "", math.MaxInt64},
	{retryAfter, "99999999999999999999", "", math.MaxInt64},
	{retryAfter, "-1", "", noHint},
	{retryAfter, "+1", "", noHint},
	{retryAfter, "1e3", "", noHint},
	{retryAfter, "1e400", "", noHint},
	{retryAfter, "NaN", "", noHint},
	{retryAfter, "Inf", "", noHint},
	{retryAfter, "0x10", "", noHint},
	{retryAfter, "1_000", "", noHint},
	{retryAfter, "1.2.3", "", noHint},
	{retryAfter, ".5", "", noHint},
	{retryAfter, ".", "", noHint},
	{retryAfter, "", "", noHint},
	{retryAfter, "soon", "", noHint},
	{retryAfter, "1, 2", "", noHint},
	{retryAfterMS, "1500", "", 1500 * time.Millisecond},
	{retryAfterMS, " 0.25 ", "", 250 * time.Microsecond},
	{retryAfterMS, "Wed, 21 Oct 2026 07:28:00 GMT", "", noHint},
	{msRetryAfterMS, "7", "", 7 * time.Millisecond},
	{resetAt, "1792567680", "", 10 * time.Second},
	{resetAt, "1792567680.5", "", 10*time.Second + time.Second/2},
	{resetAt, "1792567680", "Wed, 21 Oct 2026 07:27:00 GMT", time.Minute}, // by the server's clock
	{resetAt, "60", "", 0},                                                // not a moment but a duration: it is long past
	{resetAt, "99999999999999999999", "", math.MaxInt64 - time.Duration(waitHeadersRead.UnixNano())},
	{resetAt, "-1", "", noHint},
	{resetAt, "Wed, 21 Oct 2026 07:28:00 GMT", "", noHint},
	{amzRetryAfter, "1500", "", 1500 * time.Millisecond},
	{amzRetryAfter, " 1500", "", noHint},
	{amzRetryAfter, "1500.5", "", noHint},
	{amzRetryAfter, "99999999999999999999", "", math.MaxInt64},
}

func TestWaitHeaders(t *testing.T) {
	for _, tt := range waitHeaders {
		resp := &http.Response{Header: http.Header{}}
		resp.Header.Set(tt.reader.Name, tt.value)
		resp.Header.Set("Date", tt.date)
		h, ok := tt.reader.ReadHint(Attempt{Response: resp, Done: waitHeadersRead})
		require.Equal(t, tt.want != noHint, ok, "%s: %q", tt.reader.Name, tt.value)
		if ok {
			require.Equal(t, tt.want, h.Wait, "%s: %q", tt.reader.Name, tt.value)
			require.Equal(t, tt.reader.Name, h.From)
		}
	}
}

func FuzzWaitHeaders(f *testing.F) {
	for _, seed := range []string{"1", "0.5", "-5", "9223372037", "1e400", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed Oct 21 07:28:00 2026"} {
		f.Add(seed, "")
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		for _, reader := range append(Standard().Hints, HintHeader{Name: "X-Reset", Format: EpochSeconds}) {
			resp := &http.Response{Header: http.Header{reader.(HintHeader).Name: {value}, "Date": {date}}}
			if h, ok := reader.ReadHint(Attempt{Response: resp, Done: time.Now()}); ok && h.Wait < 0 {
				t.Fatalf("%v makes a negative wait of %q: %v", reader, value, h.Wait)
			}
		}
	})
}

// Of several Retry-After lines the first counts, be the others longer, shorter
// or nonsense.
func TestFirstOfSeveralRetryAfters(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		want  []time.Duration
	}{
		{[]string{"1", "3600"}, milliseconds(1000, 1000)},
		{[]string{"3600", "1"}, nil},
		{[]string{"-5", "7"}, milliseconds(100, 200)},
		{[]string{"2", "garbage"}, milliseconds(2000, 2000)},
		{[]string{"99999999999999", "0"}, nil},
		{[]string{"", "3600"}, milliseconds(100, 200)},
	} {
		synctest.Test(t, func(t *testing.T) {
			var headers []string
			for _, line := range tt.lines {
				headers = append(headers, "Retry-After: "+line)
			}
			base := script(status(503, headers...))
			_, err := get(t.Context(), &Transport{Base: base, Strategy: longest(Standard())})
			require.NoError(t, err)
			require.Equal(t, tt.want, base.Waits(), tt.lines)
		})
	}
}

// A header that a user names is read in any spelling, and may come on top of
// the backoff.
func TestWaitHeaderOfTheUsersOwn(t *testing.T) {
	for reader, want := range map[HintHeader]time.Duration{
		{Name: "x-wait", Format: Seconds}:                 7 * time.Second,
		{Name: "X-WAIT", Format: Seconds, Additive: true}: 7*time.Second + 100*time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := longest(Standard())
			s.Hints = []HintReader{reader}
			base := script(status(503, "X-Wait: 7"), status(200))
			_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
			require.NoError(t, err)
			require.Equal(t, []time.Duration{want}, base.Waits())
		})
	}
}

func TestServerDirectedWaits(t *testing.T) {
	tests := []struct {
		name    string
		headers []string
		waits   []time.Duration // what passes between attempts; none: given up at once
	}{
		{"longer than the backoff", []string{"Retry-After: 7"}, milliseconds(7000, 7000)},
		{"shorter than the backoff", []string{"Retry-After: 0"}, milliseconds(100, 200)},
		{"above the cap", []string{"Retry-After: 61"}, nil},
		{"the sum above the cap", []string{"Retry-After: 31"}, milliseconds(31000)},
		{"overflowing", []string{"Retry-After: 9223372037"}, nil},
		{"overflowing any integer", []string{"Retry-After: 99999999999999999999999"}, nil},
		{"year 9999", []string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}, nil},
		{"negative", []string{"Retry-After: -1"}, milliseconds(100, 200)},
		{"exponent", []string{"Retry-After: 1e400"}, milliseconds(100, 200)},
		{"garbage", []string{"Retry-After: soon"}, milliseconds(100, 200)},
		{"milliseconds win", []string{"Retry-After: 7", "Retry-After-Ms: 1500.5"}, []time.Duration{1500500 * time.Microsecond, 1500500 * time.Microsecond}},
		{"AWS clamp", []string{"X-Amz-Retry-After: 10000"}, milliseconds(5100, 5200)},
		{"two hundred of them", strings.Split(strings.Repeat("Retry-After: 3\n", 199)+"Retry-After: 3", "\n"), milliseconds(3000, 3000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(status(503, tt.headers...))
				resp, err := get(t.Context(), &Transport{Base: base, Strategy: longest(Standard())})
				require.NoError(t, err)
				require.Equal(t, 503, resp.StatusCode)
				require.Equal(t, tt.waits, base.Waits())
			})
		})
	}
}

func TestHintIsToldWhenItIsWhyWeStop(t *testing.T) {
	ctx, trace := WithTrace(t.Context())
	_, err := get(ctx, &Transport{Base: script(status(429, "Retry-After: 3600"))})
	require.NoError(t, err)
	e := trace.Requests()[0][0]
	require.Equal(t, WaitOverCap, e.Reason)
	require.Equal(t, time.Hour, e.Wait)
	require.Equal(t, "Retry-After", e.WaitFrom)
}
