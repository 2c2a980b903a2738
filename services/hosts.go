package services

import (
	"strings"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// hosts are names, or what follows the star in *.name.
var hosts = []struct {
	name string
	make func() *retrip.Strategy
}{
	{"api.github.com", GitHub},
	{"gitlab.com", GitLab},
	{"api.openai.com", OpenAI},
	{"api.anthropic.com", Anthropic},
	{"api.cloudflare.com", Cloudflare},
	{"api.stripe.com", Stripe},
	{"slack.com", Slack},
	{"*.myshopify.com", Shopify},
	{"discord.com", Discord},
	{"*.okta.com", Okta},
	{"*.auth0.com", Auth0},
	{"api.datadoghq.com", Datadog},
	{"api.datadoghq.eu", Datadog},
	{"api.linode.com", Linode},
	{"graph.microsoft.com", MicrosoftGraph},
	{"management.azure.com", Azure},
	{"*.core.windows.net", Azure},
	{"*.amazonaws.com", aws.Standard2026},
	{"*.amazonaws.com.cn", aws.Standard2026},
}

// ByHost returns a new strategy for a host as retrip.HostKey writes it: in
// lower case, and with a port only if that is not the scheme's own. It is meant
// for Transport.PerKey. It knows
//
//	api.github.com        GitHub            discord.com           Discord
//	gitlab.com            GitLab            *.okta.com            Okta
//	api.openai.com        OpenAI            *.auth0.com           Auth0
//	api.anthropic.com     Anthropic         api.datadoghq.com     Datadog
//	api.cloudflare.com    Cloudflare        api.datadoghq.eu      Datadog
//	api.stripe.com        Stripe            api.linode.com        Linode
//	slack.com             Slack             graph.microsoft.com   MicrosoftGraph
//	*.myshopify.com       Shopify           management.azure.com  Azure
//	*.amazonaws.com(.cn)  aws.Standard2026  *.core.windows.net    Azure
//
// and gives any other retrip.Standard.
func ByHost(host string) *retrip.Strategy {
	for _, known := range hosts {
		suffix, wild := strings.CutPrefix(known.name, "*")
		if host == known.name || wild && strings.HasSuffix(host, suffix) && host != suffix {
			return known.make()
		}
	}
	return retrip.Standard()
}
