// Gotests runs Go's own tests of its HTTP clients with retrip as the transport.
//
//	go run ./internal/gotests
//
// It takes the sources of the installed Go and a fixed version of
// golang.org/x/net, and patches copies in a temporary directory, which
// go test -overlay puts in the place of the originals. Every http.Client,
// http.Transport, http2.Transport and httputil.ReverseProxy of a test then sends
// through a wrapper. The tests of each package run once with each wrapper:
//
//   - forwarder, which only forwards. It is the control: a test that fails with
//     it says nothing about retrip.
//   - one: a retrip.Transport whose strategies allow one attempt.
//   - three: a retrip.Transport in its default mode, which allows three attempts.
//
// A difference is a test that passes with the forwarder and fails with retrip.
// The table in differences.go has all known ones with their reasons. The run
// fails on a difference that is not in the table, on an entry of the table whose
// test passes or does not exist, on a test that did not run, and if fewer requests or tests than
// stated there went through the wrapper.
//
// Some of Go's tests depend on time. A test whose result is not the expected one
// therefore runs three times more with the forwarder and with retrip: it differs
// if it failed in at least two of the four runs with retrip and in none with the
// forwarder. A test that failed otherwise is printed as unsteady.
//
// The tests run without -short: only then do they look for goroutines that a
// test left behind. None of them needs the network; fetching golang.org/x/net
// does, once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var (
	only     = flag.String("only", "", "run the tests of this package only")
	wrappers = flag.String("wrappers", "one,three", "the wrappers to compare with the forwarder")
	bound    = flag.Duration("bound", 2*time.Minute, "the longest that a package's tests may run with one wrapper")
	race     = flag.Bool("race", false, "switch the race detector on")
	keep     = flag.String("keep", "", "work in this directory, and keep the test binaries and their output there")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runInDirectory(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gotests:", err)
		os.Exit(1)
	}
}

// runInDirectory runs in a temporary directory, or in the one to keep.
func runInDirectory(ctx context.Context) error {
	if *keep != "" {
		dir, err := filepath.Abs(*keep)
		if err != nil {
			return err
		}
		return run(ctx, dir)
	}
	dir, err := os.MkdirTemp("", "gotests")
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, dir), os.RemoveAll(dir))
}

// run patches, builds and compares in dir.
func run(ctx context.Context, dir string) error {
	started := time.Now()
	p, err := patch(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Printf("%s, golang.org/x/net %s\n", runtime.Version(), netVersion)
	compared, wrong := 0, 0
	for _, s := range suites {
		if *only != "" && *only != s.path {
			continue
		}
		n, err := p.compareSuite(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		compared, wrong = compared+1, wrong+n
	}
	fmt.Printf("\n%v\n", time.Since(started).Round(time.Second))
	switch {
	case compared == 0:
		return fmt.Errorf("-only is %q: use a package of differences.go", *only)
	case wrong > 0:
		return fmt.Errorf("%d results are not as expected: see the lines with !, and differences.go", wrong)
	}
	return nil
}

// compareSuite runs a suite's tests with the forwarder and then with the other
// wrappers, prints what differs and returns how many results were unexpected.
func (p *patched) compareSuite(ctx context.Context, s suite) (int, error) {
	fmt.Printf("\n%s\n", s.path)
	binary, err := p.build(ctx, s)
	if err != nil {
		return 0, err
	}
	control, err := p.test(ctx, execution{suite: s, binary: binary, wrapper: "forwarder", bound: *bound})
	if err != nil {
		return 0, err
	}
	wrong := control.report("forwarder", s)
	for wrapper := range strings.SplitSeq(*wrappers, ",") {
		n, err := p.compareWrapper(ctx, execution{suite: s, binary: binary, wrapper: wrapper, bound: *bound}, control)
		if err != nil {
			return 0, err
		}
		wrong += n
	}
	return wrong, nil
}

// compareWrapper runs the tests with one wrapper, those together first that don't
// have to run alone.
func (p *patched) compareWrapper(ctx context.Context, e execution, control results) (int, error) {
	expected, alone := known(e.suite.path, e.wrapper)
	together := e
	together.skip = anyOf(alone)
	r, err := p.test(ctx, together)
	if err != nil {
		return 0, err
	}
	for _, name := range alone {
		by := e
		by.pattern, by.bound = anyOf([]string{name}), aloneBound
		single, err := p.test(ctx, by)
		if errors.Is(err, errEndless) {
			r.failed[name]++
			continue
		}
		if err != nil {
			return 0, err
		}
		r.add(single.asOne(name))
	}
	wrong := r.report(e.wrapper, e.suite)
	c := comparison{control: control, tested: r, expected: expected}
	if suspects := c.suspects(); len(suspects) > 0 {
		again := e
		again.pattern, again.skip, again.count = anyOf(suspects), together.skip, reruns
		if c.tested, err = p.testAgain(ctx, again, r); err != nil {
			return 0, err
		}
		again.wrapper = "forwarder"
		if c.control, err = p.testAgain(ctx, again, control); err != nil {
			return 0, err
		}
	}
	return wrong + c.report(e.wrapper), nil
}

// testAgain adds the results of an execution to those that came before.
func (p *patched) testAgain(ctx context.Context, e execution, before results) (results, error) {
	both := newResults()
	both.add(before)
	r, err := p.test(ctx, e)
	both.add(r)
	return both, err
}
