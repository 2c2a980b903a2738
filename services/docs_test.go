package services_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/services"
)

var update = flag.Bool("update", false, "write docs/services.md anew")

// sources tell where each strategy's rules and waits come from.
var sources = map[string]string{
	"GitHub":         "GitHub Docs, Rate limits for the REST API; go-github, CheckResponse",
	"GitLab":         "GitLab Docs, User and IP rate limits; gitlab-org/api/client-go, rateLimitBackoff",
	"Azure":          "azcore, policy_retry.go, shared.RetryAfter",
	"OpenAI":         "openai-go, requestconfig.go; OpenAI, Error codes",
	"Anthropic":      "anthropic-sdk-go, requestconfig.go; Anthropic, Errors, Rate limits",
	"Cloudflare":     "cloudflare-go, requestconfig.go; Cloudflare Docs, Rate limits",
	"Stripe":         "stripe-go, shouldRetry; Stripe Docs, Rate limits",
	"Slack":          "Slack Docs, Rate limits; slack-go, retry.go",
	"Shopify":        "shopify.dev, REST Admin API rate limits",
	"Discord":        "Discord Docs, Rate Limits",
	"Okta":           "Okta Docs, Rate limit best practices; okta-sdk-golang, Get429BackoffTime",
	"Auth0":          "Auth0 Docs, Rate Limit Policy; go-auth0, backoffDelay",
	"Datadog":        "Datadog Docs, Rate Limits; datadog-api-client-go, shouldRetryRequest",
	"Linode":         "linodego, retries.go",
	"Kubernetes":     "client-go, rest/with_retry.go",
	"MicrosoftGraph": "kiota-http-go, retry_handler.go; Microsoft Graph throttling guidance",
	"IETF":           "draft-ietf-httpapi-ratelimit-headers-11, sections 4, 5 and 7",
}

// The documentation's table is made from the strategies themselves. After a
// change: go test -run ServicesTable ./services -update
func TestServicesTable(t *testing.T) {
	const file = "../docs/services.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(servicesTable()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, servicesTable(), string(have), "make it anew: go test -run ServicesTable ./services -update")
	require.Len(t, sources, len(tables))
	for _, table := range tables {
		require.NotEmpty(t, sources[table.name], table.name)
	}
}

func servicesTable() string {
	var b strings.Builder
	b.WriteString(`# Services

Made by ` + "`go test -run ServicesTable ./services -update`" + ` from package services.

Don't know which? ` + "`PerKey: services.ByHost`" + ` chooses by the host's name, see
[the end of this page](#by-host), and takes ` + "`retrip.Standard`" + ` for any other host.

Each strategy is ` + "`retrip.Standard`" + ` ([modes.md](modes.md)) with rules and waits of its
own. Its own rules come first, and the first rule that fits decides. The waits are
read in the order given, and the first that can be read counts. The same header
has different units at different services: "seconds" is a length of time, and
"seconds since 1970" is a point in time, measured against the response's own Date.

If the server asks for more than the longest wait, in one response or in all
responses to one request together, the request ends and returns the last response
at once: retrying early would only add load. A limit per hour may be reset later
than that; to wait for it, set ` + "`s.MaxRetryAfter = time.Hour`" + `.

| service | what is retried | repeats | waits, in order | longest | source |
|---|---|---|---|---|---|
`)
	for _, table := range tables {
		s := table.make()
		repeats := "idempotent"
		if s.RetryNonIdempotent {
			repeats = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %v | %s |\n", table.name,
			strings.Join(ownRules(s), "<br>"), repeats, strings.Join(texts(s.Hints), "<br>"), s.MaxRetryAfter, sources[table.name])
	}
	b.WriteString(`
## Alibaba Cloud

These come from Alibaba Cloud's page on retries for its Key Management Service. None
has a quota, and none reads a wait from the response. ` + "`FixedInterval`" + ` retries what
` + "`Standard`" + ` retries.

| strategy | attempts | repeats | backoff | what is retried | part of the page |
|---|---|---|---|---|---|
`)
	for _, row := range []struct {
		name string
		s    *retrip.Strategy
		part string
	}{{"AlibabaKMS", services.AlibabaKMS(), "pseudo code"}, {"AlibabaKMSJava", services.AlibabaKMSJava(), "Java sample"}} {
		base := row.s.Backoff.(retrip.Exponential).Base
		fmt.Fprintf(&b, "| `%s` | %d | all | %v·2ⁿ | %s | %s |\n",
			row.name, row.s.MaxAttempts, base, strings.Join(texts(row.s.Classifiers), "<br>"), row.part)
	}
	b.WriteString("| `FixedInterval(1s, 1m)` | for the period | idempotent | 1s, within 1m0s | as in `Standard` | simple retry |\n")
	b.WriteString("\n## By host\n\n`ByHost` gives the strategy for a host's name, and `retrip.Standard` for any other.\n\n| host | strategy |\n|---|---|\n")
	for _, host := range services.Hosts() {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", host, nameOf(services.ByHost(strings.Replace(host, "*", "name", 1))))
	}
	return b.String()
}

// ownRules are the rules that a strategy does not share with Standard.
func ownRules(s *retrip.Strategy) []string {
	own := texts(s.Classifiers[:len(s.Classifiers)-len(retrip.Standard().Classifiers)])
	if last := len(own) - 1; last >= 0 && own[last] == "permanent: status from 400" {
		own[last] = "no other status"
		return append(own, "errors as in `Standard`")
	}
	return append(own, "the rest as in `Standard`")
}

func texts[Part any](parts []Part) (texts []string) {
	for _, part := range parts {
		texts = append(texts, fmt.Sprint(part))
	}
	return texts
}

func nameOf(s *retrip.Strategy) string {
	for _, table := range tables {
		if table.make().String() == s.String() {
			return table.name
		}
	}
	if s.String() == aws.Standard2026().String() {
		return "aws.Standard2026"
	}
	return "?"
}
