package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The documentation's pictures are what the commands beside them draw now.
func TestTheDocumentationsPicturesAreFresh(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("-short, or the race detector: the pictures take too long")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("floating-point arithmetic may round differently on " + runtime.GOARCH)
	}
	for _, d := range drawings {
		name := filepath.Join("..", "..", "..", "docs", "why-quota", d.name+".svg")
		if d.name == "outage" {
			name = filepath.Join("..", "..", "..", "docs", "outage.svg")
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		c := &command{stdout: io.Discard, stderr: io.Discard, set: map[string]bool{}}
		got, err := c.drawing(t.Context(), d)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is stale: in lab, run\n\tgo run ./cmd/retriplab picture -out %s %s", name, filepath.Dir(name)[len("../../"):], d.name)
	}
}
