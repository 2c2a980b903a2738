package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// The test binary is one of the processes, too.
func TestMain(m *testing.M) {
	if target := os.Getenv("FLEET_TARGET"); target != "" {
		exitOn(call(target, os.Getenv("FLEET_REDIS"), os.Stdin))
		return
	}
	os.Exit(m.Run())
}

var line = regexp.MustCompile(`(?m)^(each|with) .*: (\d\.\d\d)$`)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, miniredis.RunT(t).Addr(), 5*time.Second))
	lines := line.FindAllStringSubmatch(out.String(), -1)
	require.Len(t, lines, 2, out.String())
	for _, l := range lines {
		amplification, err := strconv.ParseFloat(l[2], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, amplification, 1.0, out.String())
		require.LessOrEqual(t, amplification, 3.0, out.String())
	}
}
