package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) { require.NoError(t, run(&out)) })
	require.Contains(t, out.String(), `
rehttp, a caller who has enough: the reason
  before  calls: 1, attempts: 1, answers: 0; the last: net/http: request canceled
  after   calls: 1, attempts: 1, answers: 0; the last: retrip: cancelled after 1 attempt: context canceled (last status: 503)
`)
	require.True(t, strings.HasSuffix(out.String(), `
In all
  before  calls: 106, attempts: 415, answers: 103
  after   calls: 106, attempts: 215, answers: 105
`), out.String())
}
