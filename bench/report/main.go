// Report turns the output of go test -bench into tables for a README.
//
//	go run ./report bench.txt
//	go run ./report -filter '.name:(Success OR Retry)' -units 'sec/op|clocks' bench.txt
//
// A benchmark and its keys make a table, each peer a row, each unit a column of
// medians, with 95 % confidence intervals where they are above 1 %. "~" is a
// difference whose interval has zero in it. A key whose values are numbers
// makes a column of each value, and a table of each unit that varies with it.
// The statistics are benchstat's.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchproc"
	"golang.org/x/perf/benchunit"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("report: ")
	filter := flag.String("filter", "*", "which benchmarks, as benchstat's -filter")
	units := flag.String("units", "", "which units, a regular expression")
	flag.Parse()
	tables, err := read(&benchfmt.Files{Paths: flag.Args(), AllowStdin: true}, *filter, *units)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, t := range tables {
		t.write(out)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// derived units say again what sec/op and clocks say: too much of it, unless
// asked for, where each makes a table.
var derived = []string{"over-sec", "x-bare", "x-retrip"}

// A table is one benchmark with one set of those keys that aren't numbers.
type table struct {
	title   string
	peers   []string
	columns []string // the keys that are
	units   []string
	values  map[cell][]float64
}

type cell struct{ peer, column, unit string }

// A scanner is a benchfmt.Reader or benchfmt.Files.
type scanner interface {
	Scan() bool
	Result() benchfmt.Record
	Err() error
}

// read sorts results into tables, in the order of their appearance.
func read(in scanner, filter, units string) ([]*table, error) {
	wanted, err := benchproc.NewFilter(filter)
	if err != nil {
		return nil, err
	}
	unit, err := regexp.Compile(units)
	if err != nil {
		return nil, err
	}
	var tables []*table
	procs := ""
	for in.Scan() {
		switch r := in.Result().(type) {
		case *benchfmt.SyntaxError:
			log.Print(r) // and leave it out: a run was cut short, or a line has no times
		case *benchfmt.Result:
			if ok, err := wanted.Apply(r); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
			c, title, p := name(r.Name)
			if procs = cmp.Or(procs, p); p != procs {
				return nil, fmt.Errorf("GOMAXPROCS is %s and %s: leave out -cpu, the benchmarks that scale have a key for it", procs, p)
			}
			at := slices.IndexFunc(tables, func(t *table) bool { return t.title == title })
			if at < 0 {
				at = len(tables)
				tables = append(tables, &table{title: title, values: map[cell][]float64{}})
			}
			t := tables[at]
			t.peers, t.columns = add(t.peers, c.peer), add(t.columns, c.column)
			for _, v := range r.Values {
				if _, c.unit = benchunit.Tidy(0, v.Unit); c.unit == "B/s" || !unit.MatchString(c.unit) {
					continue // B/s says the same as sec/op; benchfmt leaves the unit of a 0 as it is
				}
				t.units = add(t.units, c.unit)
				t.values[c] = append(t.values[c], v.Value)
			}
		}
	}
	for _, t := range tables {
		if units == "" && len(t.columns) > 1 {
			t.units = slices.DeleteFunc(t.units, func(unit string) bool { return slices.Contains(derived, unit) })
		}
	}
	return tables, in.Err()
}

// name takes a benchmark's name to pieces.
func name(n benchfmt.Name) (c cell, title, procs string) {
	base, parts := n.Parts()
	title, procs, c.peer = string(base), "1", string(base)
	for _, part := range parts {
		key, value, _ := strings.Cut(string(part[1:]), "=")
		_, err := strconv.Atoi(value)
		switch {
		case part[0] == '-':
			procs = key
		case key == "peer":
			c.peer = value
		case err == nil:
			c.column = strings.TrimPrefix(c.column+", "+key+" "+value, ", ")
		default:
			title += ", " + key + " " + value
		}
	}
	return c, title, procs
}

func (t *table) write(w io.Writer) {
	fmt.Fprintf(w, "\n**%s**\n\n", t.title)
	if len(t.columns) == 1 {
		column := t.columns[0]
		if slices.Contains(t.units, "sec/op") {
			slices.SortStableFunc(t.peers, func(a, b string) int {
				return cmp.Compare(t.median(cell{a, column, "sec/op"}).Center, t.median(cell{b, column, "sec/op"}).Center)
			})
		}
		t.writeRows(w, "", t.units, func(peer, unit string) cell { return cell{peer, column, unit} })
		return
	}
	for _, unit := range t.units {
		if t.varies(unit) {
			t.writeRows(w, unit, t.columns, func(peer, column string) cell { return cell{peer, column, unit} })
			fmt.Fprintln(w)
		}
	}
}

// writeRows writes a row for each peer.
func (t *table) writeRows(w io.Writer, corner string, header []string, at func(peer, header string) cell) {
	line := func(cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(append([]string{corner}, header...)...)
	line(slices.Repeat([]string{"---"}, len(header)+1)...)
	for _, peer := range t.peers {
		row := []string{peer}
		for _, h := range header {
			row = append(row, t.text(at(peer, h)))
		}
		line(row...)
	}
}

// varies reports whether a peer's median differs from column to column.
func (t *table) varies(unit string) bool {
	for _, peer := range t.peers {
		for _, column := range t.columns {
			if t.median(cell{peer, column, unit}).Center != t.median(cell{peer, t.columns[0], unit}).Center {
				return true
			}
		}
	}
	return false
}

func (t *table) median(c cell) benchmath.Summary {
	if len(t.values[c]) == 0 {
		return benchmath.Summary{}
	}
	return benchmath.AssumeNothing.Summary(
		benchmath.NewSample(slices.Clone(t.values[c]), &benchmath.DefaultThresholds), 0.95)
}

// text is what a cell shows.
func (t *table) text(c cell) string {
	if len(t.values[c]) == 0 {
		return ""
	}
	m := t.median(c)
	bounded := !math.IsInf(m.Lo, 0) && !math.IsInf(m.Hi, 0)
	if difference := c.unit == "over-sec" || c.unit == "clocks"; difference && bounded && m.Lo <= 0 && m.Hi >= 0 {
		return "~"
	}
	var text string
	switch {
	case strings.Contains(c.unit, "sec"):
		text = benchunit.Scale(m.Center, benchunit.Decimal) + "s"
	case benchunit.ClassOf(c.unit) == benchunit.Binary && m.Center != 0:
		text = benchunit.Scale(m.Center, benchunit.Binary) + "B"
	default:
		text = strconv.FormatFloat(m.Center, 'g', 4, 64)
	}
	if width := strings.TrimPrefix(m.PctRangeString(), "-"); width != "0%" && width != "1%" {
		text += " ±" + width
	}
	return text
}

func add(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
