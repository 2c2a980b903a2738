package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrip-go/retrip/lab/internal/report"
	"github.com/retrip-go/retrip/lab/internal/scenario"
)

// A requirement is a bar that results must meet.
type requirement struct {
	text, measure string
	meets         func(x float64) bool
}

// measures are what can be required. Times are in seconds.
var measures = map[string]func(scenario.Result) float64{
	"amplification": func(r scenario.Result) float64 { return r.Amplification },
	"recovery": func(r scenario.Result) float64 {
		if r.Recovery == scenario.Never {
			return math.Inf(1)
		}
		return r.Recovery
	},
	"good": func(r scenario.Result) float64 { return r.Good },
	"peak": func(r scenario.Result) float64 { return r.Peak },
	"lost": func(r scenario.Result) float64 { return r.Lost },
	"p50":  func(r scenario.Result) float64 { return r.P50[1] },
	"p99":  func(r scenario.Result) float64 { return r.P99[1] },
}

var operators = []struct {
	sign string
	test func(x, bar float64) bool
}{
	{"<=", func(x, bar float64) bool { return x <= bar }},
	{">=", func(x, bar float64) bool { return x >= bar }},
	{"<", func(x, bar float64) bool { return x < bar }},
	{">", func(x, bar float64) bool { return x > bar }},
}

func parseRequirements(text string) (all []requirement, err error) {
	for part := range strings.SplitSeq(text, ",") {
		one, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func parseRequirement(text string) (requirement, error) {
	for _, op := range operators {
		name, value, ok := strings.Cut(text, op.sign)
		if !ok {
			continue
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if measures[name] == nil {
			return requirement{}, fmt.Errorf("%q is no measure: use one of %s", name, strings.Join(measureNames(), ", "))
		}
		bar, err := strconv.ParseFloat(value, 64)
		if d, wrong := time.ParseDuration(value); err != nil && wrong == nil {
			bar, err = d.Seconds(), nil
		}
		if err != nil || math.IsNaN(bar) {
			return requirement{}, fmt.Errorf("%q is no number: use one such as 1.1, or a time such as 5s", value)
		}
		return requirement{text, name, func(x float64) bool { return op.test(x, bar) }}, nil
	}
	return requirement{}, fmt.Errorf("%q has no <=, >=, < or >: use for example amplification<=1.1", text)
}

func measureNames() (names []string) {
	for name := range measures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkRequirements says which results do not meet what is required.
func (c *command) checkRequirements(all []*report.Page) error {
	unmet := 0
	for _, page := range all {
		for _, r := range page.Reports {
			for _, result := range r.Results {
				for _, q := range c.require {
					if x := measures[q.measure](result); !q.meets(x) {
						fmt.Fprintf(c.stderr, "%s, %s: %s is %.4g, required is %s\n", r.Scenario.Name, result.Policy, q.measure, x, q.text)
						unmet++
					}
				}
			}
		}
	}
	if unmet > 0 {
		return fmt.Errorf("retriplab: %d of the requirements are %w", unmet, errUnmet)
	}
	return nil
}
