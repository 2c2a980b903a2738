package services

import (
	"time"

	"github.com/retrip-go/retrip"
)

// Headers that mean the same at more than one service.
var (
	retryAfter     = retrip.HintHeader{Name: "Retry-After", Format: retrip.SecondsOrDate}
	retryAfterMS   = retrip.HintHeader{Name: "Retry-After-Ms", Format: retrip.Milliseconds}
	msRetryAfterMS = retrip.HintHeader{Name: "X-Ms-Retry-After-Ms", Format: retrip.Milliseconds}
)

// tooMany is what makes the headers that tell of a limit, and that many
// services send with every answer, a reason to wait.
var tooMany = retrip.StatusIs(429)

// nothingElse ends a list of the statuses that are worth a retry.
var nothingElse = retrip.On(retrip.Permanent, retrip.StatusFrom(400))

// GitHub returns a new strategy for GitHub's REST API (GitHub Docs, "Rate
// limits for the REST API").
//
// A 403 or 429 is a limit if X-RateLimit-Remaining is 0, if its body speaks of
// a secondary limit (docs.github.com/…#secondary-rate-limits; older servers
// call it abuse detection), or if it has a Retry-After; any other 403 is
// permanent. The wait is, in this order: Retry-After; until X-RateLimit-Reset
// if nothing remains; a minute, doubled with each attempt. (GraphQL's limits
// come with status 200 and are left to the caller.)
func GitHub() *retrip.Strategy {
	limited := retrip.StatusIs(403, 429)
	primary := limited.And(retrip.HeaderIs("X-RateLimit-Remaining", "0"))
	secondary := limited.And(retrip.FieldContains("message", "secondary rate limit", "abuse detection").
		Or(retrip.FieldContains("documentation_url", "secondary-rate-limits", "abuse-rate-limits")))
	return standard(
		rules{
			retrip.On(retrip.Throttled, primary),
			retrip.On(retrip.Throttled, secondary),
			retrip.On(retrip.Throttled, limited.And(retrip.HasHint(retryAfter))),
		},
		waits{
			retryAfter,
			retrip.HintWhen(primary, epoch("X-RateLimit-Reset")),
			retrip.HintWhen(limited, pause{wait: time.Minute, doubling: true}),
		})
}

// GitLab returns a new strategy for GitLab's API (GitLab Docs, "User and IP
// rate limits", Response headers): after a 429, Retry-After, or else until
// RateLimit-Reset, which here is a moment.
func GitLab() *retrip.Strategy {
	return standard(nil, waits{retryAfter, retrip.HintWhen(tooMany, epoch("RateLimit-Reset"))})
}

// Azure returns a new strategy for Azure's APIs, with the statuses and waits of
// its SDK (azcore, policy_retry.go and shared.RetryAfter). Unlike the SDK it
// repeats no POST or PATCH that may have been processed.
func Azure() *retrip.Strategy {
	return standard(
		rules{
			retrip.On(retrip.Throttled, retrip.StatusIs(429)),
			retrip.On(retrip.Transient, retrip.StatusIs(408, 500, 502, 503, 504)),
			nothingElse,
		},
		waits{retryAfterMS, msRetryAfterMS, retryAfter})
}

// OpenAI returns a new strategy for OpenAI's API: that of its SDK (openai-go,
// requestconfig.go), but that a 429 for want of money is permanent (OpenAI's
// page "Error codes": retrying it won't restore access).
//
// It repeats every request, as the SDK does: nearly all are a POST that
// computes an answer, and the page says to retry after 500 and 503. At worst an
// answer is paid for twice. If you also create things that must not exist twice,
// such as fine-tuning jobs, set RetryNonIdempotent to false and declare the others
// with retrip.WithIdempotent.
func OpenAI() *retrip.Strategy {
	s := stainless(retrip.On(retrip.Permanent, tooMany.And(retrip.FieldIs("error.type", "insufficient_quota").
		Or(retrip.FieldIs("error.code", "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
			"project_spend_limit_exceeded", "organization_usage_limit_exceeded")))))
	s.RetryNonIdempotent = true
	return s
}

// Anthropic returns a new strategy for Anthropic's API: that of its SDK
// (anthropic-sdk-go, requestconfig.go), but that 529 is throttling and a 429
// for want of money is permanent (Anthropic's pages "Errors" and "Rate
// limits"). It repeats every request, as the SDK does, for the reason in
// OpenAI.
func Anthropic() *retrip.Strategy {
	s := stainless(
		retrip.On(retrip.Permanent, tooMany.And(retrip.FieldIs("error.details.error_code", "enforced_spend_limit_reached"))),
		retrip.On(retrip.Throttled, retrip.StatusIs(529)))
	s.RetryNonIdempotent = true
	return s
}

// Cloudflare returns a new strategy for Cloudflare's API: that of its SDK
// (cloudflare-go, requestconfig.go), and the RateLimit field (Cloudflare's page
// "Rate limits"). Unlike the SDK it repeats no POST or PATCH that may have been
// processed, since these create records, tokens and zones: an X-Should-Retry of
// true is taken for permission with a 4xx, not with a 5xx.
func Cloudflare() *retrip.Strategy {
	s := stainless()
	s.Hints = append(s.Hints, RateLimit{})
	return s
}

// stainless is what the SDKs made by Stainless have in common. X-Should-Retry
// beats the status both ways; otherwise they retry 408, 409, 429 and 5xx, of
// which Standard leaves out 501, 505, 510 and 511. A 4xx that the server wants
// to see again was not processed, and Throttled is the word for that.
func stainless(more ...retrip.Classifier) *retrip.Strategy {
	wanted := retrip.HeaderIs("X-Should-Retry", "true")
	first := rules{
		retrip.On(retrip.Permanent, retrip.HeaderIs("X-Should-Retry", "false")),
		retrip.On(retrip.Transient, retrip.StatusFrom(500).And(wanted)),
		retrip.On(retrip.Throttled, wanted),
	}
	return standard(append(append(first, more...), retrip.On(retrip.Transient, retrip.StatusIs(409))), waits{retryAfterMS, retryAfter})
}

// Stripe returns a new strategy for Stripe's API (stripe-go, shouldRetry):
// Stripe-Should-Retry beats the status both ways; otherwise 409 and 5xx are
// retried, and 429, which stripe-go leaves to that header, as Stripe's page
// "Rate limits" asks.
//
// A POST that may have been processed is repeated only if it has an
// Idempotency-Key. Set it on the request, not in Transport.Prepare, which would
// give each attempt a key of its own.
func Stripe() *retrip.Strategy {
	return standard(
		rules{
			retrip.On(retrip.Permanent, retrip.HeaderIs("Stripe-Should-Retry", "false")),
			retrip.On(retrip.Throttled, retrip.StatusIs(429)),
			retrip.On(retrip.Transient, retrip.HeaderIs("Stripe-Should-Retry", "true")),
			retrip.On(retrip.Transient, retrip.StatusIs(409)),
		},
		waits{retryAfter})
}

// Slack returns a new strategy for Slack's Web API (Slack's page "Rate
// limits"; slack-go, retry.go): after a 429, Retry-After, or a minute if there
// is none, and never less than a second.
func Slack() *retrip.Strategy {
	s := standard(nil, waits{retryAfter, retrip.HintWhen(tooMany, pause{wait: time.Minute})})
	s.ThrottleBackoff = retrip.EqualJitter{Base: 2 * time.Second, Cap: 20 * time.Second} // a second and more
	return s
}

// Shopify returns a new strategy for Shopify's REST Admin API (shopify.dev,
// "REST Admin API rate limits"): Retry-After is in seconds with a fraction.
// (GraphQL's limits come with status 200 and are left to the caller.)
func Shopify() *retrip.Strategy {
	return standard(nil, waits{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds}})
}

// Discord returns a new strategy for Discord's API (Discord's page "Rate
// limits"): after a 429, retry_after in the body, the most exact; then
// Retry-After, whole seconds; then X-RateLimit-Reset-After, which comes last
// because it tells of the route's own limit, also where X-RateLimit-Scope says
// that a shared or global one was exceeded. Such a limit concerns other requests
// too, which this does not hold back; an adaptive strategy would.
func Discord() *retrip.Strategy {
	return standard(nil, waits{
		retrip.HintWhen(tooMany, retrip.HintField("retry_after")),
		retryAfter,
		retrip.HintWhen(tooMany, seconds("X-RateLimit-Reset-After")),
	})
}

// Okta returns a new strategy for Okta's API (okta-sdk-golang,
// Get429BackoffTime): after a 429, until X-Rate-Limit-Reset by the clock of
// the response's Date, and a second more.
func Okta() *retrip.Strategy {
	return standard(nil, waits{
		retrip.HintWhen(tooMany, later(epoch("X-Rate-Limit-Reset"), time.Second)),
		retryAfter,
	})
}

// Auth0 returns a new strategy for Auth0's Management API (go-auth0,
// backoffDelay): after a 429, Retry-After, or else until X-RateLimit-Reset,
// which here is a moment.
func Auth0() *retrip.Strategy {
	return standard(nil, waits{retryAfter, retrip.HintWhen(tooMany, epoch("X-RateLimit-Reset"))})
}

// Datadog returns a new strategy for Datadog's API (Datadog Docs, "Rate
// Limits"; datadog-api-client-go, shouldRetryRequest): after a 429,
// X-RateLimit-Reset, which here is a number of seconds.
func Datadog() *retrip.Strategy {
	return standard(nil, waits{retrip.HintWhen(tooMany, seconds("X-RateLimit-Reset")), retryAfter})
}

// Linode returns a new strategy for Linode's API (linodego, retries.go): a 503
// with X-Maintenance-Mode is permanent, since maintenance takes longer than any
// retry.
func Linode() *retrip.Strategy {
	return standard(
		rules{retrip.On(retrip.Permanent, retrip.StatusIs(503).And(retrip.HasHeader("X-Maintenance-Mode")))},
		waits{retryAfter})
}

// Kubernetes returns a new strategy for the API server of Kubernetes
// (client-go, rest/with_retry.go): 429 and 5xx are retried only with a
// Retry-After. It is for a client of your own. client-go itself retries the same
// answers, so don't put it below client-go; see examples/kubernetes.
func Kubernetes() *retrip.Strategy {
	return standard(
		rules{
			retrip.On(retrip.Throttled, tooMany.And(retrip.HasHint(retryAfter))),
			retrip.On(retrip.Transient, retrip.StatusFrom(500).And(retrip.HasHint(retryAfter))),
			nothingElse,
		},
		waits{retryAfter})
}

// MicrosoftGraph returns a new strategy for Microsoft Graph (kiota-http-go,
// retry_handler.go): 429, 503 and 504 are retried as long as the waits it asks
// for add up to no more than 180 s.
func MicrosoftGraph() *retrip.Strategy {
	s := standard(
		rules{
			retrip.On(retrip.Throttled, retrip.StatusIs(429)),
			retrip.On(retrip.Transient, retrip.StatusIs(503, 504)),
			nothingElse,
		},
		waits{retryAfter})
	s.MaxRetryAfter = 180 * time.Second
	return s
}
