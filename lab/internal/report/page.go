package report

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/retrip-go/retrip/lab/internal/scenario"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"inline":  func(p *Picture) (all []template.HTML) { return inline(p) },
	"seconds": Seconds,
	"percent": func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) },
	"two":     func(x float64) string { return fmt.Sprintf("%.2f", x) },
	"whole":   func(x float64) string { return fmt.Sprintf("%.0f", x) },
	"short":   func(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) },
}).Parse(pageText))

// inline returns a picture's panels, which this package draws and escapes itself.
func inline(p *Picture) (all []template.HTML) {
	for _, svg := range p.Inline() {
		all = append(all, template.HTML(svg))
	}
	return all
}

// A Page is a report.
type Page struct {
	Title    string
	Sentence string
	Notes    []string // what qualifies the results, such as estimates
	Command  string   // that makes the report again
	Pictures []*Picture
	Reports  []*scenario.Report
	Losses   []Loss
	Ours     bool // whether our policy takes part
	Files    []File
	Extra    map[string]any // further data for the JSON file, by name
}

// A File is a scenario's text.
type File struct{ Name, Text string }

// HTML returns the page. It needs nothing else.
func (p *Page) HTML() ([]byte, error) {
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, p)
	return out.Bytes(), err
}

// CSV returns a line for each scenario and policy.
func (p *Page) CSV() []byte {
	rows := [][]string{{
		"scenario", "policy", "seeds", "amplification", "least_amplification", "most_amplification", "good", "recovery_s",
		"peak", "requests", "lost", "refused_retries", "p50_before_s", "p99_before_s", "p50_outage_s", "p99_outage_s", "p50_after_s", "p99_after_s",
	}}
	for _, r := range p.Reports {
		for _, x := range r.Results {
			row := []string{r.Scenario.Name, x.Policy, strings.Trim(fmt.Sprint(r.Scenario.Seeds), "[]")}
			for _, v := range []float64{
				x.Amplification, x.LeastAmplification, x.MostAmplification, x.Good, x.Recovery, x.Peak, x.Requests, x.Lost, x.Refused,
				x.P50[0], x.P99[0], x.P50[1], x.P99[1], x.P50[2], x.P99[2],
			} {
				row = append(row, number(v))
			}
			rows = append(rows, row)
		}
	}
	return table(rows)
}

// SeriesCSV returns a line for each scenario, policy and step of time.
func (p *Page) SeriesCSV() []byte {
	rows := [][]string{{"scenario", "policy", "seconds", "requests", "attempts", "good", "answers", "level"}}
	for _, r := range p.Reports {
		for _, x := range r.Results {
			s := x.Series
			for i := range s.Attempts {
				at := float64(i)*s.Step - r.Scenario.Warm.Seconds()
				rows = append(rows, []string{
					r.Scenario.Name, x.Policy, number(at), number(s.Requests[i]), number(s.Attempts[i]),
					number(s.Good[i]), number(s.Answers[i]), number(s.Level[i]),
				})
			}
		}
	}
	return table(rows)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

func table(rows [][]string) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.WriteAll(rows); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// JSON returns all numbers. A recovery of -1 is none.
func (p *Page) JSON() ([]byte, error) {
	type run struct {
		Scenario string            `json:"scenario"`
		Title    string            `json:"title"`
		Seeds    []uint64          `json:"seeds"`
		Results  []scenario.Result `json:"results"`
	}
	doc := struct {
		Sentence string         `json:"sentence"`
		Notes    []string       `json:"notes,omitempty"`
		Command  string         `json:"command"`
		Runs     []run          `json:"runs"`
		Extra    map[string]any `json:"sweeps,omitempty"`
	}{p.Sentence, p.Notes, p.Command, nil, p.Extra}
	for _, r := range p.Reports {
		doc.Runs = append(doc.Runs, run{r.Scenario.Name, r.Scenario.Title, r.Scenario.Seeds, r.Results})
	}
	return json.MarshalIndent(doc, "", " ")
}

// Table returns the results as text for a terminal.
func Table(r *scenario.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", r.Scenario.Title, r.Scenario.Name)
	width := 10
	for _, x := range r.Results {
		width = max(width, len(x.Policy))
	}
	fmt.Fprintf(&b, "  %-*s  %9s  %7s  %9s  %7s  %8s  %10s\n", width, "policy", "attempts/", "good in", "recovery", "highest", "requests", "99th perc.")
	fmt.Fprintf(&b, "  %-*s  %9s  %7s  %9s  %7s  %8s  %10s\n", width, "", "request", "outage", "", "load", "lost", "in outage")
	for _, x := range r.Results {
		fmt.Fprintf(&b, "  %-*s  %9.2f  %6.1f%%  %9s  %7.2f  %8.0f  %8.3g s\n",
			width, x.Policy, x.Amplification, 100*x.Good, Seconds(x.Recovery), x.Peak, x.Lost, x.P99[1])
	}
	return b.String()
}
