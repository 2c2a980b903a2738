package outage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables into docs/quotas.md (with -full)")

// A row of a table: a scenario, and what is measured in it.
type row struct {
	name string
	cell func(*testing.T, policy) string
}

func exact(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func amplifies(name string, c outageCase, s setting) row {
	return row{name, func(t *testing.T, p policy) string { return exact(c.amplification(t, p, s)) }}
}

func flaps(name string, clients int, rate float64) row {
	return row{name, func(t *testing.T, p policy) string { return exact(flapping(t, p, clients, rate)) }}
}

func overIdeal(name string, rate, chance float64, requests int, s setting) row {
	return row{name, func(t *testing.T, p policy) string {
		return exact(background(t, p, rate, chance, scaled(requests), s))
	}}
}

// saves is the worst of some blips.
func saves(name string, all []blip, s setting) row {
	return row{name, func(t *testing.T, p policy) string {
		worst := 1.0
		for _, b := range all {
			worst = min(worst, b.saved(t, p, s))
		}
		return share(worst)
	}}
}

func recovers(name string, b brownout) row {
	return row{name, func(t *testing.T, p policy) string {
		after, meanwhile := b.recovery(t, p)
		if after == never {
			return fmt.Sprintf("never (%s)", share(meanwhile))
		}
		return fmt.Sprintf("%.0f s (%s)", after, share(meanwhile))
	}}
}

func loses(name string, s script) row {
	return row{name, func(t *testing.T, p policy) string {
		lost, _, _ := s.play(t, p)
		return exact(lost)
	}}
}

func sends(name string, s script) row {
	return row{name, func(t *testing.T, p policy) string {
		_, _, attempts := s.play(t, p)
		return exact(attempts)
	}}
}

func crashes(name string, timed bool) row {
	return row{name, func(t *testing.T, p policy) string { return exact(crash(t, p, 20, 10, timed)) }}
}

func by(chance float64, c outageCase) outageCase { c.chance, c.end = chance, failed; return c }

func rates(clients int, rate, length float64) outageCase {
	return outageCase{clients: clients, rate: rate, length: length, chance: 1, end: refused}
}

func restarts(rate, length float64, attempts int) script {
	return script{setting{attempts, standard}, atRandom(rate, 40+length), down(30, 30+length), 300}
}

func inTurn(n int, p, missing float64, attempts, trials int) script {
	return script{setting{attempts, standard}, everySecond(n), unreliable(p, missing), trials}
}

func bursts(n, perSec int, tells bool, s setting) script {
	return script{s, atOnce(n), perSecond(perSec, tells), 200}
}

// tables are those of docs/quotas.md, by name.
var tables = map[string][]row{
	"outage": {
		amplifies("refused, 3 attempts", total, setting{3, long}),
		amplifies("refused, 5 attempts", total, setting{5, long}),
		amplifies("refused, 8 attempts", total, setting{8, long}),
		amplifies("timeouts after 2 s, 3 attempts", blackHole, setting{3, long}),
		amplifies("9 of 10 fail, 3 attempts", mostly, setting{3, long}),
		amplifies("half fail, 3 attempts", by(0.5, total), setting{3, long}),
		amplifies("refused, 3 attempts, backoff from 100 ms", total, setting{3, standard}),
		amplifies("refused, 5 attempts, backoff from 100 ms", total, setting{5, standard}),
		amplifies("refused, 8 attempts, backoff from 100 ms", total, setting{8, standard}),
	},
	"rates": {
		amplifies("1 a minute, 60 s", rates(1000, 1./60, 60), setting{3, long}),
		amplifies("1 a minute, 600 s", rates(1000, 1./60, 600), setting{3, long}),
		amplifies("0.1 per second, 60 s", rates(1000, 0.1, 60), setting{3, long}),
		amplifies("5 per second, 60 s", rates(200, 5, 60), setting{3, long}),
		amplifies("100 per second, 60 s", rates(10, 100, 60), setting{3, long}),
		amplifies("100 per second, 10 s", rates(10, 100, 10), setting{3, long}),
		flaps("0.8 per second, ten times 10 s, one a minute", 1000, 0.8),
		flaps("100 per second, the same", 10, 100),
	},
	"chance": {
		overIdeal("1 % fail, 1 request a minute", 1./60, 0.01, 400_000, setting{3, long}),
		overIdeal("1 %, 1 per second", 1, 0.01, 400_000, setting{3, long}),
		overIdeal("1 %, 1000 per second", 1000, 0.01, 400_000, setting{3, long}),
		overIdeal("10 %, 1 a minute", 1./60, 0.1, 400_000, setting{3, long}),
		overIdeal("10 %, 1 per second", 1, 0.1, 400_000, setting{3, long}),
		overIdeal("10 %, 1000 per second", 1000, 0.1, 400_000, setting{3, long}),
		overIdeal("30 %, 1 a minute", 1./60, 0.3, 400_000, setting{3, long}),
		overIdeal("30 %, 1 per second", 1, 0.3, 400_000, setting{3, long}),
		overIdeal("30 %, 1000 per second", 1000, 0.3, 400_000, setting{3, long}),
		overIdeal("50 %, 1 per second", 1, 0.5, 100_000, setting{3, long}),
		overIdeal("30 %, 1 per second, 5 attempts", 1, 0.3, 100_000, setting{5, long}),
	},
	"blips": {
		saves("50 to 500 ms, 10 to 1000 per second, 3 attempts: the worst", blips, setting{3, standard}),
		saves("the same, 5 attempts", blips, setting{5, standard}),
		saves("900 ms, 10 per second, 5 attempts", []blip{{10, 0.9}}, setting{5, standard}),
		saves("900 ms, 100 per second, 5 attempts", []blip{{100, 0.9}}, setting{5, standard}),
	},
	"brownouts": {
		recovers("late, 80 % load", late.at(0.8)),
		recovers("late, 90 % load", late.at(0.9)),
		recovers("costly, 80 % load", costly.at(0.8)),
		recovers("costly, 90 % load", costly.at(0.9)),
		recovers("late for 2 s, 90 % load, backoff from 100 ms", brownout{0.9, 2, 3, 0, setting{3, standard}}),
		recovers("costly for 2 s, 90 % load, 5 attempts, backoff from 100 ms", brownout{0.9, 2, 0.2, 0.3, setting{5, standard}}),
	},
	"scripts": {
		loses("1 request, 10 attempts, of a server that starts after 5 s", lone),
		loses("20 at once of a server that takes 5 per second and tells when, 3 attempts", burst3),
		loses("the same, 5 attempts", burst5),
		loses("one a second, server down for 3 s, 8 attempts", restart),
		loses("100 in turn, 60 % fail, 5 attempts", unsteady),
		loses("the same, 9 of 10 answers a 404", inTurn(100, 0.6, 0.9, 5, 200)),
		loses("1000 in turn, 60 % fail, 5 attempts", inTurn(1000, 0.6, 0, 5, 20)),
	},
	"losses": {
		loses("server down for 3 s, 1 request per second at random, 8 attempts: lost", restarts(1, 3, 8)),
		loses("the same, 2 per second", restarts(2, 3, 8)),
		loses("the same, 5 per second", restarts(5, 3, 8)),
		loses("server down for 2 s, 5 per second, 5 attempts: lost", restarts(5, 2, 5)),
		loses("100 in turn, 60 % fail, 3 attempts: lost", inTurn(100, 0.6, 0, 3, 200)),
		loses("100 in turn, 70 % fail, 3 attempts: lost", inTurn(100, 0.7, 0, 3, 200)),
		loses("20 at once, 5 per second, not told when, 5 attempts: lost", bursts(20, 5, false, setting{5, 1})),
		sends("0.8 per second, all told to wait 1 s for 60 s, 3 attempts: attempts", script{setting{3, standard}, atRandom(0.8, 60), waiting(1), 500}),
		sends("10 per second, 8 are taken, the others told when, 5 attempts: attempts", script{setting{5, standard}, atRandom(10, 60), perSecond(8, true), 20}),
		crashes("10 per second, answers take 10 s, a crash of 60 s: attempts", false),
		crashes("the same with an AttemptTimeout: attempts", true),
		amplifies("100 per second, 75 % fail, 8 attempts: attempts", outageCase{40, 100, 60, 0.75, failed, 0}, setting{8, standard}),
	},
}

func render(t *testing.T, rows []row) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, p := range policies {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(policies)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, p := range policies {
			fmt.Fprintf(&b, " %s |", r.cell(t, p))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// requireNear compares a table with what comes out now, cell by cell. Which of two
// goroutines runs first at an instant can change a number a little.
func requireNear(t *testing.T, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "|"), strings.Split(got, "|")
	require.Len(t, gots, len(wants))
	for i := range wants {
		a, ofA, _ := strings.Cut(strings.TrimSpace(wants[i]), " ")
		b, ofB, _ := strings.Cut(strings.TrimSpace(gots[i]), " ")
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX != nil || errY != nil {
			require.Equal(t, a+ofA, b+ofB)
			continue
		}
		delta := 0.05 + x/10
		if strings.HasPrefix(ofA, "s (") {
			delta += 2
		}
		require.InDelta(t, x, y, delta, "%s %s", a, ofA)
	}
}

// The tables of the documentation are what comes out, nearly. After a change:
//
//	go test ./internal/outage -run Tables -full -update
func TestTables(t *testing.T) {
	if !*full {
		t.Skip("takes minutes: use -full")
	}
	const file = "../../docs/quotas.md"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, rows := range tables {
		begin, end := []byte("<!-- made: "+name+" -->\n"), []byte("<!-- end -->")
		before, rest, found := bytes.Cut(page, begin)
		require.True(t, found, name)
		have, after, found := bytes.Cut(rest, end)
		require.True(t, found, name)
		made := render(t, rows)
		t.Logf("%s\n%s", name, made)
		if *update {
			page = bytes.Join([][]byte{before, begin, []byte(made), end, after}, nil)
		} else {
			requireNear(t, string(have), made)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, page, 0o644))
	}
}
