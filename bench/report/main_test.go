package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
)

func TestReport(t *testing.T) {
	var runs strings.Builder
	for range 6 {
		runs.WriteString(`
BenchmarkSuccess/body=none/peer=other-2           1000  109.0 ns/op  1.00 clocks  48 B/op  2 allocs/op
BenchmarkSuccess/body=none/peer=other-2           1000  121.0 ns/op  1.00 clocks  48 B/op  2 allocs/op
BenchmarkSuccess/body=none/peer=retrip-2          1000   59.0 ns/op  -0.1 clocks   0 B/op  0 allocs/op
BenchmarkSuccess/body=none/peer=retrip-2          1000   59.0 ns/op   0.2 clocks   0 B/op  0 allocs/op
BenchmarkHosts/hosts=1/peer=retrip-2              1000   20.0 ns/op   0 B/op  7.0 B/host
BenchmarkHosts/hosts=10/peer=retrip-2             1000   30.0 ns/op   0 B/op  8.0 B/host
BenchmarkMemory/body=file/peer=retrip-2              2   1048576 peak-B
BenchmarkMemory/body=file/peer=no-times-2            2
`)
	}
	report := func(text, filter, units string) (string, error) {
		tables, err := read(benchfmt.NewReader(strings.NewReader(text), "test"), filter, units)
		var out strings.Builder
		for _, t := range tables {
			t.write(&out)
		}
		return out.String(), err
	}
	got, err := report(runs.String(), "*", "")
	require.NoError(t, err)
	require.Equal(t, `
**Success, body none**

|  | sec/op | clocks | B/op | allocs/op |
| --- | --- | --- | --- | --- |
| retrip | 59.00ns | ~ | 0 | 0 |
| other | 115.0ns ±5% | 1 | 48.00B | 2 |

**Hosts**

| sec/op | hosts 1 | hosts 10 |
| --- | --- | --- |
| retrip | 20.00ns | 30.00ns |

| B/host | hosts 1 | hosts 10 |
| --- | --- | --- |
| retrip | 7.000B | 8.000B |


**Memory, body file**

|  | peak-B |
| --- | --- |
| retrip | 1.000MiB |
`, got)

	got, err = report(runs.String(), ".name:Success", "clocks")
	require.NoError(t, err)
	require.Equal(t, "\n**Success, body none**\n\n|  | clocks |\n| --- | --- |\n| other | 1 |\n| retrip | ~ |\n", got)

	_, err = report(runs.String()+"BenchmarkParallel/peer=retrip-8 10 5 ns/op\n", "*", "")
	require.ErrorContains(t, err, "-cpu")
	_, err = report("", "(", "")
	require.Error(t, err)
	_, err = report("", "*", "(")
	require.Error(t, err)
}
