package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A comparison is the results with the forwarder and with retrip, and the
// reasons of the table by the name of a test.
type comparison struct {
	control, tested results
	expected        map[string]string
}

// names are the tests that failed or should have.
func (c comparison) names() []string {
	names := map[string]bool{}
	for _, name := range slices.Concat(c.tested.failures(), c.control.failures(), slices.Collect(maps.Keys(c.expected))) {
		names[name] = !isUnsteady(name)
	}
	maps.DeleteFunc(names, func(_ string, compared bool) bool { return !compared })
	return slices.Sorted(maps.Keys(names))
}

// suspects are the tests whose results are not those that the table expects.
func (c comparison) suspects() []string {
	return slices.DeleteFunc(c.names(), func(name string) bool {
		_, expected := c.expected[name]
		return c.control.failed[name] == 0 && (c.tested.failed[name] > 0) == expected
	})
}

// differs reports whether a test fails with retrip and not with the forwarder:
// in at least half of its runs, since a slow machine alone makes some fail.
func (c comparison) differs(name string) bool {
	failed := c.tested.failed[name]
	return c.control.failed[name] == 0 && failed > 0 && failed >= c.tested.passed[name]
}

// missing are the tests that ran with the forwarder only.
func (c comparison) missing() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.control.passed)), func(name string) bool {
		return strings.Contains(name, "/") || c.tested.passed[name]+c.tested.failed[name]+c.tested.skipped[name] > 0
	})
}

// report prints what is not as the table expects and what is unsteady, and
// returns how much of it is wrong.
func (c comparison) report(wrapper string) int {
	wrong, known := 0, 0
	for _, name := range c.names() {
		_, expected := c.expected[name]
		failed, runs := c.tested.failed[name], c.tested.failed[name]+c.tested.passed[name]
		controlFailed, controlRuns := c.control.failed[name], c.control.failed[name]+c.control.passed[name]
		switch differs := c.differs(name); {
		case controlFailed > 0 && controlFailed == controlRuns:
			wrong++
			fmt.Printf("! %s: it fails with the forwarder, too: the patch breaks it\n", name)
		case controlFailed > 0:
			fmt.Printf("? %s is unsteady: it failed in %d of %d runs with the forwarder and %d of %d with %s\n",
				name, controlFailed, controlRuns, failed, runs, wrapper)
		case differs && !expected:
			wrong++
			fmt.Printf("! %s passes with the forwarder and fails with %s, %d times of %d\n", name, wrapper, failed, runs)
		case !differs && expected:
			wrong++
			fmt.Printf("! %s is in the table and failed in %d of %d runs with %s\n", name, failed, runs, wrapper)
		case !differs:
			fmt.Printf("? %s is unsteady: it failed in %d of %d runs with %s\n", name, failed, runs, wrapper)
		default:
			known++
		}
	}
	if missing := c.missing(); len(missing) > 0 {
		wrong++
		fmt.Printf("! %d tests did not run with %s, such as %s\n", len(missing), wrapper, missing[0])
	}
	fmt.Printf("  %-9s  %d differences that the table explains\n", wrapper, known)
	return wrong
}
