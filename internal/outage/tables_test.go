package outage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables into docs/quotas.md (with -full)")

// A column of a table.
type column struct {
	head string
	cell func(*testing.T, policy) string
}

func exact(x float64) string { return fmt.Sprintf("%.2f", x) }
func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// few is a number of lost requests.
func few(x float64) string {
	switch {
	case x >= 10:
		return fmt.Sprintf("%.0f", x)
	case x >= 1:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func amplifies(head string, c outageCase, s setting) column {
	return column{head, func(t *testing.T, p policy) string { return exact(c.amplification(t, p, s)) }}
}

func overIdeal(head string, rate, chance float64, requests int, s setting) column {
	return column{head, func(t *testing.T, p policy) string {
		x := background(t, p, rate, chance, scaled(requests), s)
		if x >= 10 {
			return fmt.Sprintf("%.0f", x)
		}
		return exact(x)
	}}
}

// saves is the worst of some blips.
func saves(head string, all []blip, s setting) column {
	return column{head, func(t *testing.T, p policy) string {
		worst := 1.0
		for _, b := range all {
			worst = min(worst, b.saved(t, p, s))
		}
		return share(worst)
	}}
}

func recovers(head string, b brownout) column {
	return column{head, func(t *testing.T, p policy) string {
		after, meanwhile := b.recovery(t, p)
		if after == never {
			return fmt.Sprintf("never (%s)", share(meanwhile))
		}
		return fmt.Sprintf("%.0f s (%s)", after, share(meanwhile))
	}}
}

func loses(head string, s script) column {
	return column{head, func(t *testing.T, p policy) string {
		lost, of, _ := s.play(t, p)
		if of <= 1 {
			return fmt.Sprintf("%.2g %%", 100*lost)
		}
		return few(lost)
	}}
}

func sends(head string, s script) column {
	return column{head, func(t *testing.T, p policy) string {
		_, _, attempts := s.play(t, p)
		return exact(attempts)
	}}
}

func at(chance float64, c outageCase) outageCase { c.chance, c.end = chance, failed; return c }

func rates(clients int, rate, length float64) outageCase {
	return outageCase{clients: clients, rate: rate, length: length, chance: 1, end: refused}
}

func restarts(rate, length float64, attempts int) script {
	return script{setting{attempts, standard}, atRandom(rate, 40+length), down(30, 30+length), 300}
}

func chances(p float64, attempts int) script {
	return script{setting{attempts, standard}, everySecond(100), unreliable(p, 0), 200}
}

// tables are those of docs/quotas.md, by name.
var tables = map[string][]column{
	"outage": {
		amplifies("refused, 3 attempts", total, setting{3, long}),
		amplifies("5", total, setting{5, long}),
		amplifies("8", total, setting{8, long}),
		amplifies("black hole, 3", blackHole, setting{3, long}),
		amplifies("90 % fail, 3", mostly, setting{3, long}),
		amplifies("50 % fail, 3", at(0.5, total), setting{3, long}),
		amplifies("100 ms: 3", total, setting{3, standard}),
		amplifies("5 ", total, setting{5, standard}),
		amplifies("8 ", total, setting{8, standard}),
	},
	"rates": {
		amplifies("1 a minute, 60 s", rates(1000, 1./60, 60), setting{3, long}),
		amplifies("600 s", rates(1000, 1./60, 600), setting{3, long}),
		amplifies("0.1/s, 60 s", rates(1000, 0.1, 60), setting{3, long}),
		amplifies("5/s, 60 s", rates(200, 5, 60), setting{3, long}),
		amplifies("100/s, 10 s", rates(10, 100, 10), setting{3, long}),
		amplifies("100/s, 60 s", rates(10, 100, 60), setting{3, long}),
		{"ten outages of 10 s, 0.8/s", func(t *testing.T, p policy) string { return exact(flapping(t, p, 1000, 0.8)) }},
		{"100/s", func(t *testing.T, p policy) string { return exact(flapping(t, p, 10, 100)) }},
	},
	"chance": {
		overIdeal("1 %, 1 a minute", 1./60, 0.01, 400_000, setting{3, long}),
		overIdeal("1/s", 1, 0.01, 400_000, setting{3, long}),
		overIdeal("1000/s", 1000, 0.01, 400_000, setting{3, long}),
		overIdeal("10 %, 1 a minute", 1./60, 0.1, 400_000, setting{3, long}),
		overIdeal("1/s ", 1, 0.1, 400_000, setting{3, long}),
		overIdeal("1000/s ", 1000, 0.1, 400_000, setting{3, long}),
		overIdeal("30 %, 1 a minute", 1./60, 0.3, 400_000, setting{3, long}),
		overIdeal("1/s  ", 1, 0.3, 400_000, setting{3, long}),
		overIdeal("1000/s  ", 1000, 0.3, 400_000, setting{3, long}),
		overIdeal("50 %, 1/s", 1, 0.5, 100_000, setting{3, long}),
		overIdeal("30 %, 1/s, 5 attempts", 1, 0.3, 100_000, setting{5, long}),
	},
	"blips": {
		saves("3 attempts", blips, setting{3, standard}),
		saves("5 attempts", blips, setting{5, standard}),
		saves("1 s, 10/s", []blip{{10, 0.9}}, setting{5, standard}),
		saves("1 s, 100/s", []blip{{100, 0.9}}, setting{5, standard}),
	},
	"brownouts": {
		recovers("late, 80 %", late.at(0.8)),
		recovers("late, 90 %", late.at(0.9)),
		recovers("costly, 80 %", costly.at(0.8)),
		recovers("costly, 90 %", costly.at(0.9)),
		recovers("late, 90 %, for 2 s", brownout{0.9, 2, 3, 0, setting{3, standard}}),
		recovers("costly, 90 %, for 2 s, 5 attempts", brownout{0.9, 2, 0.2, 0.3, setting{5, standard}}),
	},
	"scripts": {
		loses("a lone request, 10 attempts, server up after 5 s", lone),
		loses("20 at once, 5 per second, told when, 3 attempts", burst3),
		loses("5 attempts", burst5),
		loses("1/s, 3 s down, 8 attempts", restart),
		loses("100 in turn, 60 % fail, 5 attempts", unsteady),
		loses("100 in turn, 60 % fail, 5 attempts, 9 of 10 answers 404", script{setting{5, standard}, everySecond(100), unreliable(0.6, 0.9), 200}),
		loses("1000 in turn, 60 % fail, 5 attempts", script{setting{5, standard}, everySecond(1000), unreliable(0.6, 0), 20}),
	},
	"losses": {
		loses("3 s down, 8 attempts, 1/s at random", restarts(1, 3, 8)),
		loses("2/s", restarts(2, 3, 8)),
		loses("5/s", restarts(5, 3, 8)),
		loses("2 s down, 5 attempts, 5/s", restarts(5, 2, 5)),
		loses("100 in turn, 60 % fail, 3 attempts", chances(0.6, 3)),
		loses("70 %", chances(0.7, 3)),
		loses("20 at once, 5 per second, not told when, 5 attempts", script{setting{5, 1}, atOnce(20), perSecond(5, false), 200}),
		loses("50 at once, told when, 10 attempts", script{setting{10, standard}, atOnce(50), perSecond(5, true), 5}),
		sends("all told to wait 1 s for 60 s, 3 attempts", script{setting{3, standard}, atRandom(0.8, 60), waiting(1), 500}),
		amplifies("75 % fail, 100/s, 8 attempts", outageCase{10, 100, 60, 0.75, failed, 0}, setting{8, standard}),
	},
}

// wide tables have a row for each column.
func render(t *testing.T, columns []column) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, p := range policies {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(policies)) + "\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s |", strings.TrimSpace(c.head))
		for _, p := range policies {
			fmt.Fprintf(&b, " %s |", c.cell(t, p))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The tables of the documentation are what comes out. After a change:
//
//	go test -run Tables -full -update ./internal/outage
func TestTables(t *testing.T) {
	if !*full {
		t.Skip("takes minutes: use -full")
	}
	const file = "../../docs/quotas.md"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, columns := range tables {
		begin, end := []byte("<!-- made: "+name+" -->\n"), []byte("<!-- end -->")
		before, rest, found := bytes.Cut(page, begin)
		require.True(t, found, name)
		have, after, found := bytes.Cut(rest, end)
		require.True(t, found, name)
		made := render(t, columns)
		t.Logf("%s\n%s", name, made)
		if *update {
			page = bytes.Join([][]byte{before, begin, []byte(made), end, after}, nil)
		} else {
			require.Equal(t, made, string(have), "make it anew: go test -run Tables -full -update ./internal/outage")
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, page, 0o644))
	}
}
