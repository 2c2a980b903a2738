// Package policy has the retry policies of the laboratory by name: the modes and
// presets of retrip, and the rules that others publish.
package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/lab/internal/strictyaml"
	"github.com/retrip-go/retrip/services"
)

// A base is what a name stands for.
type base struct {
	name, about string
	make        func() *retrip.Strategy
	peer        bool
}

func withQuota(quota func() retrip.Quota) func() *retrip.Strategy {
	return func() *retrip.Strategy {
		s := retrip.Standard()
		s.Quota = quota()
		return s
	}
}

// bases are in the order in which lists and pictures have them.
var bases = []base{
	{"none", "no retries", func() *retrip.Strategy { s := retrip.Standard(); s.MaxAttempts = 1; return s }, true},
	{"unlimited", "every retry that MaxAttempts allows", withQuota(func() retrip.Quota { return unlimited{} }), true},
	{"standard", "AWS standard mode: a bucket of 500 tokens, 5 for a retry", retrip.Standard, false},
	{"aws-2026", "AWS SDKs since 2026: 500 tokens, 14 for a retry", aws2026, true},
	{"finagle", "Finagle, Linkerd, tower: 20 % of the requests of 10 s, and 10 per second", withQuota(func() retrip.Quota { return &windowed{free: 10, share: 0.2} }), true},
	{"finagle-no-floor", "the same without the 10 per second", withQuota(func() retrip.Quota { return &windowed{share: 0.2} }), true},
	{"envoy", "Envoy retry budget: 20 % of the requests under way, at least 3", withQuota(func() retrip.Quota { return &envoy{share: 0.2, least: 3} }), true},
	{"sre", "SRE book: retries are at most 10 % of a client's requests", withQuota(func() retrip.Quota { return &share{part: 0.1} }), true},
	{"brooker", "Marc Brooker: each request adds 0.1 token, at most 10", withQuota(func() retrip.Quota { return &deposits{tokens: 10, most: 10, credit: 0.1} }), true},
	{"grpc", "gRPC throttling (A6): maxTokens 10, tokenRatio 0.1", withQuota(func() retrip.Quota { return &throttle{tokens: 10, max: 10, ratio: 0.1} }), true},
	{"gated", "retrip.Gated: a gate", gated, false},
	{"legacy", "AWS legacy mode", retrip.Legacy, false},
	{"aws.Standard2026", "preset", aws.Standard2026, false},
	{"aws.Standard2026DynamoDB", "preset", aws.Standard2026DynamoDB, false},
	{"aws.JavaV1", "preset", aws.JavaV1, false},
	{"aws.JavaV1DynamoDB", "preset", aws.JavaV1DynamoDB, false},
	{"aws.JavaScriptV2", "preset", aws.JavaScriptV2, false},
	{"aws.JavaScriptV2DynamoDB", "preset", aws.JavaScriptV2DynamoDB, false},
	{"services.AlibabaKMS", "preset", services.AlibabaKMS, false},
	{"services.Anthropic", "preset", services.Anthropic, false},
	{"services.Auth0", "preset", services.Auth0, false},
	{"services.Azure", "preset", services.Azure, false},
	{"services.Cloudflare", "preset", services.Cloudflare, false},
	{"services.Datadog", "preset", services.Datadog, false},
	{"services.Discord", "preset", services.Discord, false},
	{"services.GitHub", "preset", services.GitHub, false},
	{"services.GitLab", "preset", services.GitLab, false},
	{"services.Kubernetes", "preset", services.Kubernetes, false},
	{"services.Linode", "preset", services.Linode, false},
	{"services.MicrosoftGraph", "preset", services.MicrosoftGraph, false},
	{"services.Okta", "preset", services.Okta, false},
	{"services.OpenAI", "preset", services.OpenAI, false},
	{"services.Shopify", "preset", services.Shopify, false},
	{"services.Slack", "preset", services.Slack, false},
	{"services.Stripe", "preset", services.Stripe, false},
}

// aws2026 differs from Standard in the price alone, so that a comparison is one of
// quotas. The preset aws.Standard2026 has the other settings, too.
func aws2026() *retrip.Strategy {
	s := retrip.Standard()
	s.Cost, s.ThrottleCost = 14, 5
	return s
}

// Names lists the names of policies.
func Names() (all []string) {
	for _, b := range bases {
		all = append(all, b.name)
	}
	return all
}

// About says what a name stands for.
func About(name string) string {
	for _, b := range bases {
		if b.name == name {
			return b.about
		}
	}
	return ""
}

// A Policy is a mode or preset with overrides.
type Policy struct {
	// Name is what tables and pictures call it.
	Name string
	// Shared tells that all clients share one quota.
	Shared bool
	base   base
	own    Overrides
}

// Named returns the policy of a name.
func Named(name string) (Policy, error) {
	i := slices.IndexFunc(bases, func(b base) bool { return b.name == name })
	if i < 0 {
		if name == "adaptive" || strings.HasPrefix(name, "aws.Adaptive") {
			return Policy{}, fmt.Errorf("is %q: the laboratory has no send-rate limiter; use standard", name)
		}
		return Policy{}, fmt.Errorf("is %q, which is no policy: use one of %s", name, strings.Join(Names(), ", "))
	}
	return Policy{Name: name, base: bases[i]}, nil
}

// ReadYAML reads a name, or a mapping of a name and overrides.
func (p *Policy) ReadYAML(c strictyaml.Context, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		named, err := Named(node.Value)
		if err != nil {
			return c.Errorf(node, "%w", err)
		}
		*p = named
		return nil
	}
	return p.readMapping(c, node)
}

func (p *Policy) readMapping(c strictyaml.Context, node *yaml.Node) error {
	fields := struct {
		Mode            string         `yaml:"mode"`
		Name            string         `yaml:"name"`
		Shared          bool           `yaml:"shared"`
		MaxAttempts     *int           `yaml:"MaxAttempts"`
		MaxRetryAfter   *time.Duration `yaml:"MaxRetryAfter"`
		Backoff         *Backoff       `yaml:"Backoff"`
		ThrottleBackoff *Backoff       `yaml:"ThrottleBackoff"`
		Quota           *Quota         `yaml:"Quota"`
		Cost            *int           `yaml:"Cost"`
		ThrottleCost    *int           `yaml:"ThrottleCost"`
		TimeoutCost     *int           `yaml:"TimeoutCost"`
	}{}
	if err := c.Read(node, &fields); err != nil {
		return err
	}
	named, err := Named(fields.Mode)
	if err != nil {
		return c.Errorf(node, "mode %w", err)
	}
	*p = named
	if fields.Name != "" {
		p.Name = fields.Name
	}
	p.Shared = fields.Shared
	p.own = Overrides{
		fields.MaxAttempts, fields.MaxRetryAfter, fields.Backoff, fields.ThrottleBackoff, fields.Quota,
		fields.Cost, fields.ThrottleCost, fields.TimeoutCost,
	}
	if err := checked(p.Strategies(Overrides{})()); err != nil {
		return c.Errorf(node, "%w", err)
	}
	return nil
}
