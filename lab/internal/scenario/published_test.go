package scenario

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Published simulations as scenarios. The tables are those that the core's own tests
// use: what the originals printed, as the mean of a few seeds. (The two others there
// have no server that a scenario could describe: writers that contend for one row,
// and a queue whose clients give up one by one. The core's tests run them.)

// publishedTable returns the rows of a table, by column.
func publishedTable(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "sim", name))
	require.NoError(t, err)
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, column := range lines[0] {
			row[column] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func numberOf(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}

// comparePublished runs each policy of a scenario at each failure rate of a table, and
// compares amplification and success with what was published.
func comparePublished(t *testing.T, s *Scenario, table, name, amplification, success string, near float64) {
	t.Helper()
	found := map[string]int{}
	for _, row := range publishedTable(t, table) {
		for _, p := range s.Policies {
			if row[name] != p.Name {
				continue
			}
			found[p.Name]++
			if small && found[p.Name]%4 != 0 {
				continue
			}
			chance := numberOf(t, row["failure_rate"])
			one := s.with(func(c *Scenario) { c.Server.Failures = chance })
			var sent, good float64
			for _, seed := range s.Seeds {
				a, g := one.inOutage(one.play(p, seed))
				sent, good = sent+a/float64(len(s.Seeds)), good+g/float64(len(s.Seeds))
			}
			require.InDelta(t, numberOf(t, row[amplification]), sent, near*numberOf(t, row[amplification]), "amplification: %v", row)
			require.InDelta(t, numberOf(t, row[success]), good, 0.01, "success: %v", row)
		}
	}
	for _, p := range s.Policies {
		require.NotZero(t, found[p.Name], "%s is not in the table", p.Name)
	}
}

func TestBrookersSimulationOfRetries(t *testing.T) {
	s, err := Load("testdata/brooker-retry.yaml")
	require.NoError(t, err)
	s.Policies[0].Name = "no_retries"
	comparePublished(t, s, "brooker_retry.csv", "name", "amplification_mean", "success_mean", 0.015)
}

func TestWhatQuotasComeToOnceDrained(t *testing.T) {
	s, err := Load("testdata/drained.yaml")
	require.NoError(t, err)
	comparePublished(t, s, "budget_targets.csv", "policy", "amplification", "success_rate", 0.015)
}
