package retrip_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

var update = flag.Bool("update", false, "write docs/modes.md anew")

// documented is every mode and preset, with the source of its numbers.
var documented = []struct {
	name   string
	make   func() *retrip.Strategy
	source string
}{
	{"Standard", retrip.Standard, "AWS SDK for Java 2.x guide, Retry behavior, standard; statuses: ours"},
	{"Legacy", retrip.Legacy, "the same page, legacy; statuses: ours"},
	{"Adaptive", retrip.Adaptive, "the same page, adaptive (ADAPTIVE_V2); statuses: ours"},
	{"Gated", retrip.Gated, "ours: as Standard, with a gate (quotas.md)"},
	{"aws.Standard2026", aws.Standard2026, "AWS SDKs and Tools Reference Guide, Retry behavior, 2026"},
	{"aws.Adaptive2026", aws.Adaptive2026, "the same page"},
	{"aws.Standard2026DynamoDB", aws.Standard2026DynamoDB, "the same page"},
	{"aws.Adaptive2026DynamoDB", aws.Adaptive2026DynamoDB, "the same page"},
	{"aws.AdaptiveV1", aws.AdaptiveV1, "aws-sdk-java-v2 before 2.26, RetryMode.ADAPTIVE"},
	{`aws.Botocore("")`, func() *retrip.Strategy { return aws.Botocore("") }, "botocore data/_retry.json, retryhandler.py"},
	{`aws.Botocore("organizations")`, func() *retrip.Strategy { return aws.Botocore("organizations") }, "the same"},
	{`aws.Botocore("dynamodb")`, func() *retrip.Strategy { return aws.Botocore("dynamodb") }, "the same"},
	{`aws.Botocore("ec2")`, func() *retrip.Strategy { return aws.Botocore("ec2") }, "the same"},
	{`aws.Botocore("cloudsearch")`, func() *retrip.Strategy { return aws.Botocore("cloudsearch") }, "the same"},
	{`aws.Botocore("kinesis")`, func() *retrip.Strategy { return aws.Botocore("kinesis") }, "the same"},
	{`aws.Botocore("sqs")`, func() *retrip.Strategy { return aws.Botocore("sqs") }, "the same"},
	{`aws.Botocore("s3")`, func() *retrip.Strategy { return aws.Botocore("s3") }, "the same, and handlers.py for status 200"},
	{`aws.Botocore("glacier")`, func() *retrip.Strategy { return aws.Botocore("glacier") }, "the same"},
	{`aws.Botocore("route53")`, func() *retrip.Strategy { return aws.Botocore("route53") }, "the same"},
	{`aws.Botocore("sts")`, func() *retrip.Strategy { return aws.Botocore("sts") }, "the same"},
	{"aws.JavaV1", aws.JavaV1, "aws-sdk-java 1.x, PredefinedRetryPolicies, PredefinedBackoffStrategies, RetryUtils"},
	{"aws.JavaV1DynamoDB", aws.JavaV1DynamoDB, "the same"},
	{"aws.JavaScriptV2", aws.JavaScriptV2, "aws-sdk-js 2.x, lib/service.js, lib/util.js"},
	{"aws.JavaScriptV2DynamoDB", aws.JavaScriptV2DynamoDB, "the same, lib/services/dynamodb.js"},
}

// The documentation's table is made from the modes themselves. After a change:
// go test -run ModesTable -update .
func TestModesTable(t *testing.T) {
	const file = "docs/modes.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(modesTable()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, modesTable(), string(have), "make it anew: go test -run ModesTable -update .")
	for _, d := range documented {
		require.NoError(t, (&retrip.Transport{Strategy: d.make()}).Validate(), d.name)
	}
}

func modesTable() string {
	var b strings.Builder
	b.WriteString(`# Modes and presets

Made by ` + "`go test -run ModesTable -update .`" + ` from the functions themselves.

Our own modes are general: a request that is not idempotent is repeated only if
it provably was not processed. The presets named after an SDK or a page do what
that does, and repeat every request whatever its method ("all"). None waits
longer for a server than a minute, unless told so (Strategy.MaxRetryAfter).

Rand is uniform from 0 to 1, n the number of the retry from 0. A bucket's cost
is per retry, other failures / throttling; a success gives back what its retry
cost, at least 1. A gate counts no tokens; see [quotas.md](quotas.md). Other variants are a field away: TestVectorsQuota and
TestVectorsBackoff in package aws set those of the Go, Rust, JavaScript and PHP SDKs.

| mode | attempts | repeats | backoff | after throttling | bucket | cost | limiter | source |
|---|---|---|---|---|---|---|---|---|
`)
	for _, d := range documented {
		s := d.make()
		attempts, repeats, bucket, cost, limiter := fmt.Sprint(s.MaxAttempts), "idempotent", "none", "", "none"
		if s.RetryNonIdempotent {
			repeats = "all"
		}
		switch q := s.Quota.(type) {
		case *retrip.Bucket:
			bucket, cost = fmt.Sprint(q.Capacity()), fmt.Sprintf("%d / %d", s.Cost, s.ThrottleCost)
		case *retrip.Gate:
			bucket = "gate"
		}
		switch {
		case d.name == "aws.AdaptiveV1":
			limiter = "per request"
		case s.Limiter != nil:
			limiter = "per strategy"
		}
		throttled := "the same"
		if s.ThrottleBackoff != nil {
			throttled = formula(s.ThrottleBackoff)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			d.name, attempts, repeats, formula(s.Backoff), throttled, bucket, cost, limiter, d.source)
	}
	b.WriteString("\n## What is retried\n\nThe first rule that fits decides; what none fits is a success below status 400\nand permanent from there.\n")
	for _, d := range documented {
		s := d.make()
		fmt.Fprintf(&b, "\n**`%s`**\n\n", d.name)
		for _, c := range s.Classifiers {
			fmt.Fprintf(&b, "- %v\n", c)
		}
		for _, w := range s.Hints {
			fmt.Fprintf(&b, "- wait: %v\n", w)
		}
		if s.LongPoll != nil {
			b.WriteString("- long polls that the bucket refuses wait their backoff\n")
		}
	}
	return b.String()
}

func formula(b retrip.Backoff) string {
	capped := func(base, cap time.Duration) string {
		if cap == 0 {
			return fmt.Sprintf("%v·2ⁿ", base)
		}
		return fmt.Sprintf("min(%v, %v·2ⁿ)", cap, base)
	}
	switch b := b.(type) {
	case retrip.Exponential:
		return capped(b.Base, b.Cap)
	case retrip.FullJitter:
		return "Rand · " + capped(b.Base, b.Cap)
	case retrip.EqualJitter:
		return "(½ + ½ Rand) · " + capped(b.Base, b.Cap)
	}
	return fmt.Sprint(b)
}

// Each test that the README names exists, in this package or another of the
// repository.
func TestReadmeNamesTests(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var sources strings.Builder
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			sources.Write(source)
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)…?`").FindAllStringSubmatch(string(readme), -1)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		require.True(t, strings.Contains(sources.String(), "func "+name[1]), "no %s, which the README names", name[1])
	}
}
