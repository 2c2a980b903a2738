package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/h1"}
{"Action":"output","Test":"TestA/h1","Output":"--- FAIL"}
{"Action":"fail","Test":"TestA/h1"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"pass","Test":"TestB"}
text on standard error
{"Action":"run","Test":"TestC"}
{"Action":"skip","Test":"TestC"}
`

func parsed(t *testing.T, text string) results {
	t.Helper()
	r, err := parse([]byte(text))
	require.NoError(t, err)
	return r
}

func TestParse(t *testing.T) {
	r := parsed(t, output+`{"Action":"fail","Elapsed":1.5}`)
	require.Equal(t, []string{"TestA/h1"}, r.failures())
	require.Equal(t, map[string]int{"TestB": 1}, r.passed)
	require.Equal(t, map[string]int{"TestC": 1}, r.skipped)
	require.Empty(t, r.died)
	require.False(t, r.failedOutside)

	_, err := parse([]byte("text on standard error\n"))
	require.ErrorContains(t, err, "no test ran")
}

// A paused test is not the one in which the process ended, nor is one that had
// passed, whatever test2json says.
func TestParseOfAProcessThatEndsEarly(t *testing.T) {
	r := parsed(t, output+`{"Action":"run","Test":"TestPaused"}
{"Action":"pause","Test":"TestPaused"}
{"Action":"run","Test":"TestHangs"}
{"Action":"fail","Test":"TestB"}
`)
	require.Equal(t, "TestHangs", r.died)
	require.Equal(t, []string{"TestA/h1", "TestHangs"}, r.failures())
	require.Equal(t, map[string]int{"TestHangs": 1}, r.asOne("TestHangs").failed)
}

func TestParseOfALeak(t *testing.T) {
	r := parsed(t, `{"Action":"run","Test":"TestB"}
{"Action":"pass","Test":"TestB"}
{"Action":"fail"}
`)
	require.True(t, r.failedOutside)
	require.Equal(t, 1, r.report("one", suite{}))
}

func TestTooFewRequestsAreWrong(t *testing.T) {
	r := newResults()
	r.countRequests("TestA\nTestA\n-\n")
	require.Equal(t, 3, r.requests)
	require.Equal(t, map[string]int{"TestA": 2}, r.senders)
	require.Equal(t, 0, r.report("one", suite{requests: 3, senders: 1}))
	require.Equal(t, 1, r.report("one", suite{requests: 4, senders: 1}))
	require.Equal(t, 1, r.report("one", suite{requests: 3, senders: 2}))
}

// Each case is how often a test passed and failed, and whether it is in the
// table.
func TestComparison(t *testing.T) {
	type counts struct{ passed, failed int }
	for name, c := range map[string]struct {
		control, tested counts
		expected        bool
		suspect         bool
		wrong           int
	}{
		"passes with both":                 {control: counts{1, 0}, tested: counts{1, 0}},
		"known difference":                 {control: counts{1, 0}, tested: counts{0, 1}, expected: true},
		"new difference":                   {control: counts{4, 0}, tested: counts{1, 3}, suspect: true, wrong: 1},
		"fails now and then":               {control: counts{4, 0}, tested: counts{3, 1}, suspect: true},
		"fails now and then with both":     {control: counts{3, 1}, tested: counts{0, 4}, suspect: true},
		"always fails with both":           {control: counts{0, 4}, tested: counts{0, 4}, suspect: true, wrong: 1},
		"in the table and passes":          {control: counts{4, 0}, tested: counts{4, 0}, expected: true, suspect: true, wrong: 1},
		"in the table and does not exist":  {expected: true, suspect: true, wrong: 1},
		"passes with the forwarder, only":  {control: counts{1, 0}, wrong: 1},
		"skipped with both, not in either": {},
	} {
		t.Run(name, func(t *testing.T) {
			cmp := comparison{control: newResults(), tested: newResults(), expected: map[string]string{}}
			set := func(r results, c counts) {
				if c.passed > 0 {
					r.passed["TestA"] = c.passed
				}
				if c.failed > 0 {
					r.failed["TestA"] = c.failed
				}
			}
			set(cmp.control, c.control)
			set(cmp.tested, c.tested)
			if c.expected {
				cmp.expected["TestA"] = "reason"
			}
			require.Equal(t, c.suspect, len(cmp.suspects()) > 0)
			require.Equal(t, c.wrong, cmp.report("one"))
		})
	}
}

func TestUnsteadyTestsAreNotCompared(t *testing.T) {
	c := comparison{control: newResults(), tested: newResults()}
	c.tested.failed["TestClientTimeout/h1"] = 1
	require.Empty(t, c.suspects())
	require.Equal(t, 0, c.report("one"))
}

// Each entry has a reason, names a suite and stands in the table once for each
// wrapper.
func TestTable(t *testing.T) {
	paths := map[string]bool{}
	for _, s := range suites {
		paths[s.path] = true
	}
	seen := map[string]bool{}
	for _, d := range differences {
		require.True(t, paths[d.path], d.path)
		require.True(t, strings.HasSuffix(d.why, "."), d.why)
		for _, test := range d.tests {
			require.True(t, d.alone || !isUnsteady(test), test)
			for _, wrapper := range d.with {
				key := d.path + " " + wrapper + " " + test
				require.False(t, seen[key], key)
				seen[key] = true
			}
		}
	}
	_, alone := known("net/http", "one")
	require.Empty(t, alone)
}

func TestAnyOf(t *testing.T) {
	require.Empty(t, anyOf(nil))
	require.Equal(t, "^(TestA|TestB)$", anyOf([]string{"TestA/h1", "TestB"}))
}

func TestEditFitsOnce(t *testing.T) {
	texts := map[string]string{"a.go": "one two two"}
	require.NoError(t, edit{"a.go", "one", "1"}.apply("", texts))
	require.Equal(t, "1 two two", texts["a.go"])
	require.ErrorContains(t, edit{"a.go", "two", "2"}.apply("", texts), "2 times, not once")
}
