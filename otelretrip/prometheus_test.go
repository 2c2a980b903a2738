package otelretrip

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
)

// What a transport tells is scraped over HTTP while it meets all kinds of
// trouble.
func TestExported(t *testing.T) {
	target := exported(t)
	t.Run("names", func(t *testing.T) { testNames(t, scrape(t, target)) })
	t.Run("documentation", func(t *testing.T) { testDocumentation(t, scrape(t, target)) })
	t.Run("dashboard", func(t *testing.T) { testDashboard(t, scrape(t, target)) })
	t.Run("Prometheus", func(t *testing.T) { testPrometheus(t, target) })
}

// exported returns the address of the metrics of a transport that is busy until
// the test ends: with a host that fails at times, one that is down, and one that
// throttles.
func exported(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	scraped, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	begun := time.Now()
	var calls atomic.Int64
	transport, err := Wrap(&retrip.Transport{
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			n := calls.Add(1)
			switch host := req.URL.Host; {
			case host == "down.example", host == "gated.example":
				return status(503, "Retry-After", "0.001")(req)
			case host == "limited.example" && n%5 == 0 && time.Since(begun) > time.Second: // when it has seen some
				return status(429)(req)
			case host == "shaky.example" && n%5 == 0:
				return nil, io.ErrUnexpectedEOF
			}
			return status(200)(req)
		}),
		PerKey: func(host string) *retrip.Strategy {
			s := hurried()
			switch host {
			case "down.example":
				s.Quota = retrip.NewBucket(20)
			case "gated.example":
				s.Quota = new(retrip.Gate)
			case "limited.example":
				s.Limiter = retrip.NewLimiter()
			}
			return s
		},
	}, newKit(scraped).options)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for _, host := range []string{"shaky", "down", "gated", "limited", "limited", "limited"} {
		callers.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+".example/", nil)
			for ctx.Err() == nil {
				_, _ = transport.RoundTrip(req)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	t.Cleanup(callers.Wait)
	t.Cleanup(stop)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	require.Eventually(t, func() bool {
		return scrape(t, server.URL)["retrip_admission_delay_seconds_bucket"] != nil
	}, 30*time.Second, 200*time.Millisecond)
	return server.URL
}

// The names under which a Prometheus finds the metrics are those of the
// documentation.
func testNames(t *testing.T, series map[string]map[string]bool) {
	for metric, label := range map[string]string{
		"http_client_request_duration_seconds_bucket": "http_response_status_code",
		"retrip_attempts_total":                       "retrip_class",
		"retrip_retries_total":                        "server_port",
		"retrip_give_ups_total":                       "retrip_reason",
		"retrip_request_duration_seconds_bucket":      "retrip_outcome",
		"retrip_request_attempts_bucket":              "retrip_outcome",
		"retrip_wait_seconds_bucket":                  "retrip_wait_from",
		"retrip_admission_delay_seconds_bucket":       "server_port",
		"retrip_quota_tokens":                         "server_port",
		"retrip_quota_doubt":                          "server_port",
		"retrip_quota_shut":                           "server_port",
		"retrip_limiter_rate_per_second":              "server_port",
		"retrip_limiter_waiting":                      "server_port",
	} {
		require.Contains(t, series[metric], "server_address", metric)
		require.Contains(t, series[metric], label, metric)
		require.Contains(t, series[metric], "otel_scope_version", metric)
	}
}

var name = regexp.MustCompile(`\b(?:retrip|http_client)_\w+`)

// Every name in the documentation and the alerts is one of a metric, or of a
// label.
func testDocumentation(t *testing.T, series map[string]map[string]bool) {
	names := map[string]bool{}
	for metric, labels := range series {
		names[metric] = true
		maps.Copy(names, labels)
		if histogram, ok := strings.CutSuffix(metric, "_bucket"); ok {
			names[histogram] = true
		}
	}
	for _, file := range []string{"../docs/signals.md", "dashboards/alerts.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := name.FindAllString(string(text), -1)
		require.NotEmpty(t, found)
		for _, n := range found {
			require.True(t, names[n], "%s: %s", file, n)
		}
	}
}

var (
	sample = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	label  = regexp.MustCompile(`(\w+)="[^"]`) // an empty one is as good as none
)

// scrape returns the labels of each metric that target has.
func scrape(t *testing.T, target string) map[string]map[string]bool {
	t.Helper()
	resp, err := http.Get(target)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	series := map[string]map[string]bool{}
	for _, match := range sample.FindAllStringSubmatch(string(text), -1) {
		if series[match[1]] == nil {
			series[match[1]] = map[string]bool{}
		}
		for _, l := range label.FindAllStringSubmatch(match[2], -1) {
			series[match[1]][l[1]] = true
		}
	}
	return series
}

// A panel is what is checked of a Grafana panel.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("dashboards/retrip.json")
	require.NoError(t, err)
	var d struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(text, &d))
	return d.Panels
}

var (
	selector = regexp.MustCompile(`(\w+)\{(.*?)\}`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	grouping = regexp.MustCompile(`\bby \((.*?)\)`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// Every metric and label that the dashboard uses is one that is exported, and
// no panel lies on another.
func testDashboard(t *testing.T, series map[string]map[string]bool) {
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range dashboard(t) {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], p.Title)
				taken[at] = p.Title
			}
		}
		require.Equal(t, p.Type != "row", len(p.Targets) > 0, p.Title)
		for _, target := range p.Targets {
			requireVariables(t, target.Expr)
			if strings.Contains(target.Expr, "retrip_quota_tokens") || strings.Contains(target.Expr, "retrip_limiter_") {
				require.Contains(t, target.Expr, `"all servers"`, "the gauges of a shared strategy have no server")
			}
			grouped := requireExported(t, series, target.Expr)
			for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				require.Contains(t, grouped, l[1], p.Title)
			}
		}
	}
}

// requireVariables checks that each selector of a query obeys the dashboard's
// variables.
func requireVariables(t *testing.T, expr string) {
	t.Helper()
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		for label, variable := range map[string]string{"job": "$job", "instance": "$instance", "server_address": "$server"} {
			require.Contains(t, s[2], label+`=~"`+variable+`"`, expr)
		}
	}
}

// The dashboard lets the reader choose jobs, instances and servers. Each choice
// narrows the next.
func TestDashboardVariables(t *testing.T) {
	text, err := os.ReadFile("dashboards/retrip.json")
	require.NoError(t, err)
	var d struct {
		Templating struct {
			List []struct {
				Name  string
				Query json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	want := []struct{ name, query string }{
		{"datasource", "prometheus"},
		{"job", `label_values(retrip_attempts_total, job)`},
		{"instance", `label_values(retrip_attempts_total{job=~\"$job\"}, instance)`},
		{"server", `label_values(retrip_attempts_total{job=~\"$job\", instance=~\"$instance\"}, server_address)`},
	}
	require.Len(t, d.Templating.List, len(want))
	for i, v := range d.Templating.List {
		require.Equal(t, want[i].name, v.Name)
		require.Contains(t, string(v.Query), want[i].query)
	}
}

// requireExported checks the metrics and labels of a query, and returns the
// labels it groups by.
func requireExported(t *testing.T, series map[string]map[string]bool, expr string) (grouped []string) {
	t.Helper()
	known := map[string]bool{}
	selectors := selector.FindAllStringSubmatch(expr, -1)
	require.NotEmpty(t, selectors, expr)
	for _, s := range selectors {
		require.Contains(t, series, s[1], expr)
		maps.Copy(known, series[s[1]])
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			scraped := m[1] == "job" || m[1] == "instance" // Prometheus adds these
			require.True(t, scraped || series[s[1]][m[1]], "%s: %s", expr, m[1])
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ", ") {
			require.True(t, known[label], "%s: by %s", expr, label)
			grouped = append(grouped, label)
		}
	}
	return grouped
}

// Each alert links to its own section of docs/signals.md.
func TestRunbooks(t *testing.T) {
	alerts, err := os.ReadFile("dashboards/alerts.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/signals.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1)
	require.Len(t, names, 6)
	require.Equal(t, 6, strings.Count(string(alerts), "runbook_url:"))
	for _, name := range names {
		url := "https://github.com/retrip-go/retrip/blob/main/docs/signals.md#" + strings.ToLower(name[1])
		require.Contains(t, string(alerts), `runbook_url: "`+url+`"`)
		require.True(t, strings.Contains(string(page), "\n### "+name[1]+"\n"), "docs/signals.md has no section %s", name[1])
	}
}

// The alerts fire when they should and not when they should not.
func TestAlerts(t *testing.T) {
	promtool := debian(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = "dashboards"
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// debian is the path of a program of Debian's prometheus package.
func debian(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%v: apt-get install --no-install-recommends prometheus", err)
	}
	return path
}

// A real Prometheus that has scraped a transport for a while has an answer to
// every query of the dashboard, and takes the alerts.
func testPrometheus(t *testing.T, target string) {
	p := startPrometheus(t, debian(t, "prometheus"), target)
	require.Eventually(t, func() bool {
		found, err := p.query("sum_over_time(up[1m]) >= 4")
		return err == nil && found > 0
	}, 30*time.Second, 200*time.Millisecond)
	variables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m", "$server", ".*", "$job", "retrip", "$instance", ".*")
	for _, panel := range dashboard(t) {
		for _, target := range panel.Targets {
			found, err := p.query(variables.Replace(target.Expr))
			require.NoError(t, err, target.Expr)
			require.Positive(t, found, "%s: %s", panel.Title, target.Expr)
		}
	}
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	require.NoError(t, p.get("rules", nil, &rules))
	require.Len(t, rules.Data.Groups[0].Rules, 6)
	for _, rule := range rules.Data.Groups[0].Rules {
		require.Equal(t, "ok", rule.Health, rule)
	}
	for _, alert := range []string{
		`{alertname="RetripQuotaEmpty", alertstate="pending", server_address="down.example"}`,
		`{alertname="RetripRequestsFailing", alertstate="firing", server_address="down.example"}`,
	} {
		found, err := p.query("ALERTS" + alert)
		require.NoError(t, err)
		require.Positive(t, found, alert)
	}
}

// prom is the address of a running Prometheus.
type prom string

func startPrometheus(t *testing.T, program, target string) prom {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close()) // free for Prometheus

	dir := t.TempDir()
	alerts, err := filepath.Abs("dashboards/alerts.yml")
	require.NoError(t, err)
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: retrip
    static_configs: [{targets: [%q]}]
`, alerts, strings.TrimPrefix(target, "http://"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	command := exec.Command(program, "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address, "--log.level", "error")
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return prom("http://" + address)
}

// query returns how many series answer.
func (p prom) query(expr string) (int, error) {
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	err := p.get("query", url.Values{"query": {expr}}, &answer)
	return len(answer.Data.Result), err
}

func (p prom) get(what string, values url.Values, answer any) error {
	resp, err := http.Get(string(p) + "/api/v1/" + what + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}
