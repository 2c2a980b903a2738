package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode/utf8"
)

// Sizes in pixels. The widths of letters are those of common sans-serif fonts,
// rounded up.
const (
	width      = 920
	margin     = 20
	firstRow   = 62
	rowHeight  = 40
	boxLeft    = 400
	boxHeight  = 24
	arrowWidth = 92
	letter     = 6.7
)

// A mark is one piece of the picture, ready for the template.
type mark struct {
	Kind       string // "box", "arrow" or "stop"
	Class      string // of a box
	X, Y, W    float64
	TextX      float64
	Text       string
	TopY, MidY float64
}

type row struct {
	Y     float64
	Title string
	Marks []mark
}

// draw writes the picture. Colours are of the Okabe-Ito palette; each class also
// has a shape of its own, so that the picture needs no colours.
func draw(w io.Writer, s story) error {
	var rows []row
	y := float64(firstRow)
	for _, r := range s.requests {
		rows = append(rows, row{Y: y + boxHeight/2 + 4, Title: r.title, Marks: marks(r, boxLeft, y)})
		y += rowHeight
	}
	var classes request
	for _, class := range []string{"success", "transient", "throttled"} {
		classes.attempts = append(classes.attempts, attempt{outcome: class, class: class})
	}
	return picture.Execute(w, map[string]any{
		"Width": width, "Height": y + 32, "Margin": margin, "Left": boxLeft, "Rows": rows,
		"Legend": marks(classes, 650, 20), "Bottom": y + 12, "Summary": s.summary, "Alt": alt(s),
	})
}

// marks are the boxes and arrows of a request, from x to the right.
func marks(r request, x, y float64) (all []mark) {
	for _, a := range r.attempts {
		box := mark{Kind: "box", Class: a.class, X: x, Y: y, Text: a.outcome, W: 20 + letter*float64(utf8.RuneCountInString(a.outcome))}
		box.TextX, box.MidY = x+box.W/2, y+boxHeight/2+4
		all = append(all, box)
		x += box.W + 6
		switch {
		case a.wait != "":
			all = append(all, mark{
				Kind: "arrow", X: x, W: x + arrowWidth - 8, Text: a.wait,
				TextX: x + arrowWidth/2 - 6, TopY: y + 7, MidY: y + boxHeight/2,
			})
			x += arrowWidth
		case a.stop != "":
			all = append(all, mark{Kind: "stop", X: x + 4, MidY: y + boxHeight/2 + 4, Text: a.stop})
		default:
			x += 8
		}
	}
	return all
}

// alt tells the same in words, for those who do not see the picture.
func alt(s story) string {
	var b strings.Builder
	for _, r := range s.requests {
		b.WriteString(r.title + ": ")
		for _, a := range r.attempts {
			fmt.Fprintf(&b, "%s (%s)", a.outcome, a.class)
			switch {
			case a.wait != "":
				fmt.Fprintf(&b, ", %s, ", a.wait)
			case a.stop != "":
				fmt.Fprintf(&b, ", %s", a.stop)
			}
		}
		b.WriteString(". ")
	}
	return b.String() + s.summary
}

func escape(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(text))
	return b.String(), err
}

var picture = template.Must(template.New("").Funcs(template.FuncMap{"x": escape}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" role="img" aria-labelledby="t d">
<title id="t">The attempts of the quickstart</title>
<desc id="d">{{x .Alt}}</desc>
<!-- Made by go run ./internal/picture. -->
<style>
svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
.paper { fill: #ffffff }
.ink { fill: #1f2328 }
.soft { fill: #59636e; font-size: 11px }
.head { font-weight: 600 }
.line { stroke: #59636e; fill: none }
.tip { fill: #59636e }
.success { fill: #0072b2; stroke: #0072b2 }
.transient { fill: #e69f00; stroke: #e69f00 }
.throttled { fill: #cc79a7; stroke: #1f2328; stroke-dasharray: 3 2 }
.on { fill: #000000; text-anchor: middle; font-size: 12px }
.on.of-success { fill: #ffffff }
.mid { text-anchor: middle }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 }
.ink { fill: #f0f6fc }
.soft { fill: #9198a1 }
.line { stroke: #9198a1 }
.tip { fill: #9198a1 }
.throttled { stroke: #f0f6fc }
}
</style>
<rect class="paper" width="{{.Width}}" height="{{.Height}}"/>
<text class="ink head" x="{{.Margin}}" y="36">Request</text>
<text class="ink head" x="{{.Left}}" y="36">Attempts, from left to right</text>
{{range .Legend}}{{template "mark" .}}{{end}}{{range .Rows}}<text class="ink" x="{{$.Margin}}" y="{{.Y}}">{{x .Title}}</text>
{{range .Marks}}{{template "mark" .}}{{end}}{{end -}}
<text class="ink" x="{{.Margin}}" y="{{.Bottom}}">{{x .Summary}}</text>
</svg>
{{define "mark"}}{{if eq .Kind "box"}}<rect class="{{x .Class}}" x="{{printf "%.1f" .X}}" y="{{.Y}}" width="{{printf "%.1f" .W}}" height="24" rx="{{if eq .Class "success"}}12{{else}}3{{end}}"/><text class="on of-{{x .Class}}" x="{{printf "%.1f" .TextX}}" y="{{.MidY}}">{{x .Text}}</text>
{{else if eq .Kind "arrow"}}<text class="soft mid" x="{{printf "%.1f" .TextX}}" y="{{.TopY}}">{{x .Text}}</text><path class="line" d="M{{printf "%.1f" .X}} {{.MidY}}H{{printf "%.1f" .W}}"/><path class="tip" d="M{{printf "%.1f" .W}} {{.MidY}}m4 0l-7 -4v8z"/>
{{else}}<text class="ink" x="{{printf "%.1f" .X}}" y="{{.MidY}}">{{x .Text}}</text>
{{end}}{{end}}`))
