package retrip

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/modes.md anew")

// documented is every mode and preset, with the source of its numbers.
var documented = []struct {
	name   string
	make   func() *Strategy
	source string
}{
	{"Standard", Standard, "AWS SDK for Java 2.x guide, Retry behavior, standard; statuses: ours"},
	{"Legacy", Legacy, "the same page, legacy; statuses: ours"},
	{"Adaptive", Adaptive, "the same page, adaptive (ADAPTIVE_V2); statuses: ours"},
	{"Standard2026", Standard2026, "AWS SDKs and Tools Reference Guide, Retry behavior, 2026"},
	{"Adaptive2026", Adaptive2026, "the same page"},
	{"Standard2026DynamoDB", Standard2026DynamoDB, "the same page"},
	{"Adaptive2026DynamoDB", Adaptive2026DynamoDB, "the same page"},
	{"AdaptiveV1", AdaptiveV1, "aws-sdk-java-v2 before 2.26, RetryMode.ADAPTIVE"},
	{`Botocore("")`, func() *Strategy { return Botocore("") }, "botocore data/_retry.json, retryhandler.py"},
	{`Botocore("organizations")`, func() *Strategy { return Botocore("organizations") }, "the same"},
	{`Botocore("dynamodb")`, func() *Strategy { return Botocore("dynamodb") }, "the same"},
	{`Botocore("ec2")`, func() *Strategy { return Botocore("ec2") }, "the same"},
	{`Botocore("cloudsearch")`, func() *Strategy { return Botocore("cloudsearch") }, "the same"},
	{`Botocore("kinesis")`, func() *Strategy { return Botocore("kinesis") }, "the same"},
	{`Botocore("sqs")`, func() *Strategy { return Botocore("sqs") }, "the same"},
	{`Botocore("s3")`, func() *Strategy { return Botocore("s3") }, "the same, and handlers.py for status 200"},
	{`Botocore("glacier")`, func() *Strategy { return Botocore("glacier") }, "the same"},
	{`Botocore("route53")`, func() *Strategy { return Botocore("route53") }, "the same"},
	{`Botocore("sts")`, func() *Strategy { return Botocore("sts") }, "the same"},
	{"JavaV1", JavaV1, "aws-sdk-java 1.x, PredefinedRetryPolicies, PredefinedBackoffStrategies, RetryUtils"},
	{"JavaV1DynamoDB", JavaV1DynamoDB, "the same"},
	{"JavaScriptV2", JavaScriptV2, "aws-sdk-js 2.x, lib/service.js, lib/util.js"},
	{"JavaScriptV2DynamoDB", JavaScriptV2DynamoDB, "the same, lib/services/dynamodb.js"},
	{"AlibabaKMS", AlibabaKMS, "Alibaba Cloud KMS, page on retries, pseudo code"},
	{"AlibabaKMSJava", AlibabaKMSJava, "the same page, Java sample"},
	{"FixedInterval(1s, 1m)", func() *Strategy { return FixedInterval(time.Second, time.Minute) }, "the same page, simple retry"},
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
		require.NoError(t, (&Transport{Strategy: d.make()}).Validate(), d.name)
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
cost, at least 1. Other variants are a field away: TestVectorsQuota and
TestVectorsBackoff set those of the Go, Rust, JavaScript and PHP SDKs.

| mode | attempts | repeats | backoff | after throttling | bucket | cost | limiter | source |
|---|---|---|---|---|---|---|---|---|
`)
	for _, d := range documented {
		s := d.make()
		attempts, repeats, bucket, cost, limiter := fmt.Sprint(s.MaxAttempts), "idempotent", "none", "", "none"
		if s.MaxAttempts == 1<<30 {
			attempts = "for the period"
		}
		if s.RetryNonIdempotent {
			repeats = "all"
		}
		if q, ok := s.Quota.(*Bucket); ok {
			bucket, cost = fmt.Sprint(q.Capacity()), fmt.Sprintf("%d / %d", s.Cost, s.ThrottleCost)
		}
		if s.Limiter != nil {
			limiter = "per strategy"
			if s.Limiter.perRequest {
				limiter = "per request"
			}
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
			fmt.Fprintf(&b, "- %s\n", rule(c))
		}
		for _, w := range s.Hints {
			fmt.Fprintf(&b, "- wait: %s\n", describe(w))
		}
		if s.LongPoll != nil {
			b.WriteString("- long polls that the bucket refuses wait their backoff\n")
		}
	}
	return b.String()
}

func formula(b Backoff) string {
	capped := func(base, cap time.Duration) string {
		if cap == 0 {
			return fmt.Sprintf("%v·2ⁿ", base)
		}
		return fmt.Sprintf("min(%v, %v·2ⁿ)", cap, base)
	}
	switch b := b.(type) {
	case Constant:
		return fmt.Sprintf("%v, within %v", b.Wait, b.Period)
	case Exponential:
		return capped(b.Base, b.Cap)
	case FullJitter:
		return "Rand · " + capped(b.Base, b.Cap)
	case EqualJitter:
		return "(½ + ½ Rand) · " + capped(b.Base, b.Cap)
	}
	return describe(b)
}

func rule(c Classifier) string {
	r, ok := c.(*codeRule)
	if !ok {
		return describe(c)
	}
	var codes []string
	for code := range r.codes {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	text := fmt.Sprintf("%v: code %s", r.class, strings.Join(codes, ", "))
	if r.status != 0 {
		text += fmt.Sprintf(" with status %d", r.status)
	}
	return text
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
