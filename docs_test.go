package retrip_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	return modesHead + numbersTable() + `
## What is retried

The first rule that fits decides. If none fits, a response below status 400 is a
success, and any other outcome is permanent. "wait" lines are read in order, and
the first wait that can be read counts.
` + rulesByMode()
}

const modesHead = `# Modes and presets

Made by ` + "`go test -run ModesTable -update .`" + ` from the functions themselves.

## Which to choose

| you want | take |
|---|---|
| to retry requests to any HTTP service | ` + "`Standard`" + `, which the zero Transport uses |
| to wait rather than fail where a service throttles you for minutes at a time | ` + "`Adaptive`" + `, with one strategy for each throttled resource |
| to call AWS as its SDKs do since 2026 | ` + "`aws.Standard2026`, `aws.Adaptive2026`" + `, for DynamoDB those with its name |
| to call GitHub, Stripe, Azure or another service with rules of its own | package services: [services.md](services.md) |
| that no outage makes your clients send a storm of retries | ` + "`Gated`" + `; see [quotas.md](quotas.md) |
| to behave exactly like an older SDK | ` + "`Legacy`" + ` or the preset named after it |

If in doubt, take ` + "`Standard`" + `. ` + "`Adaptive`" + ` delays first attempts too once the server
throttles, which is right only if all requests of the strategy share one limit.
` + "`Legacy`" + ` makes one attempt more, and its retries after throttling cost no quota: if
the server throttles everything, it goes on retrying.

The modes ` + "`Standard`, `Legacy`, `Adaptive` and `Gated`" + `, and those of 2026, retry a request that is not
idempotent only if the server certainly did not process it. The presets named
after an SDK do what that SDK does, and repeat every request whatever its method
("all" below). With each of them a server may ask for a wait of up to a minute
(Strategy.MaxRetryAfter).

## Numbers

Rand is uniform between 0 and 1; n is the number of the retry, from 0. A bucket's
cost is what a retry takes from it after other failures / after throttling; a
request that succeeds gives back what its last retry took, and at least 1. A gate
counts no tokens; [quotas.md](quotas.md) says which quota to take. Other variants are a field away: TestVectorsQuota and TestVectorsBackoff in package aws
set those of the Go, Rust, JavaScript and PHP SDKs.

| mode | attempts | repeats | backoff | after throttling | bucket | cost | limiter | source |
|---|---|---|---|---|---|---|---|---|
`

func numbersTable() string {
	var b strings.Builder
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
	return b.String()
}

// A ruleGroup is the modes that have the same rules.
type ruleGroup struct {
	names []string
	rules []string
}

func ruleGroups() (groups []ruleGroup) {
	for _, d := range documented {
		rules := rulesOf(d.make())
		i := slices.IndexFunc(groups, func(g ruleGroup) bool { return slices.Equal(g.rules, rules) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, ruleGroup{rules: rules})
		}
		groups[i].names = append(groups[i].names, "`"+d.name+"`")
	}
	return groups
}

func rulesOf(s *retrip.Strategy) (rules []string) {
	for _, c := range s.Classifiers {
		rules = append(rules, fmt.Sprint(c))
	}
	for _, w := range s.Hints {
		rules = append(rules, fmt.Sprint("wait: ", w))
	}
	if s.LongPoll != nil {
		rules = append(rules, "a long poll whose retry the bucket refuses still waits its backoff")
	}
	return rules
}

// sharedCodes are the lists of codes that several modes have, by a name of ours and
// one of the modes whose rule of a class has the list.
var sharedCodes = []struct {
	name, class string
	of          func() *retrip.Strategy
}{
	{"AWS's throttling codes", "throttled", retrip.Standard},
	{"AWS's transient codes", "transient", retrip.Standard},
	{"AWS's clock-skew codes", "clock-skewed", retrip.Standard},
	{"botocore's throttling codes", "throttled", func() *retrip.Strategy { return aws.Botocore("") }},
}

var codeList = regexp.MustCompile(`^([a-z-]+): .*\bcode ((?:[A-Za-z0-9]+, )+[A-Za-z0-9]+)$`)

func rulesByMode() string {
	var b strings.Builder
	var lists []string // what each name stands for, in turns with the name
	b.WriteString("\n| name | codes |\n|---|---|\n")
	for _, shared := range sharedCodes {
		for _, rule := range rulesOf(shared.of()) {
			if m := codeList.FindStringSubmatch(rule); m != nil && m[1] == shared.class {
				fmt.Fprintf(&b, "| %s | %s |\n", shared.name, m[2])
				lists = append(lists, "code "+m[2], "one of "+shared.name)
				break
			}
		}
	}
	shorten := strings.NewReplacer(lists...)
	groups := ruleGroups()
	for i, g := range groups {
		fmt.Fprintf(&b, "\n**%s**\n\n", strings.Join(g.names, ", "))
		rules := g.rules
		for _, base := range groups[:i] {
			if at, added := inserted(base.rules, rules); added != nil {
				fmt.Fprintf(&b, "The rules of %s, with these inserted after rule %d:\n\n", base.names[0], at)
				rules = added
				break
			}
		}
		for _, rule := range rules {
			fmt.Fprintf(&b, "- %s\n", shorten.Replace(rule))
		}
	}
	return b.String()
}

// inserted returns what rules has that base has not, if they stand together after
// the first ones of base and all else is the same.
func inserted(base, rules []string) (first int, added []string) {
	more := len(rules) - len(base)
	if len(base) == 0 || more <= 0 {
		return 0, nil
	}
	for first < len(base) && base[first] == rules[first] {
		first++
	}
	if !slices.Equal(base[first:], rules[first+more:]) {
		return 0, nil
	}
	return first, rules[first : first+more]
}

// Each list of codes that several modes have stands in docs/modes.md once.
func TestModesTableListsCodesOnce(t *testing.T) {
	seen := map[string]int{}
	for line := range strings.Lines(modesTable()) {
		if m := codeList.FindStringSubmatch(strings.TrimSpace(strings.TrimPrefix(line, "- "))); m != nil && strings.Count(m[2], ",") > 2 {
			seen[m[2]]++
			require.Equal(t, 1, seen[m[2]], "give this list a name in sharedCodes: %s", m[2])
		}
	}
	require.NotEmpty(t, seen)
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
	requireTests(t, "README.md", "`(Test[A-Za-z0-9]+)…?`")
}

// So are those that the table of the contract names.
func TestContractNamesTests(t *testing.T) {
	requireTests(t, "contract_test.go", `[ ,](Test[A-Z][A-Za-z0-9]+)(?:,|\n| and| \()`)
}

// requireTests checks that there are the tests whose names match the pattern in
// a file.
func requireTests(t *testing.T, file, pattern string) {
	t.Helper()
	text, err := os.ReadFile(file)
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
	names := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		require.True(t, strings.Contains(sources.String(), "func "+name[1]), "no %s, which %s names", name[1], file)
	}
}

// shownBy has the concepts that are shown by the example of another.
var shownBy = map[string]string{
	".LimiterState": "Limiter_State", ".NewLimiter": "Limiter", "migrateGiveUpError": "ErrorOnGiveUp", ".RestingQuota": "Gate", ".DoubtingQuota": "Gate",
}

// Each exported function and type has an Example with checked output.
func TestEveryConceptHasAnExample(t *testing.T) {
	for _, dir := range []string{".", "aws", "services", "migrate", "otelretrip"} {
		fset := token.NewFileSet()
		var code, tests []*ast.File
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			require.NoError(t, err)
			if strings.HasSuffix(name, "_test.go") {
				tests = append(tests, file)
			} else {
				code = append(code, file)
			}
		}
		shown := map[string]bool{}
		for _, example := range doc.Examples(tests...) {
			require.True(t, example.Output != "" || example.EmptyOutput, "%s: Example%s has no output to check", dir, example.Name)
			name, _, _ := strings.Cut(example.Name, "_")
			shown[name], shown[example.Name] = true, true
		}
		p, err := doc.NewFromFiles(fset, code, dir)
		require.NoError(t, err)
		names := []string{}
		for _, f := range p.Funcs {
			names = append(names, f.Name)
		}
		for _, typ := range p.Types {
			names = append(names, typ.Name)
			for _, f := range typ.Funcs {
				names = append(names, f.Name)
			}
		}
		for _, name := range names {
			assert.True(t, shown[name] || shown[shownBy[dir+name]], "%s: %s has no Example", dir, name)
		}
	}
}
