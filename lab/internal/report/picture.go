// Package report draws what the simulations found, and writes it as a page, as
// pictures, and as data.
package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Picture is one or more panels under one title.
type Picture struct {
	Name    string // of its file
	Title   string
	Caption string // what to see in it
	Alt     string // what it shows, in words
	Panels  []*Panel
	Wide    bool // one panel across the page
	key     []entry
}

// A Panel is one plot.
type Panel struct {
	Title string
	plot  *plot.Plot
}

// An entry explains a line of all panels.
type entry struct {
	name string
	line draw.LineStyle
}

const (
	panelWidth  = 4.2 * vg.Inch
	panelHeight = 2.3 * vg.Inch
	titleHeight = 0.35 * vg.Inch
	keyHeight   = 0.28 * vg.Inch
)

// The colours are those of Okabe and Ito, which people tell apart whatever their
// sight. They differ in lightness, too, and each line has a pattern of its own, so
// that they can be told apart in grey.
var (
	black      = color.NRGBA{A: 255}
	grey       = color.NRGBA{0x88, 0x88, 0x88, 255}
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 255}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 255}
	green      = color.NRGBA{0x00, 0x9e, 0x73, 255}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 255}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 255}
	purple     = color.NRGBA{0xcc, 0x79, 0xa7, 255}
	shade      = color.NRGBA{0x88, 0x88, 0x88, 0x33}
	faint      = color.NRGBA{0x88, 0x88, 0x88, 0x55}
)

func dashes(points ...vg.Length) []vg.Length { return points }

// styles are those of policies by name; others get what is left in turn.
var styles = map[string]draw.LineStyle{
	"none":      {Color: grey, Width: 1.2, Dashes: dashes(1, 3)},
	"unlimited": {Color: orange, Width: 1.6, Dashes: dashes(8, 3)},
	"standard":  {Color: blue, Width: 1.8},
	"aws-2026":  {Color: sky, Width: 1.6, Dashes: dashes(10, 3, 2, 3)},
	"finagle":   {Color: purple, Width: 1.6, Dashes: dashes(5, 3)},
	"envoy":     {Color: green, Width: 1.6, Dashes: dashes(2, 2)},
	"sre":       {Color: purple, Width: 1.2, Dashes: dashes(2, 4)},
	"brooker":   {Color: green, Width: 1.2, Dashes: dashes(9, 2, 2, 2, 2, 2)},
	"grpc":      {Color: sky, Width: 1.2},
	"gated":     {Color: vermillion, Width: 2.6},
}

var others = []draw.LineStyle{
	{Color: blue, Width: 1.2, Dashes: dashes(4, 2)},
	{Color: vermillion, Width: 1.4, Dashes: dashes(6, 2)},
	{Color: green, Width: 1.4},
	{Color: purple, Width: 1.4, Dashes: dashes(3, 3)},
	{Color: orange, Width: 1.4, Dashes: dashes(1, 2)},
}

func styleOf(policy string, i int) draw.LineStyle {
	if s, ok := styles[policy]; ok {
		return s
	}
	return others[i%len(others)]
}

// newPlot returns an empty plot in the style of all.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10)
		axis.Tick.Label.Font = sans(9.5)
		axis.Tick.LineStyle.Width = 0.5
		axis.LineStyle.Width = 0.6
		axis.Padding = 2
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = fewTicks{6}, fewTicks{5}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	grid.Vertical.Width, grid.Horizontal.Width = 0.4, 0.4
	p.Add(grid)
	return p
}

// fewTicks marks round numbers, about so many.
type fewTicks struct{ n float64 }

func (t fewTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	if !(most > least) {
		return []plot.Tick{{Value: least, Label: short(least)}}
	}
	unit := math.Pow(10, math.Floor(math.Log10((most-least)/t.n)))
	step := unit
	for _, m := range []float64{2, 2.5, 5, 10} {
		if (most-least)/step > t.n {
			step = m * unit
		}
	}
	for i := math.Ceil(least/step - 1e-9); i*step <= most+step*1e-9; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: short(i * step)})
	}
	return ticks
}

// short writes a number without what rounding left of it.
func short(x float64) string {
	x = math.Round(x*1e6) / 1e6
	if x == 0 {
		return "0" // not -0
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Length(size)}
}

func line(xs, ys []float64, style draw.LineStyle) *plotter.Line {
	points := make(plotter.XYs, len(xs))
	for i := range xs {
		points[i] = plotter.XY{X: xs[i], Y: ys[i]}
	}
	return &plotter.Line{XYs: points, LineStyle: style}
}

// band shades a range of x. It has no part in the axes' ranges.
type band struct{ from, to float64 }

func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	trX, _ := p.Transforms(&c)
	from, to := max(trX(b.from), c.Min.X), min(trX(b.to), c.Max.X)
	if to-from < 1 {
		to = from + 1
	}
	c.FillPolygon(shade, []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
}

// draw draws the panels of a picture on a canvas, in a grid of columns.
func (p *Picture) draw(c draw.Canvas, columns int, titled bool) {
	top := c.Max.Y
	if titled {
		style := text.Style{Color: black, Font: sans(13), XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
		c.FillText(style, vg.Point{X: c.Min.X + 8, Y: top - 6}, p.Title)
		top -= titleHeight
	}
	top -= p.drawKey(&c, c.Min.X, c.Max.X, top)
	rows := (len(p.Panels) + columns - 1) / columns
	width, height := (c.Max.X-c.Min.X)/vg.Length(columns), (top-c.Min.Y)/vg.Length(rows)
	for i, panel := range p.Panels {
		x, y := c.Min.X+vg.Length(i%columns)*width, top-vg.Length(i/columns)*height
		panel.plot.Title.Text = panel.Title
		panel.plot.Title.TextStyle.Font = sans(11)
		panel.plot.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x + 4, Y: y - height + 4}, Max: vg.Point{X: x + width - 10, Y: y - 4},
		}})
	}
}

// drawKey draws the lines' names in rows and returns how much room they take. With
// no canvas it only measures.
func (p *Picture) drawKey(c *draw.Canvas, left, right, top vg.Length) vg.Length {
	if len(p.key) == 0 {
		return 0
	}
	style := text.Style{Color: black, Font: sans(9.5), XAlign: text.XLeft, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
	x, y := left+8, top-keyHeight/2
	for _, e := range p.key {
		width := 36 + style.Width(e.name)
		if x+width > right && x > left+8 {
			x, y = left+8, y-keyHeight*0.7
		}
		if c != nil {
			c.StrokeLine2(e.line, x, y, x+22, y)
			c.FillText(style, vg.Point{X: x + 26, Y: y}, e.name)
		}
		x += width
	}
	return top - y + keyHeight/2
}

func (p *Picture) size(columns int) (w, h vg.Length) {
	rows := (len(p.Panels) + columns - 1) / columns
	w, h = vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight
	if p.Wide {
		w, h = 1.6*w, 1.25*h
	}
	return w, h + p.drawKey(nil, 0, w, 0)
}

func (p *Picture) columns() int { return min(2, len(p.Panels)) }

// SVG returns the picture as a file of its own, for light and dark pages.
func (p *Picture) SVG() []byte {
	w, h := p.size(p.columns())
	h += titleHeight
	canvas := vgsvg.New(w, h)
	p.draw(draw.New(canvas), p.columns(), true)
	return finish(canvas, p.Title, p.Alt, `<style>svg{color:#1b1b1b;background:#fff}@media (prefers-color-scheme:dark){svg{color:#e8e8e8;background:#16181d}}</style>`)
}

// Inline returns the panels as elements of a page.
func (p *Picture) Inline() (all []string) {
	for _, panel := range p.Panels {
		one := &Picture{Panels: []*Panel{panel}, Wide: p.Wide}
		w, h := one.size(1)
		canvas := vgsvg.New(w, h)
		one.draw(draw.New(canvas), 1, false)
		label := p.Title
		if panel.Title != "" {
			label += ": " + panel.Title
		}
		all = append(all, string(finish(canvas, label, p.Alt, "")))
	}
	return all
}

// PNG returns the picture on white.
func (p *Picture) PNG() ([]byte, error) {
	w, h := p.size(p.columns())
	h += titleHeight
	canvas := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))
	p.draw(draw.New(canvas), p.columns(), true)
	var out bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

var (
	svgHead   = regexp.MustCompile(`(?s)^.*?<svg width="([0-9.]+)pt" height="([0-9.]+)pt"[^>]*>`)
	fontNames = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*`)
	precision = regexp.MustCompile(`(\d+\.\d{2})\d+`)
)

// finish makes a plotted SVG fit for pages: it scales, takes the page's colour for
// what is black, any sans-serif font, and says in words what it shows.
func finish(c *vgsvg.Canvas, title, alt, style string) []byte {
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		panic(err) // a buffer takes everything
	}
	svg := out.String()
	size := svgHead.FindStringSubmatch(svg)
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" font-family="system-ui,'Liberation Sans',Arial,sans-serif"><title>%s</title><desc>%s</desc>%s`,
		size[1], size[2], escape(title), escape(alt), style)
	svg = head + svg[len(size[0]):]
	svg = strings.ReplaceAll(svg, "#000000", "currentColor")
	svg = fontNames.ReplaceAllString(svg, "font-weight:normal")
	svg = precision.ReplaceAllString(svg, "$1")
	return []byte(svg)
}

func escape(s string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(s)); err != nil {
		return ""
	}
	return out.String()
}

// A KeyEntry explains a line on a page.
type KeyEntry struct {
	Name, Color, Dash string
	Width             float64
}

// Key returns what the lines of all panels mean.
func (p *Picture) Key() (all []KeyEntry) {
	for _, e := range p.key {
		c := color.NRGBAModel.Convert(e.line.Color).(color.NRGBA)
		k := KeyEntry{Name: e.name, Color: fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B), Width: float64(e.line.Width) * 1.3}
		if c == black {
			k.Color = "currentColor"
		}
		for _, d := range e.line.Dashes {
			k.Dash += fmt.Sprintf("%g ", float64(d)*1.3)
		}
		all = append(all, k)
	}
	return all
}
