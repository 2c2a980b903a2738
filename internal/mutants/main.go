// Mutants breaks retrip on purpose, one line at a time, and reports which of
// the faults the tests find:
//
//	go run ./internal/mutants [-run REGEXP] [-list] [-quick] [-race]
//
// The faults are the rows that list.go puts together: each says in its name what a user would
// suffer from. A mutant never touches the working tree: go test -overlay
// compiles the changed file in place of the real one. It meets the tests of its
// row first, and if it survives those, the whole suite. A mutant that survives,
// does not apply or does not compile fails the run.
//
// Tools that make mutants by themselves, such as gremlins, change one operator
// at a time. They can't drop an effect, swap two steps, forget a case or use
// another formula, which is what breaks a retry loop; and they run all of the
// package's tests against each mutant, which takes hours here. They are still
// good for a look at one new file of arithmetic:
//
//	go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash --dry-run .
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"time"
)

// workers is how many mutants are tested at a time: two keep a small machine
// busy, and more would make tests with short deadlines fail for want of a core.
const workers = 2

var errInterrupted = errors.New("interrupted")

func main() {
	var (
		run   = flag.String("run", "", "test only the mutants whose name matches this `regexp`")
		list  = flag.Bool("list", false, "only check that the mutants apply, and list them")
		race  = flag.Bool("race", false, "use the race detector")
		quick = flag.Bool("quick", false, "spare survivors of their own tests the whole suite")
		limit = flag.Duration("limit", 30*time.Second, "how long the tests of a row may take; the whole suite gets ten times that")
	)
	flag.Parse()
	wanted, err := regexp.Compile(*run)
	if err != nil || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := test(ctx, wanted, settings{race: *race, quick: *quick, limit: *limit}, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// test tests the mutants whose name is wanted, or only lists them, and reports
// whether all were as they should be.
func test(ctx context.Context, wanted *regexp.Regexp, s settings, listOnly bool) (ok bool, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return false, fmt.Errorf("go list finds no module: %w", err)
	}
	s.root = strings.TrimSpace(string(out))
	files, err := sources(s.root)
	if err != nil {
		return false, err
	}
	var chosen []mutant
	for _, m := range mutants {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no mutant's name matches %q", wanted)
	}
	if listOnly {
		return show(files, chosen), nil
	}
	if s.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return false, err
	}
	defer os.RemoveAll(s.dir)
	l, err := newLaboratory(ctx, s, chosen)
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	if err != nil {
		return false, err
	}
	return testAll(ctx, l, files, chosen)
}

// testAll tests the mutants, a few at a time, and prints each result as it comes.
func testAll(ctx context.Context, l *laboratory, files map[string]string, chosen []mutant) (ok bool, err error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		count [len(outcomeNames)]int
		begun = time.Now()
	)
	next := make(chan mutant)
	for range workers {
		wg.Go(func() {
			for m := range next {
				start := time.Now()
				r := l.test(ctx, files, m)
				if r.outcome == interrupted {
					continue
				}
				mu.Lock()
				count[r.outcome]++
				fmt.Printf("%-16s %5.1fs  %s%s\n", r.outcome, time.Since(start).Seconds(), m.name, indent(r.detail))
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		if ctx.Err() == nil {
			next <- m
		}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	fmt.Printf("\n%d mutants in %v:", len(chosen), time.Since(begun).Round(time.Second))
	ok = true
	for o, n := range count {
		if n > 0 {
			fmt.Printf(" %d %v;", n, outcome(o))
			ok = ok && !outcome(o).bad()
		}
	}
	fmt.Println()
	return ok, nil
}

// show lists the mutants and reports whether all of them apply.
func show(files map[string]string, chosen []mutant) (ok bool) {
	ok = true
	for _, m := range chosen {
		file, _, err := m.apply(files)
		if err != nil {
			ok = false
			fmt.Printf("%s: does not apply: %v\n", m.name, err)
			continue
		}
		fmt.Printf("%s: %s [%s]\n", file, m.name, m.tests)
	}
	return ok
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "\n    " + string(bytes.ReplaceAll([]byte(strings.TrimSpace(text)), []byte("\n"), []byte("\n    ")))
}
