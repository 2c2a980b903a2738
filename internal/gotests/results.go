package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// results are those of one or more runs of a package's tests.
type results struct {
	passed, failed, skipped map[string]int // how often, by the name of a test or subtest
	died                    string         // the test in which the process ended, if it did so early
	failedOutside           bool           // all tests passed, and the process failed
	took                    time.Duration
	requests                int
	senders                 map[string]int // requests, by the name of a test
}

func newResults() results {
	return results{passed: map[string]int{}, failed: map[string]int{}, skipped: map[string]int{}, senders: map[string]int{}}
}

// parse reads the output of test2json. A test that began and did not end failed.
func parse(output []byte) (results, error) {
	r := newResults()
	running := map[string]bool{}
	ended, last := "", ""
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Action, Test string
			Elapsed      float64
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // written to standard error
		}
		counts := map[string]map[string]int{"pass": r.passed, "fail": r.failed, "skip": r.skipped}[event.Action]
		switch {
		case event.Action == "run", event.Action == "cont":
			running[event.Test] = true
		case event.Action == "pause":
			delete(running, event.Test)
		case counts == nil:
		case event.Action == "fail" && event.Test != "" && !running[event.Test]:
			// The process ended in another test; test2json blames the last that printed.
		case event.Test == "":
			ended, r.took = event.Action, time.Duration(event.Elapsed*float64(time.Second))
		default:
			last = event.Test
			counts[event.Test]++
			delete(running, event.Test)
		}
	}
	for _, test := range slices.Sorted(maps.Keys(running)) {
		r.failed[test]++
		r.died = test
	}
	if ended == "" && r.died == "" {
		r.died = last // test2json lets the running test fail
	}
	r.failedOutside = ended == "fail" && len(r.failed) == 0
	if len(r.passed)+len(r.failed)+len(r.skipped) == 0 {
		return r, fmt.Errorf("no test ran:\n%s", output)
	}
	return r, lines.Err()
}

// countRequests counts the notes of the driver: a test's name for each request,
// or "-" if it is not known.
func (r *results) countRequests(notes string) {
	for name := range strings.Lines(notes) {
		r.requests++
		if name = strings.TrimSpace(name); name != "-" {
			r.senders[name]++
		}
	}
}

// add adds the results of another run.
func (r *results) add(other results) {
	for _, counts := range [][2]map[string]int{
		{r.passed, other.passed}, {r.failed, other.failed}, {r.skipped, other.skipped}, {r.senders, other.senders},
	} {
		for name, n := range counts[1] {
			counts[0][name] += n
		}
	}
	r.took += other.took
	r.requests += other.requests
}

// asOne returns the results as those of one test, which failed if anything did.
func (r results) asOne(name string) results {
	if len(r.failed) > 0 || r.died != "" {
		r.passed, r.failed = map[string]int{}, map[string]int{name: 1}
	}
	return r
}

// report prints the results of a suite's tests and returns how many things are
// wrong with the run as a whole.
func (r results) report(wrapper string, s suite) int {
	fmt.Printf("  %-9s  %d passed, %d failed, %d skipped; %d requests, of at least %d tests; %v\n", wrapper,
		len(r.passed), len(r.failed), len(r.skipped), r.requests, len(r.senders), r.took.Round(100*time.Millisecond))
	wrong := 0
	complain := func(format string, args ...any) {
		wrong++
		fmt.Printf("! "+wrapper+": "+format+"\n", args...)
	}
	if r.died != "" {
		complain("the process ended in %s: if that has a good reason, let the test run alone", r.died)
	}
	if r.failedOutside {
		complain("all tests passed, and the process failed: a goroutine was left behind, or there was a data race")
	}
	if r.requests < s.requests || len(r.senders) < s.senders {
		complain("only %d requests of %d tests went through the wrapper, not %d of %d: does the patch still fit?",
			r.requests, len(r.senders), s.requests, s.senders)
	}
	return wrong
}

// failures are the tests that failed, without those that failed because of a
// subtest.
func (r results) failures() []string {
	names := slices.Sorted(maps.Keys(r.failed))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}
