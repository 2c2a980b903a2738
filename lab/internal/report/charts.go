package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/retrip-go/retrip/lab/internal/scenario"
)

var (
	firstsStyle   = draw.LineStyle{Color: black, Width: 1.1, Dashes: dashes(2, 2)}
	attemptsStyle = draw.LineStyle{Color: vermillion, Width: 1.6}
	answersStyle  = draw.LineStyle{Color: blue, Width: 2.2}
	capacityStyle = draw.LineStyle{Color: grey, Width: 1.2, Dashes: dashes(8, 3)}
)

// TimeLine draws what each policy sends and gets in the course of time.
func TimeLine(r *scenario.Report) *Picture {
	s := r.Scenario
	p := &Picture{
		Name: "timeline-" + s.Name, Title: s.Title,
		Caption: "Seconds from the begin of the outage, which is shaded. Vermillion: attempts that reach the server. Blue: good answers. Dotted: requests.",
		Alt:     "For each policy, requests, attempts and good answers per second over time.",
		key:     []entry{{"requests", firstsStyle}, {"attempts", attemptsStyle}, {"good answers", answersStyle}},
	}
	if s.Server.Capacity > 0 {
		p.key = append(p.key, entry{"capacity", capacityStyle})
		p.Caption += " Grey: the capacity of the healthy server."
	}
	top := 0.0
	for _, result := range r.Results {
		series := result.Series
		top = max(top, slices.Max(append([]float64{1}, series.Attempts[shown(s):]...))/series.Step)
	}
	for _, result := range r.Results {
		p.Panels = append(p.Panels, &Panel{Title: result.Policy, plot: timePlot(s, result, top)})
	}
	return p
}

// shown is the first step that pictures show: some time before the outage.
func shown(s *scenario.Scenario) int {
	before := max(s.Step, s.Outage/2)
	return int(max(0, s.Warm-before) / s.Step)
}

func timePlot(s *scenario.Scenario, result scenario.Result, top float64) *plot.Plot {
	plot := newPlot("seconds", "per second")
	series := result.Series
	from, to := shown(s), len(series.Attempts)
	xs := times(s, from, to)
	plot.Add(band{0, s.Outage.Seconds()})
	if s.Server.Capacity > 0 {
		plot.Add(line([]float64{xs[0], xs[len(xs)-1]}, []float64{s.Server.Capacity, s.Server.Capacity}, capacityStyle))
	}
	plot.Add(
		line(xs, perSecond(series.Attempts[from:to], series.Step), attemptsStyle),
		line(xs, perSecond(series.Answers[from:to], series.Step), answersStyle),
		line(xs, perSecond(series.Requests[from:to], series.Step), firstsStyle),
	)
	plot.Y.Min, plot.Y.Max = 0, top*1.05
	plot.X.Min, plot.X.Max = xs[0], xs[len(xs)-1]
	return plot
}

// times are the middles of steps, in seconds from the outage's begin.
func times(s *scenario.Scenario, from, to int) (xs []float64) {
	for i := from; i < to; i++ {
		xs = append(xs, (float64(i)+0.5)*s.Step.Seconds()-s.Warm.Seconds())
	}
	return xs
}

func perSecond(counts []float64, step float64) (rates []float64) {
	for _, n := range counts {
		rates = append(rates, n/step)
	}
	return rates
}

// Levels draws the inner state of the quotas.
func Levels(r *scenario.Report) *Picture {
	s := r.Scenario
	var key []entry
	plot := newPlot("seconds", "1 as good as new, 0 refuses")
	plot.Add(band{0, s.Outage.Seconds()})
	for i, result := range r.Results {
		if result.Policy == "none" || result.Policy == "unlimited" {
			continue
		}
		from, to := shown(s), len(result.Series.Level)
		l := line(times(s, from, to), result.Series.Level[from:to], styleOf(result.Policy, i))
		plot.Add(l)
		key = append(key, entry{result.Policy, l.LineStyle})
	}
	plot.Y.Min, plot.Y.Max = 0, 1.05
	return &Picture{
		key:  key,
		Name: "quota-" + s.Name, Title: "The quotas' inner state: " + s.Title, Wide: true, Panels: []*Panel{{plot: plot}},
		Caption: "Mean of a hundred clients: the tokens that a bucket has left, or how far a gate is from full doubt.",
		Alt:     "The level of each policy's quota over time.",
	}
}

// Durations draws the 50th and 99th percentile of how long requests take.
func Durations(r *scenario.Report) *Picture {
	p := &Picture{
		Name: "durations-" + r.Scenario.Name, Title: "How long callers wait: " + r.Scenario.Title,
		Caption: "Seconds until a request ends, well or badly, by when it began. Bars: the 50th percentile. Dots: the 99th.",
		Alt:     "The 50th and 99th percentile of each policy's request durations, in and after the outage.",
	}
	for phase, name := range map[int]string{1: "begun in the outage", 2: "begun after it"} {
		p.Panels = append(p.Panels, &Panel{Title: name, plot: durationPlot(r.Results, phase)})
	}
	slices.SortFunc(p.Panels, func(a, b *Panel) int { return len(b.Title) - len(a.Title) })
	return p
}

// durationPlot draws a bar and a mark for each policy, the first at the top.
func durationPlot(results []scenario.Result, phase int) *plot.Plot {
	plot := newPlot("seconds", "")
	var p99 plotter.XYs
	var names []string
	for i, result := range slices.Backward(results) {
		y := float64(len(results) - 1 - i)
		plot.Add(line([]float64{0, result.P50[phase]}, []float64{y, y}, draw.LineStyle{Color: blue, Width: 7}))
		p99 = append(p99, plotter.XY{X: result.P99[phase], Y: y})
		names = append(names, result.Policy)
	}
	plot.Add(&plotter.Scatter{XYs: p99, GlyphStyle: draw.GlyphStyle{Color: vermillion, Radius: 3.5, Shape: draw.CircleGlyph{}}})
	plot.NominalY(names...)
	plot.X.Min, plot.X.Max = 0, max(0.1, 1.05*plot.X.Max)
	return plot
}

// curveKey explains the lines of curves.
func curveKey(all []scenario.Curve) (key []entry) {
	for i, c := range all {
		key = append(key, entry{c.Policy, styleOf(c.Policy, i)})
	}
	return key
}

// curves draws one quantity of curves.
func curves(all []scenario.Curve, quantity int, x, y string, log bool) *plot.Plot {
	plot := newPlot(x, y)
	for i, c := range all {
		plot.Add(line(c.X, c.Y[quantity], styleOf(c.Policy, i)))
	}
	if log {
		plot.X.Scale, plot.X.Tick.Marker = logScale{}, decades{}
	}
	return plot
}

// OverFailures draws load and success over the part of attempts that fail.
func OverFailures(all []scenario.Curve) *Picture {
	load := curves(all, 0, "attempts that fail", "attempts per request", false)
	good := curves(all, 1, "attempts that fail", "requests that end well", false)
	load.Y.Min, good.Y.Min, good.Y.Max = 0.9, 0, 1.02
	return &Picture{
		key:  curveKey(all),
		Name: "failures", Title: "Load and success over the share of attempts that fail",
		Caption: "A server that fails by chance, whatever the load. The best policy saves as many requests as unlimited retries do while few attempts fail, and adds no load when most do.",
		Alt:     "Attempts per request and the part of requests that end well, over the failure rate.",
		Panels:  []*Panel{{Title: "load", plot: load}, {Title: "success", plot: good}},
	}
}

// OverClients draws amplification over the number of clients.
func OverClients(all []scenario.Curve) *Picture {
	plot := curves(all, 0, "clients that make the same requests together", "attempts per request", true)
	plot.Y.Min = 0.9
	return &Picture{
		key:  curveKey(all),
		Name: "clients", Title: "What retries add in an outage, over the number of clients", Wide: true,
		Caption: "The same traffic from ever more clients, each with a quota of its own. What is a limit for one client is none for a thousand.",
		Alt:     "Attempts per request in an outage over the number of clients, for each policy.",
		Panels:  []*Panel{{plot: plot}},
	}
}

// logScale is a logarithmic scale that starts at any x above 0.
type logScale struct{}

func (logScale) Normalize(least, most, x float64) float64 {
	least = max(least, 1e-3)
	return math.Log(max(x, least)/least) / math.Log(most/least)
}

type decades struct{}

func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for d := 1.0; d <= most*1.01; d *= 10 {
		if d >= least*0.99 {
			ticks = append(ticks, plot.Tick{Value: d, Label: fmt.Sprintf("%g", d)})
		}
	}
	return ticks
}

// Loops draws the good answers of a server whose load rises and falls again.
func Loops(all []scenario.Loop) *Picture {
	p := &Picture{
		Name: "loop", Title: "Load rises and falls again: does the server come back?",
		Caption: "Across: requests, over the server's capacity. Upwards: good answers, over the same. The load rises to 1.2 in small steps, and falls again. Where the lines part, the overload keeps itself going after its cause is gone.",
		Alt:     "Good answers over load, once while it rises and once while it falls, for each policy.",
	}
	up := draw.LineStyle{Color: blue, Width: 2.4}
	down := draw.LineStyle{Color: vermillion, Width: 1.6, Dashes: dashes(5, 2)}
	p.key = []entry{{"load rises", up}, {"load falls", down}}
	for _, l := range all {
		plot := newPlot("load", "good answers")
		turn := len(l.Load) / 2
		plot.Add(line(l.Load[:turn+1], l.Good[:turn+1], up), line(l.Load[turn:], l.Good[turn:], down))
		plot.Y.Min, plot.Y.Max = 0, 1.1
		p.Panels = append(p.Panels, &Panel{Title: l.Policy, plot: plot})
	}
	return p
}

// Maps draws recovery over load and the outage's length.
func Maps(all []scenario.Map) *Picture {
	p := &Picture{
		Name: "recovery", Title: "Seconds until a server that was overloaded is well again",
		Caption: fmt.Sprintf("By the load before the outage and its length, in which the server does half its work. The darker, the longer; a cross means not within %.0f s.", scenario.Watched.Seconds()),
		Alt:     "Heat map of recovery times over load and outage length, for each policy.",
	}
	for _, m := range all {
		plot := newPlot("load", "outage, s")
		plot.Add(heat{m})
		plot.X.Min, plot.X.Max = -0.5, float64(len(m.Loads))-0.5
		plot.Y.Min, plot.Y.Max = -0.5, float64(len(m.Lengths))-0.5
		plot.X.Tick.Marker, plot.Y.Tick.Marker = ordinals(m.Loads), ordinals(m.Lengths)
		p.Panels = append(p.Panels, &Panel{Title: m.Policy, plot: plot})
	}
	return p
}

type ordinals []float64

func (o ordinals) Ticks(float64, float64) (ticks []plot.Tick) {
	for i, v := range o {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}

// heat draws a cell for each recovery, with its number.
type heat struct{ scenario.Map }

func (h heat) Plot(c draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&c)
	for y, row := range h.Recovery {
		for x, seconds := range row {
			x0, x1 := trX(float64(x)-0.5), trX(float64(x)+0.5)
			y0, y1 := trY(float64(y)-0.5), trY(float64(y)+0.5)
			part := 1.0
			if seconds != scenario.Never {
				part = min(1, math.Log1p(seconds)/math.Log1p(scenario.Watched.Seconds()))
			}
			fill := vermillion
			fill.A = uint8(20 + 200*part)
			c.FillPolygon(fill, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
			label := fmt.Sprintf("%.0f", seconds)
			if seconds == scenario.Never {
				label = "×"
			}
			style := p.X.Tick.Label
			style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
			c.FillText(style, vg.Point{X: (x0 + x1) / 2, Y: (y0 + y1) / 2}, label)
		}
	}
}

// Pareto draws what policies cost in an outage against what they lose by chance.
func Pareto(all []scenario.Trade) *Picture {
	p := &Picture{
		Name: "pareto", Title: "What a policy costs in an outage, and what it loses on an ordinary day",
		Caption: "To the right: attempts per request while the server is down. Upwards: failed requests over those that must fail, where attempts fail by chance. The best place is the lower left corner.",
		Alt:     "Each policy as a point: background failures over amplification.",
	}
	for k, chance := range scenario.Chances {
		plot := newPlot("attempts per request in an outage", "failures over the ideal")
		top := 1.0
		var labels plotter.XYLabels
		for i, t := range all {
			point := plotter.XY{X: t.Amplification, Y: t.Over[k]}
			style := styleOf(t.Policy, i)
			plot.Add(&plotter.Scatter{XYs: plotter.XYs{point}, GlyphStyle: draw.GlyphStyle{Color: style.Color, Radius: 4, Shape: draw.CircleGlyph{}}})
			labels.XYs, labels.Labels = append(labels.XYs, point), append(labels.Labels, t.Policy)
			top = max(top, t.Over[k])
		}
		plot.Add(newLabels(labels))
		plot.X.Min, plot.X.Max = 0.9, 3.4
		plot.Y.Min, plot.Y.Max = 0.8, top*4
		plot.Y.Scale, plot.Y.Tick.Marker = logScale{}, decades{}
		p.Panels = append(p.Panels, &Panel{Title: fmt.Sprintf("%.0f %% of attempts fail", 100*chance), plot: plot})
	}
	return p
}

// labels writes names beside points, each pair where no other stands.
type labels struct{ plotter.XYLabels }

func newLabels(l plotter.XYLabels) labels { return labels{l} }

func (l labels) Plot(c draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&c)
	style := p.X.Tick.Label
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	order := make([]int, len(l.Labels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { // from the bottom up
		switch d := l.XYs[a].Y - l.XYs[b].Y; {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	var taken []vg.Rectangle
	for _, xy := range l.XYs { // the points themselves
		x, y := trX(xy.X), trY(xy.Y)
		taken = append(taken, vg.Rectangle{Min: vg.Point{X: x - 4, Y: y - 4}, Max: vg.Point{X: x + 4, Y: y + 4}})
	}
	for _, i := range order {
		at := vg.Point{X: trX(l.XYs[i].X) + 6, Y: trY(l.XYs[i].Y)}
		box := func() vg.Rectangle {
			return vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 5}, Max: vg.Point{X: at.X + style.Width(l.Labels[i]) + 4, Y: at.Y + 5}}
		}
		for slices.ContainsFunc(taken, func(r vg.Rectangle) bool { return overlap(r, box()) }) {
			at.Y += 1
		}
		taken = append(taken, box())
		c.FillText(style, at, l.Labels[i])
	}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
