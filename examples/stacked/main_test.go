package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStacked(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out))
	var calls []string
	for _, line := range regexp.MustCompile(`(\d+) times`).FindAllStringSubmatch(out.String(), -1) {
		calls = append(calls, line[1])
	}
	require.Equal(t, []string{"3", "3", "9", "5", "5"}, calls)
}
