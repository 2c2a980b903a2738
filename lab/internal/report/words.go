package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/retrip-go/retrip/lab/internal/scenario"
)

// ours is the policy whose weak sides the report looks for.
const ours = "gated"

// Sentence says the result of a scenario.
func Sentence(r *scenario.Report) string {
	retrying := slices.DeleteFunc(slices.Clone(r.Results), func(x scenario.Result) bool { return x.Policy == "none" })
	if len(retrying) == 0 {
		retrying = r.Results
	}
	byLoad := func(a, b scenario.Result) int { return cmp.Compare(a.Amplification, b.Amplification) }
	worst, best := slices.MaxFunc(retrying, byLoad), slices.MinFunc(retrying, byLoad)
	if i := slices.IndexFunc(retrying, func(x scenario.Result) bool { return x.Policy == "standard" }); i >= 0 && retrying[i].Amplification > 1.5 {
		worst = retrying[i]
	}
	if i := slices.IndexFunc(retrying, func(x scenario.Result) bool { return x.Policy == ours }); i >= 0 && worst.Policy != ours {
		best = retrying[i]
	}
	if worst.Policy == best.Policy {
		return fmt.Sprintf("%s: %s sends %.2f attempts for each request, and the server is well %s.",
			r.Scenario.Title, worst.Policy, worst.Amplification, after(worst.Recovery))
	}
	return fmt.Sprintf("%s: %s sends %.2f attempts for each request, and the server is well %s; %s sends %.2f, and the server is well %s.",
		r.Scenario.Title, worst.Policy, worst.Amplification, after(worst.Recovery), best.Policy, best.Amplification, after(best.Recovery))
}

func after(recovery float64) string {
	switch recovery {
	case scenario.Never:
		return "not again while it is watched"
	case 0:
		return "at once when the outage ends"
	}
	return fmt.Sprintf("%.3g s after it", recovery)
}

// A Loss is a measure in which another policy does better than ours.
type Loss struct {
	Scenario, Measure string
	Ours              string
	Better, Value     string
}

// Losses finds, in each scenario and for each measure, the policy that does most
// better than ours, if one does by more than 2 %.
func Losses(all []*scenario.Report) (losses []Loss) {
	for _, r := range all {
		i := slices.IndexFunc(r.Results, func(x scenario.Result) bool { return x.Policy == ours })
		if i < 0 {
			continue
		}
		own := r.Results[i]
		for _, m := range measures {
			best := own
			for _, x := range r.Results {
				if m.value(x) < m.value(best) && !(x.Policy == "none" && m.cost) {
					best = x
				}
			}
			if m.value(own)-m.value(best) > max(0.02*m.value(own), m.least(r)) {
				losses = append(losses, Loss{r.Scenario.Title, m.name, m.text(own), best.Policy, m.text(best)})
			}
		}
	}
	return losses
}

// measures are better when they are lower.
var measures = []struct {
	name  string
	value func(scenario.Result) float64
	text  func(scenario.Result) string
	least func(*scenario.Report) float64 // difference that counts
	cost  bool                           // without retries there is none
}{
	{"requests lost", func(x scenario.Result) float64 { return x.Lost },
		func(x scenario.Result) string { return fmt.Sprintf("%.0f of %.0f", x.Lost, x.Requests) },
		func(r *scenario.Report) float64 { return 0.001 * r.Results[0].Requests }, false},
	{"attempts per request in the outage", func(x scenario.Result) float64 { return x.Amplification },
		func(x scenario.Result) string { return fmt.Sprintf("%.2f", x.Amplification) },
		func(*scenario.Report) float64 { return 0.01 }, true},
	{"recovery", func(x scenario.Result) float64 {
		if x.Recovery == scenario.Never {
			return 1e9
		}
		return x.Recovery
	}, func(x scenario.Result) string { return Seconds(x.Recovery) },
		func(*scenario.Report) float64 { return 1.5 }, false},
}

// Seconds writes a recovery.
func Seconds(x float64) string {
	if x == scenario.Never {
		return "never"
	}
	return fmt.Sprintf("%.3g s", x)
}
