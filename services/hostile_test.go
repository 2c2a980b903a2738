package services_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/services"
)

// Whatever a service says, a request is not sent sooner than our own backoff
// wants it, not later than the cap, and not more often than thrice.
func TestHostileAnswersStayInBounds(t *testing.T) {
	headers := []string{
		"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-RateLimit-Reset", "X-RateLimit-Reset-After",
		"X-Rate-Limit-Reset", "RateLimit-Reset", "RateLimit", "X-RateLimit-Remaining", "X-Should-Retry", "Date", "Age",
	}
	values := []string{
		"-1", "0", "NaN", "Inf", "-Inf", "1e400", "1e-400", "0x10", "9223372036", "9223372037", "99999999999999999999", "-9223372036854775808",
		"946684799", "253402300799", "253402300800000", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "2000-01-01T00:00:05Z", "6m0s",
		`"a";r=0;t=999999999999999`, `"a";r=0;t=-1`, `"a";r=0;t=5;`, strings.Repeat(`"a";r=0;t=1,`, 999), strings.Repeat(`((((`, 999), "\x00\xff", "",
	}
	bodies := []string{
		`{"retry_after": -1}`, `{"retry_after": 1e400}`, `{"retry_after": 1e18}`, `{"retry_after": 1e-400}`, `{"retry_after": NaN}`, `{"retry_after": [1]}`,
		`{"retry_after": 0}`, `{"retry_after": 9223372036.854775807}`, `{"retry_after": 5`, `[5]`, `5`, `null`, `{"error": null, "message": 5, "type": {}}`, `{"error": "rate_limited"}`,
		`{"message": "secondary rate limit", "message": null}`, `{"error": {"details": []}}`, "\xff", `{"retry_after": ` + strings.Repeat("9", 60000) + `}`,
		strings.Repeat(`[`, 60000), strings.Repeat(`{"error":`, 7000), `{"retry_after": ` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
	}
	var answers []answer
	for _, status := range []int{429, 503} {
		for _, name := range headers {
			for _, value := range values {
				lines := name + ": " + value
				if name != "X-RateLimit-Remaining" {
					lines += "\nX-RateLimit-Remaining: 0"
				}
				if name == "Date" {
					lines += "\nX-RateLimit-Reset: 946684810\nX-Rate-Limit-Reset: 946684810\nRateLimit-Reset: 946684810"
				}
				answers = append(answers, answer{status: status, header: lines})
			}
		}
		for _, body := range bodies {
			answers = append(answers, answer{status: status, body: body},
				answer{status: status, body: body, header: "Content-Type: application/problem+json"})
		}
	}
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, a := range answers {
					s := table.make()
					s.ThrottleBackoff = s.Backoff
					o := send(t, s, a, a, a)
					text := fmt.Sprintf("%d %.80q %.80q", a.status, a.header, a.body)
					require.LessOrEqual(t, len(o.Sent()), 3, text)
					var sum time.Duration
					for i, wait := range o.Waits() {
						require.GreaterOrEqual(t, wait, 100*ms<<i, text)
						sum += wait
					}
					require.LessOrEqual(t, sum, s.MaxRetryAfter+sec, text)
					for _, e := range o.events {
						require.GreaterOrEqual(t, e.Wait, time.Duration(0), text)
					}
				}
			})
		})
	}
}

// Whatever is in the body, retry_after is what encoding/json makes of it, in
// seconds.
func FuzzBodyWait(f *testing.F) {
	for _, seed := range []string{
		`{"retry_after": 64.57}`, `{"retry_after":1e400}`, `{"retry_after":-0.0}`, `{"retry_after":null,"retry_after":2}`,
		`{"Retry_After":1}`, `{"retry_after":-1}`, `{"a":[{"retry_after":3}]}`, `[]`, `{"retry_after":1}x`, ` {"retry\u005fafter":1E2}`,
	} {
		f.Add([]byte(seed))
	}
	reader := services.Discord().Hints[0]
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 64<<10 {
			return // more is never looked at
		}
		h, ok := reader.ReadHint(retrip.Attempt{Response: &http.Response{StatusCode: 429, Header: http.Header{}}, Body: body})

		var document any
		decoder := json.NewDecoder(strings.NewReader(string(body)))
		decoder.UseNumber()
		if decoder.Decode(&document) != nil || decoder.More() || !json.Valid(body) {
			document = nil
		}
		object, _ := document.(map[string]any)
		number, isNumber := object["retry_after"].(json.Number)
		n, err := number.Float64()
		if want := isNumber && err == nil && n >= 0; want != ok {
			t.Fatalf("found %v, want %v: %q", ok, want, body)
		}
		if !ok {
			return
		}
		if want := min(n*1e9, math.MaxInt64); h.Wait < 0 || math.Abs(float64(h.Wait)-want) > 1+want/1e15 {
			t.Fatalf("waits %v, want %v ns: %q", h.Wait, want, body)
		}
	})
}
