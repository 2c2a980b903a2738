package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// No file makes the reader panic, and none that it takes makes a scenario that can't
// be run.
func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		text, err := Text(name)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("policies: [{mode: gated, Quota: {Fleet: {tick: 1s}}}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("file.yaml", []byte(text))
		if err != nil {
			return
		}
		s.site(1)
		s.windows()
		for _, p := range s.Policies {
			p.Strategies(s.Strategy)()
		}
	})
}
