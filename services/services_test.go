package services_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
	"github.com/retrip-go/retrip/services"
)

const (
	post    = http.MethodPost
	withKey = "POST with a key"

	ms        = time.Millisecond
	sec       = time.Second
	transient = retrip.Transient
	throttled = retrip.Throttled
	permanent = retrip.Permanent
)

// A row says what becomes of an answer. Where the retry is called off for its
// wait, wait is what the service asked for.
type row struct {
	answer  answer
	class   retrip.Class
	wait    time.Duration
	retried bool
}

// Most of the answers are the examples of the services' own documentation.
var tables = []struct {
	name string
	make func() *retrip.Strategy
	rows []row
}{
	{"GitHub", services.GitHub, []row{
		// primary: until X-RateLimit-Reset, by the clock of Date
		{answer{status: 403, header: `
			Date: Tue, 20 Aug 2013 15:40:36 GMT
			X-RateLimit-Limit: 60
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: 1377013266`,
			body: `{"message": "API rate limit exceeded for xxx.xxx.xxx.xxx."}`}, throttled, 30 * sec, true},
		{answer{status: 429, header: "Date: Tue, 20 Aug 2013 14:50:41 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1377013266"},
			throttled, 3025 * sec, false}, // above the cap: returned at once
		{answer{method: post, status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684810"}, throttled, 10 * sec, true},
		{answer{status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1"}, throttled, sec, true}, // long past
		{answer{status: 403, header: "X-RateLimit-Remaining: 0"}, throttled, time.Minute, true},
		{answer{status: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684840\nRetry-After: 5"}, throttled, 5 * sec, true},
		// secondary
		{answer{status: 403, header: "X-RateLimit-Remaining: 4987\nX-RateLimit-Reset: 946688400", body: `{
			"documentation_url": "https://docs.github.com/free-pro-team@latest/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits",
			"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`}, throttled, time.Minute, true},
		{answer{method: post, status: 403, body: `{"message": "You have exceeded a secondary rate limit and have been temporarily blocked"}`}, throttled, time.Minute, true},
		{answer{status: 403, body: `{"message": "You have triggered an Abuse Detection mechanism."}`}, throttled, time.Minute, true},
		{answer{status: 403, body: `{"documentation_url": "https://developer.github.com/v3/#abuse-rate-limits"}`}, throttled, time.Minute, true},
		{answer{status: 429, body: `{"message": "You have exceeded a secondary rate limit"}`, header: "Retry-After: 60"}, throttled, time.Minute, true},
		{answer{status: 403, header: "Retry-After: 30", body: `{}`}, throttled, 30 * sec, true},
		{answer{status: 429}, throttled, time.Minute, true},
		// neither
		{answer{status: 403, header: "X-RateLimit-Remaining: 4999\nX-RateLimit-Reset: 946684810",
			body: `{"message": "Resource not accessible by integration", "documentation_url": "https://docs.github.com/rest"}`}, permanent, 0, false},
		{answer{status: 403}, permanent, 0, false},
		{answer{status: 403, body: `{"message": "secondary rate limit"`}, permanent, 0, false}, // cut off
		{answer{status: 404, header: "X-RateLimit-Remaining: 0"}, permanent, 0, false},
		{answer{status: 502, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684810"}, transient, 100 * ms, true},
		{answer{method: post, status: 502}, transient, 0, false},
	}},
	{"GitLab", services.GitLab, []row{
		{answer{status: 429, header: `
			RateLimit-Limit: 60
			RateLimit-Name: throttle_authenticated_web
			RateLimit-Observed: 67
			RateLimit-Remaining: 0
			RateLimit-Reset: 1609844400
			RateLimit-ResetTime: Tue, 05 Jan 2021 11:00:00 GMT
			Retry-After: 30`}, throttled, 30 * sec, true},
		{answer{status: 429, header: "Date: Tue, 05 Jan 2021 10:59:48 GMT\nRateLimit-Reset: 1609844400"}, throttled, 12 * sec, true},
		{answer{method: post, status: 429, header: "RateLimit-Reset: 30"}, throttled, sec, true}, // a span is no moment
		{answer{status: 503, header: "RateLimit-Remaining: 33\nRateLimit-Reset: 946684830"}, transient, 100 * ms, true},
	}},
	{"Azure", services.Azure, []row{
		{answer{status: 429, header: "Retry-After-Ms: 1500\nX-Ms-Retry-After-Ms: 2000\nRetry-After: 3"}, throttled, 1500 * ms, true},
		{answer{status: 503, header: "X-Ms-Retry-After-Ms: 2000\nRetry-After: 3"}, transient, 2 * sec, true},
		{answer{status: 503, header: "Retry-After: 17"}, transient, 17 * sec, true},
		{answer{method: post, status: 429, header: "Retry-After: 3"}, throttled, 3 * sec, true},
		{answer{status: 408}, transient, 100 * ms, true},
		{answer{status: 500}, transient, 100 * ms, true},
		{answer{status: 502}, transient, 100 * ms, true},
		{answer{status: 504}, transient, 100 * ms, true},
		{answer{method: post, status: 500}, transient, 0, false},
		{answer{status: 507}, permanent, 0, false},
		{answer{status: 409}, permanent, 0, false},
		{answer{status: 503, header: "Retry-After: 61"}, transient, 61 * sec, false},
	}},
	{"OpenAI", services.OpenAI, []row{
		{answer{method: post, status: 429, header: "Retry-After-Ms: 1234.5\nRetry-After: 2",
			body: `{"error": {"message": "Rate limit reached", "type": "requests", "param": null, "code": "rate_limit_exceeded"}}`}, throttled, 1234500 * time.Microsecond, true},
		{answer{method: post, status: 503, header: "Retry-After: 1.5"}, transient, 1500 * ms, true},
		{answer{method: post, status: 503, header: "Retry-After: Sat, 01 Jan 2000 00:00:07 GMT"}, transient, 7 * sec, true},
		{answer{method: post, status: 500}, transient, 100 * ms, true},
		{answer{method: post, status: 408}, transient, 100 * ms, true},
		{answer{method: post, status: 409}, transient, 100 * ms, true},
		{answer{method: post, status: 400}, permanent, 0, false},
		{answer{method: post, status: 400, header: "X-Should-Retry: true"}, throttled, sec, true},
		{answer{method: post, status: 501, header: "X-Should-Retry: true"}, transient, 100 * ms, true},
		{answer{method: post, status: 500, header: "X-Should-Retry: false"}, permanent, 0, false},
		{answer{method: post, status: 429, header: "X-Should-Retry: false\nRetry-After: 1"}, permanent, 0, false},
		{answer{method: post, status: 500, header: "X-Should-Retry: perhaps"}, transient, 100 * ms, true},
		{answer{status: 200, header: "X-Should-Retry: true"}, retrip.Success, 0, false},
		{answer{method: post, status: 429, body: `{"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted", "param": null,
			"message": "You exceeded your current quota, please check your plan and billing details."}}`}, permanent, 0, false},
		{answer{method: post, status: 429, body: `{"error": {"type": "insufficient_quota", "code": null}}`}, permanent, 0, false},
		{answer{method: post, status: 429, body: `{"error": {"code": "project_spend_limit_exceeded"}}`}, permanent, 0, false},
		{answer{method: post, status: 429, header: "Retry-After: 121"}, throttled, 121 * sec, false},
	}},
	{"Anthropic", services.Anthropic, []row{
		{answer{method: post, status: 429, header: "Retry-After: 12",
			body: `{"type": "error", "error": {"type": "rate_limit_error", "message": "exceeded"}}`}, throttled, 12 * sec, true},
		{answer{method: post, status: 529, body: `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`}, throttled, sec, true},
		{answer{method: post, status: 500, body: `{"type": "error", "error": {"type": "api_error", "message": "oops"}}`}, transient, 100 * ms, true},
		{answer{method: post, status: 529, header: "X-Should-Retry: false"}, permanent, 0, false},
		{answer{method: post, status: 404, header: "X-Should-Retry: true"}, throttled, sec, true},
		{answer{method: post, status: 409}, transient, 100 * ms, true},
		{answer{method: post, status: 400}, permanent, 0, false},
		{answer{method: post, status: 429, body: `{"type": "error", "error": {"type": "rate_limit_error",
			"details": {"error_code": "enforced_spend_limit_reached"}}}`}, permanent, 0, false},
	}},
	{"Cloudflare", services.Cloudflare, []row{
		{answer{status: 429, header: "Retry-After: 5\nRatelimit: \"default\";r=0;t=30\nRatelimit-Policy: \"burst\";q=100;w=60"}, throttled, 5 * sec, true},
		{answer{status: 429, header: `Ratelimit: "default";r=0;t=30`}, throttled, 30 * sec, true},
		{answer{status: 503, header: `Ratelimit: "default";r=50;t=30`}, transient, 100 * ms, true},
		{answer{status: 500, header: "X-Should-Retry: false"}, permanent, 0, false},
		{answer{method: post, status: 409, header: "X-Should-Retry: true"}, throttled, sec, true},
		{answer{method: post, status: 409}, transient, 0, false},
		{answer{status: 409}, transient, 100 * ms, true},
		{answer{method: post, status: 500}, transient, 0, false},
		{answer{method: post, status: 500, header: "X-Should-Retry: true"}, transient, 0, false},
		{answer{method: withKey, status: 500}, transient, 100 * ms, true},
		{answer{method: post, status: 429, header: "Retry-After: 300"}, throttled, 300 * sec, false}, // blocked for five minutes
	}},
	{"Stripe", services.Stripe, []row{
		{answer{method: withKey, status: 409, body: `{"error": {"type": "idempotency_error"}}`}, transient, 100 * ms, true},
		{answer{method: post, status: 409}, transient, 0, false},
		{answer{method: withKey, status: 500}, transient, 100 * ms, true},
		{answer{method: withKey, status: 500, header: "Stripe-Should-Retry: false"}, permanent, 0, false},
		{answer{method: withKey, status: 402, header: "Stripe-Should-Retry: true"}, transient, 100 * ms, true},
		{answer{method: post, status: 402, header: "Stripe-Should-Retry: true"}, transient, 0, false},
		{answer{method: withKey, status: 402}, permanent, 0, false},
		{answer{method: withKey, status: 429, body: `{"error": {"code": "rate_limit"}}`}, throttled, sec, true},
		{answer{method: withKey, status: 429, header: "Stripe-Should-Retry: true", body: `{"error": {"code": "lock_timeout"}}`}, throttled, sec, true},
		{answer{method: withKey, status: 429, header: "Stripe-Should-Retry: false"}, permanent, 0, false},
		{answer{status: 503, header: "Retry-After: 2"}, transient, 2 * sec, true},
	}},
	{"Slack", services.Slack, []row{
		{answer{method: post, status: 429, header: "Retry-After: 30", body: `{"ok": false, "error": "ratelimited"}`}, throttled, 30 * sec, true},
		{answer{method: post, status: 429}, throttled, time.Minute, true},
		{answer{status: 429, header: "Retry-After: soon"}, throttled, time.Minute, true},
		{answer{status: 429, header: "Retry-After: 0"}, throttled, 2 * sec, true},
		{answer{status: 500}, transient, 100 * ms, true},
		{answer{method: post, status: 500}, transient, 0, false},
	}},
	{"Shopify", services.Shopify, []row{
		{answer{method: post, status: 429, header: "Retry-After: 2.0\nX-Shopify-Shop-Api-Call-Limit: 40/40"}, throttled, 2 * sec, true},
		{answer{status: 429, header: "Retry-After: 1.25"}, throttled, 1250 * ms, true},
		{answer{status: 423}, permanent, 0, false}, // a locked shop
		{answer{status: 430}, permanent, 0, false}, // refused for its security
		{answer{status: 504}, transient, 100 * ms, true},
	}},
	{"Discord", services.Discord, []row{
		{answer{method: post, status: 429, header: `
			Retry-After: 65
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: 1470173023.123
			X-RateLimit-Reset-After: 64.57
			X-RateLimit-Bucket: abcd1234
			X-RateLimit-Scope: user`,
			body: `{"message": "You are being rate limited.", "retry_after": 64.57, "global": false}`}, throttled, 64570 * ms, false},
		{answer{status: 429, header: "Retry-After: 1337\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset-After: 64.57\nX-RateLimit-Scope: shared",
			body: `{"message": "The resource is being rate limited.", "retry_after": 1336.57, "global": false}`}, throttled, 1336570 * ms, false},
		{answer{method: post, status: 429, header: "Retry-After: 2\nX-RateLimit-Global: true\nX-RateLimit-Scope: global",
			body: `{"message": "You are being rate limited.", "retry_after": 1.337, "global": true}`}, throttled, 1337 * ms, true},
		{answer{status: 429, header: "Retry-After: 1337\nX-RateLimit-Reset-After: 6.5\nX-RateLimit-Scope: shared"}, throttled, 1337 * sec, false},
		{answer{status: 429, header: "X-RateLimit-Reset-After: 6.5"}, throttled, 6500 * ms, true},
		{answer{status: 429, header: "Retry-After: 7", body: `{"retry_after": null}`}, throttled, 7 * sec, true},
		{answer{status: 429, header: "Retry-After: 7", body: `{"retry_after": "64.57"}`}, throttled, 7 * sec, true},
		{answer{status: 429, header: "Retry-After: 7", body: `{"retry_after": 1e10}`}, throttled, math.MaxInt64, false},
		{answer{status: 429, header: "Retry-After: 7", body: `{"retry_after": -1}`}, throttled, 7 * sec, true},
		{answer{status: 500, header: "X-RateLimit-Reset-After: 6.5"}, transient, 100 * ms, true},
		{answer{status: 403}, permanent, 0, false},
	}},
	{"Okta", services.Okta, []row{
		{answer{method: post, status: 429, header: "Date: Fri, 01 Jan 2021 00:00:00 GMT\nX-Rate-Limit-Limit: 600\nX-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 1609459220"},
			throttled, 21 * sec, true},
		{answer{status: 429, header: "Date: Fri, 01 Jan 2021 00:00:00 GMT\nX-Rate-Limit-Reset: 1609459200"}, throttled, sec, true},
		{answer{status: 429, header: "Date: Fri, 01 Jan 2021 00:00:00 GMT\nX-Rate-Limit-Reset: 1609459260"}, throttled, 61 * sec, false},
		{answer{status: 429, header: "Date: Mon, 01 Jan 0001 00:00:00 GMT\nX-Rate-Limit-Reset: 99999999999"}, throttled, math.MaxInt64, false},
		{answer{status: 503, header: "X-Rate-Limit-Reset: 946684830\nRetry-After: 4"}, transient, 4 * sec, true},
	}},
	{"Auth0", services.Auth0, []row{
		{answer{method: post, status: 429, header: "Retry-After: 3\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684830"}, throttled, 3 * sec, true},
		{answer{status: 429, header: "X-RateLimit-Reset: 946684809"}, throttled, 9 * sec, true},
		{answer{status: 500, header: "X-RateLimit-Remaining: 29\nX-RateLimit-Reset: 946684809"}, transient, 100 * ms, true},
	}},
	{"Datadog", services.Datadog, []row{
		{answer{method: post, status: 429, header: "X-RateLimit-Limit: 1000\nX-RateLimit-Period: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 42"}, throttled, 42 * sec, true},
		{answer{status: 503, header: "X-RateLimit-Reset: 42"}, transient, 100 * ms, true},
		{answer{status: 429, header: "X-RateLimit-Reset: 946684809"}, throttled, 946684809 * sec, false}, // a moment is no span
	}},
	{"Linode", services.Linode, []row{
		{answer{status: 503, header: "X-Maintenance-Mode: api,Scheduled maintenance"}, permanent, 0, false},
		{answer{status: 503}, transient, 100 * ms, true},
		{answer{status: 500, header: "X-Maintenance-Mode: api"}, transient, 100 * ms, true},
		{answer{method: post, status: 429, header: "Retry-After: 17"}, throttled, 17 * sec, true},
		{answer{status: 408}, transient, 100 * ms, true},
	}},
	{"Kubernetes", services.Kubernetes, []row{
		{answer{method: post, status: 429, header: "Retry-After: 1",
			body: `{"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}, "code": 429}`}, throttled, sec, true},
		{answer{status: 429}, permanent, 0, false},
		{answer{status: 504, header: "Retry-After: 2"}, transient, 2 * sec, true},
		{answer{status: 500}, permanent, 0, false},
		{answer{status: 500, header: "Retry-After: soon"}, permanent, 0, false},
		{answer{status: 503, header: "Retry-After: 0"}, transient, 100 * ms, true},
		{answer{method: post, status: 503, header: "Retry-After: 1"}, transient, 0, false},
		{answer{status: 409, header: "Retry-After: 1"}, permanent, 0, false},
	}},
	{"MicrosoftGraph", services.MicrosoftGraph, []row{
		{answer{method: post, status: 429, header: "Retry-After: 10", body: `{"error": {"code": "TooManyRequests",
			"innerError": {"code": "429", "date": "2020-08-18T12:51:51", "message": "Please retry after"}}}`}, throttled, 10 * sec, true},
		{answer{status: 429, header: "Retry-After: 180"}, throttled, 180 * sec, true},
		{answer{status: 429, header: "Retry-After: 181"}, throttled, 181 * sec, false},
		{answer{status: 503, header: "Retry-After: 2.5"}, transient, 2500 * ms, true},
		{answer{status: 504}, transient, 100 * ms, true},
		{answer{method: post, status: 504}, transient, 0, false},
		{answer{status: 500}, permanent, 0, false},
		{answer{status: 502}, permanent, 0, false},
	}},
	{"IETF", services.IETF, []row{
		{answer{method: post, status: 429, header: `
			Content-Type: application/problem+json
			Date: Mon, 05 Aug 2019 09:27:00 GMT
			Retry-After: Mon, 05 Aug 2019 09:27:05 GMT
			RateLimit: "default";r=0;t=50`,
			body: `{"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Too Many Requests",
				"status": 429, "violated-policies": ["default"]}`}, throttled, 5 * sec, true},
		{answer{method: post, status: 403, header: "Content-Type: application/problem+json; charset=utf-8",
			body: `{"type": "https://iana.org/assignments/http-problem-types#quota-exceeded"}`}, throttled, sec, true},
		{answer{status: 503, header: "Content-Type: application/problem+json",
			body: `{"type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"}`}, throttled, sec, true},
		{answer{method: post, status: 503, header: "Content-Type: application/problem+json",
			body: `{"type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"}`}, throttled, 0, false},
		{answer{status: 429, header: "Content-Type: application/problem+json\nRetry-After: 1",
			body: `{"type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}`}, permanent, 0, false},
		{answer{status: 429, body: `{"type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}`}, throttled, sec, true}, // no problem document
		{answer{status: 403, header: "Content-Type: application/problem+json", body: `{"type": "https://evil.example/#quota-exceeded"}`}, permanent, 0, false},
		{answer{status: 429, header: "Content-Type: application/problem+json\nRateLimit: \"default\";r=0;t=5",
			body: `{"type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected" "title": "comma missing"}`}, throttled, 5 * sec, true},
		{answer{method: post, status: 429, header: "RateLimit-Policy: \"dynamic\";q=15;w=20\nRateLimit: \"dynamic\";r=0;t=20"}, throttled, 20 * sec, true},
		{answer{status: 429, header: "RateLimit: \"dynamic\";r=0;t=20\nRetry-After: 0"}, throttled, sec, true},
		{answer{status: 503, header: "RateLimit: \"a\";r=0;t=5, \"b\";r=9;t=40\nRateLimit: \"c\";r=0;t=7"}, transient, 7 * sec, true},
		{answer{status: 429, header: "RateLimit: \"default\";r=0;t=50\nAge: 3"}, throttled, sec, true}, // from a cache
		{answer{status: 429, header: "RateLimit: limit=100, remaining=0, reset=50"}, throttled, sec, true},
		{answer{status: 429, header: "RateLimit: \"daily\";r=0;t=86400"}, throttled, 86400 * sec, false},
	}},
}

func TestAnswersOfEachService(t *testing.T) {
	for _, table := range tables {
		for _, r := range table.rows {
			text := fmt.Sprint(table.name, " ", r.answer.method, " ", r.answer.status, " ", strings.Join(strings.Fields(r.answer.header), " "), " ", r.answer.body)
			synctest.Test(t, func(t *testing.T) {
				o := send(t, table.make(), r.answer)
				require.Equal(t, r.class, o.events[0].Class, text)
				require.Equal(t, r.wait, o.events[0].Wait, text)
				require.Equal(t, r.retried, len(o.Sent()) == 2, text)
				if r.retried {
					require.Equal(t, r.wait, o.Waits()[0], text)
				}
			})
		}
	}
}

func TestServicesMakeSense(t *testing.T) {
	for _, table := range tables {
		s := table.make()
		require.NoError(t, (&retrip.Transport{Strategy: s}).Validate(), table.name)
		require.NotSame(t, s.Quota, table.make().Quota, table.name)
		for _, part := range s.Classifiers {
			require.Implements(t, (*fmt.Stringer)(nil), part, table.name)
		}
		for _, part := range s.Hints {
			require.Implements(t, (*fmt.Stringer)(nil), part, table.name)
		}
	}
	require.Contains(t, services.Okta().String(), "Hint: X-Rate-Limit-Reset (seconds since 1970) + 1s, with status 429\n")
	require.Contains(t, services.Linode().String(), "Classifier: permanent: status 503 and header X-Maintenance-Mode\n")
}

// The rules are for answers: a broken connection is as in Standard, and a POST
// on it is repeated only where all requests are.
func TestBrokenConnectionsAreAsInStandard(t *testing.T) {
	for _, table := range tables {
		for _, method := range []string{http.MethodGet, post} {
			synctest.Test(t, func(t *testing.T) {
				s, base := table.make(), testkit.Script(testkit.Fails(socketerr.ConnReset))
				_, err := (&retrip.Transport{Strategy: s, Base: base}).RoundTrip(testkit.NewRequest(t, method, nil))
				require.ErrorIs(t, err, socketerr.ConnReset)
				attempts := len(base.Sent())
				require.Equal(t, method == http.MethodGet || s.RetryNonIdempotent, attempts == 3, "%s %s: %d", table.name, method, attempts)
			})
		}
	}
}

// A secondary limit of GitHub wants ever longer waits, and Graph's add up.
func TestWaitsAddUp(t *testing.T) {
	for _, tt := range []struct {
		make  func() *retrip.Strategy
		cap   time.Duration
		again answer
		waits []time.Duration
	}{
		{services.GitHub, time.Hour, answer{status: 429}, []time.Duration{time.Minute, 2 * time.Minute}},
		{services.GitHub, time.Minute, answer{status: 429}, []time.Duration{time.Minute}},
		{services.Slack, time.Hour, answer{status: 429}, []time.Duration{time.Minute, time.Minute}},
		{services.MicrosoftGraph, 180 * sec, answer{status: 429, header: "Retry-After: 90"}, []time.Duration{90 * sec, 90 * sec}},
		{services.MicrosoftGraph, 180 * sec, answer{status: 429, header: "Retry-After: 91"}, []time.Duration{91 * sec}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := tt.make()
			s.MaxRetryAfter = tt.cap
			require.Equal(t, tt.waits, send(t, s, tt.again, tt.again, tt.again).Waits())
		})
	}
}

func TestByHostKnowsServicesByDomain(t *testing.T) {
	for host, want := range map[string]func() *retrip.Strategy{
		"api.github.com":                  services.GitHub,
		"gitlab.com":                      services.GitLab,
		"api.openai.com":                  services.OpenAI,
		"api.anthropic.com":               services.Anthropic,
		"api.cloudflare.com":              services.Cloudflare,
		"api.stripe.com":                  services.Stripe,
		"slack.com":                       services.Slack,
		"my-shop.myshopify.com":           services.Shopify,
		"discord.com":                     services.Discord,
		"dev-1.okta.com":                  services.Okta,
		"tenant.eu.auth0.com":             services.Auth0,
		"api.datadoghq.com":               services.Datadog,
		"api.datadoghq.eu":                services.Datadog,
		"api.linode.com":                  services.Linode,
		"graph.microsoft.com":             services.MicrosoftGraph,
		"management.azure.com":            services.Azure,
		"account.blob.core.windows.net":   services.Azure,
		"s3.eu-west-1.amazonaws.com":      aws.Standard2026,
		"ec2.cn-north-1.amazonaws.com.cn": aws.Standard2026,
		"":                                retrip.Standard,
		"example.com":                     retrip.Standard,
		"api.github.com:8443":             retrip.Standard,
		"api.github.com.evil.example":     retrip.Standard,
		"evil-okta.com":                   retrip.Standard,
		"okta.com":                        retrip.Standard,
		".okta.com":                       retrip.Standard,
		"*.okta.com.evil.example":         retrip.Standard,
	} {
		require.Equal(t, want().String(), services.ByHost(host).String(), host)
	}
	require.NotSame(t, services.ByHost("slack.com"), services.ByHost("slack.com"))
	require.NoError(t, (&retrip.Transport{PerKey: services.ByHost}).Validate())
}
