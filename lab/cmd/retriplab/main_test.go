package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lab runs the command and returns its exit code and what it wrote.
func lab(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// small makes a scenario quick.
var small = []string{"-clients", "50", "-outage", "20s", "-policy", "none", "-policy", "standard", "-policy", "gated"}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const good = `name: mine
clients: 10
rate: 1
warm: 10s
outage: 10s
watch: 5s
policies: [standard, gated]
server: {latency: 5ms}
faults:
  - {failures: 1, as: refused}
`

func TestMistakesNamePlaceAndRemedy(t *testing.T) {
	folder := t.TempDir()
	file := write(t, "file", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"jump"}, "jump is no command: use run"},
		{[]string{"run"}, "run needs a scenario"},
		{[]string{"run", "missing"}, "missing: there is no such file or built-in scenario"},
		{[]string{"run", "a/b.yaml"}, "a/b.yaml: there is no such file"},
		{[]string{"run", folder}, "name a file that can be read"},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "clients: 10", "clints: 10", 1))}, "s.yaml:2: clints: no such field: use one of name,"},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "rate: 1", "rate: -1", 1))}, "s.yaml:3: rate: is negative"},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "rate: 1", "rate: fast", 1))}, `s.yaml:3: rate: is "fast": write a number`},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "warm: 10s", "warm: 10", 1))}, `s.yaml:4: warm: is "10": write a duration`},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "gated]", "gatd]", 1))}, `s.yaml:7: policies.1: is "gatd", which is no policy`},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "as: refused", "as: 418", 1))}, `s.yaml:10: faults.0.as: is "418": use one of 200`},
		{[]string{"run", write(t, "s.yaml", strings.Replace(good, "failures: 1,", "failures: 2,", 1))}, "s.yaml:10: faults.0.failures: is no part"},
		{[]string{"run", write(t, "s.yaml", good+"rate: 2\n")}, "rate: is there twice"},
		{[]string{"run", write(t, "s.yaml", good+"load: 2\n")}, "s.yaml:11: load: is set, but server.capacity is not"},
		{[]string{"run", write(t, "s.yaml", good+"strategy: {MaxAttempts: 0}\n")}, "MaxAttempts is 0: use 1 for no retries"},
		{[]string{"run", write(t, "s.yaml", good+"strategy: {Backoff: {FullJitter: {Base: 2s, Cap: 1s}}}\n")}, "above its cap"},
		{[]string{"run", write(t, "s.yaml", "{")}, "s.yaml: "},
		{[]string{"run", file}, "file: is empty"},
		{[]string{"run", "refused", "-clients", "-3"}, "-clients is -3: use 1 or more"},
		{[]string{"run", "refused", "-rate", "-1"}, "-rate is -1: use more than 0"},
		{[]string{"run", "refused", "-rate", "1", "-load", "0.5"}, "-load is 0.5, and -rate is set, too: use one"},
		{[]string{"run", "refused", "-capacity", "5"}, "has no capacity"},
		{[]string{"run", "refused", "-policy", "nobody"}, `-policy:1: policy: is "nobody", which is no policy`},
		{[]string{"run", "refused", "-policy", "adaptive"}, "has no send-rate limiter"},
		{[]string{"run", "refused", "-seeds", "1,x"}, "use whole numbers with commas"},
		{[]string{"run", "refused", "-require", "speed<3"}, `"speed" is no measure: use one of amplification`},
		{[]string{"run", "refused", "-require", "amplification=1"}, "has no <=, >=, < or >"},
		{[]string{"run", "refused", "-require", "p99<=soon"}, `"soon" is no number`},
		{[]string{"run", "refused", "-colour"}, "-colour"},
		{append([]string{"run", "refused", "-out", filepath.Join(file, "x")}, small...), "-out: "},
		{[]string{"compare", "-policy", "gated"}, "compare needs two policies"},
		{[]string{"list", "x"}, "takes no file"},
		{[]string{"show", "x"}, "x: there is no such file or built-in scenario"},
		{[]string{"replay", "x"}, "-format is missing"},
		{[]string{"replay", "-format", "xml", "x"}, `-format is "xml": use one of combined`},
		{[]string{"replay", "-format", "json", "missing.log"}, "missing.log"},
		{[]string{"replay", "-format", "json", file}, "file: no line is in the format json"},
		{[]string{"replay", "-format", "combined", "-rate", "3", file}, "-rate can't be set in a replay"},
		{[]string{"replay", "-format", "otlp", write(t, "spans.json", "{}\n{\n}\nx")}, "spans.json:4: is no OTLP/JSON export"},
	} {
		code, _, stderr := lab(t, t.Context(), c.args...)
		require.Equal(t, misuse, code, "%v: %s", c.args, stderr)
		require.Contains(t, stderr, c.want, c.args)
	}
}

func TestRequirementsSetTheExitCode(t *testing.T) {
	args := []string{"run", "refused", "-out", "none", "-policy", "gated", "-clients", "50", "-outage", "20s"}
	code, _, stderr := lab(t, t.Context(), append(args, "-require", "amplification<=1.4,recovery<=5s,lost>0")...)
	require.Equal(t, fine, code, stderr)
	code, _, stderr = lab(t, t.Context(), append(args, "-require", "amplification<=1.001")...)
	require.Equal(t, unmet, code)
	require.Regexp(t, `refused, gated: amplification is 1\.\d+, required is amplification<=1\.001`, stderr)
}

func TestInterruptLeavesNoFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "report")
	code, _, stderr := lab(t, ctx, append([]string{"run", "refused", "-out", out}, small...)...)
	require.Equal(t, unmet, code)
	require.Contains(t, stderr, "interrupted")
	require.NoDirExists(t, out)
}

func TestTheSameSeedGivesTheSameFiles(t *testing.T) {
	read := func(seed string) map[string]string {
		out := t.TempDir()
		code, _, stderr := lab(t, t.Context(), append([]string{"run", "refused", "brownout-late", "-seeds", seed, "-out", out}, small...)...)
		require.Equal(t, fine, code, stderr)
		files := map[string]string{}
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(out, e.Name()))
			require.NoError(t, err)
			files[e.Name()] = strings.ReplaceAll(string(text), out, "") // the command names the folder
		}
		return files
	}
	first := read("1,2")
	require.Equal(t, first, read("1,2"))
	require.NotEqual(t, first["results.csv"], read("3")["results.csv"])
	for _, name := range []string{"report.html", "results.json", "results.csv", "series.csv", "timeline-refused.svg", "timeline-refused.png", "quota-refused.svg"} {
		require.NotEmpty(t, first[name], name)
	}
}

var elsewhere = regexp.MustCompile(`(?i)<script|<link|<img|<iframe|@import|url\(|(src|href)=`)

func TestThePageNeedsNothingElse(t *testing.T) {
	page := smallReport(t)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Empty(t, elsewhere.FindAllString(string(text), -1))
	require.Contains(t, string(text), "A server refuses all connections for a minute: standard sends")
	require.Contains(t, string(text), "Where ours loses")
	require.Contains(t, string(text), "retriplab run refused")
}

// smallReport makes a report and returns its page.
func smallReport(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	code, stdout, stderr := lab(t, t.Context(), append([]string{"run", "refused", "brownout-late", "-out", out}, small...)...)
	require.Equal(t, fine, code, stderr)
	require.Contains(t, stdout, "gated")
	return filepath.Join(out, "report.html")
}

func TestListAndShow(t *testing.T) {
	code, stdout, _ := lab(t, t.Context(), "list")
	require.Equal(t, fine, code)
	require.Contains(t, stdout, "three-layers")
	require.Contains(t, stdout, "services.GitHub")
	code, stdout, _ = lab(t, t.Context(), "show", "refused")
	require.Equal(t, fine, code)
	require.Contains(t, stdout, "name: refused")
	code, stdout, _ = lab(t, t.Context(), "-help")
	require.Equal(t, fine, code)
	require.Contains(t, stdout, "-require")
}

func TestCompareTakesPoliciesWithOverrides(t *testing.T) {
	code, stdout, stderr := lab(t, t.Context(), "compare", "refused", "-clients", "50", "-out", "none",
		"-policy", "standard", "-policy", "{mode: standard, name: five, MaxAttempts: 5, Quota: {Throttle: {max: 10, ratio: 0.1}}}")
	require.Equal(t, fine, code, stderr)
	require.Contains(t, stdout, "five")
}

const access = `10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x" 0.010
10.0.0.1 - - [01/Mar/2026:12:00:10 +0000] "GET /b HTTP/1.1" 503 5 "-" "x" 0.010
10.0.0.1 - - [01/Mar/2026:12:00:11 +0000] "GET /b HTTP/1.1" 503 5 "-" "x" 0.010
10.0.0.2 - - [01/Mar/2026:12:00:12 +0000] "GET /b HTTP/1.1" 503 5 "-" "x" 0.010
garbage
10.0.0.2 - - [01/Mar/2026:12:01:00 +0000] "GET /b HTTP/1.1" 200 5 "-" "x" 0.010
`

const jsonLog = `{"time":"2026-03-01T12:00:00Z","client_ip":"a","status":200,"request_time":0.01,"resend_count":0}
{"ts":1772366410.5,"client_ip":"a","status":503,"duration_ms":10,"amz_sdk_request":"attempt=1; max=3"}
{"ts":1772366411.5,"client_ip":"a","status":"503","duration":"10ms","amz_sdk_request":"attempt=2; max=3"}
{"time":"2026-03-01T12:00:13Z","client_ip":"b","status":503,"traceparent":"00-aaaa-bb-01"}
{"time":"2026-03-01T12:01:13Z","client_ip":"b","status":200,"http.request.resend_count":0}
`

const spans = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"i"}}]},"scopeSpans":[{"spans":[
{"startTimeUnixNano":"1772366400000000000","endTimeUnixNano":"1772366400010000000","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"http.response.status_code","value":{"intValue":"503"}}]},
{"startTimeUnixNano":"1772366401000000000","endTimeUnixNano":"1772366401010000000","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"http.response.status_code","value":{"intValue":"200"}},{"key":"http.request.resend_count","value":{"intValue":"1"}}]},
{"startTimeUnixNano":"1772366401000000000","endTimeUnixNano":"1772366401010000000","attributes":[]}
]}]}]}`

func TestReplayTellsRetriesFromRequests(t *testing.T) {
	for format, c := range map[string]struct{ text, want string }{
		"combined": {access, "5 attempts of 2 clients: 4 requests and 1 retries, 1.25"},
		"json":     {jsonLog, "5 attempts of 2 clients: 4 requests and 1 retries"},
		"otlp":     {spans, "2 attempts of 1 clients: 1 requests and 1 retries"},
	} {
		out := t.TempDir()
		code, stdout, stderr := lab(t, t.Context(), "replay", "-format", format, write(t, "log", c.text), "-out", out)
		require.Equal(t, fine, code, stderr)
		require.Contains(t, stdout, c.want, format)
		require.Contains(t, stdout, "Estimates: ")
		require.Equal(t, format == "combined", strings.Contains(stdout, "the log does not say which attempts are retries"), format)
		require.Equal(t, format != "json", strings.Contains(stdout, "1 lines or spans could not be read"), format)
		require.FileExists(t, filepath.Join(out, "report.html"))
	}
}
