package aws_test

import (
	"testing"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Short names for the words of testkit that are in most tests.
type step = testkit.Step

var (
	script       = testkit.Script
	status       = testkit.Status
	answer       = testkit.Answer
	jsonError    = testkit.JSONError
	fails        = testkit.Fails
	newRequest   = testkit.NewRequest
	get          = testkit.Get
	milliseconds = testkit.Milliseconds
)

// longest pins the jitter to its upper end, so that waits can be told exactly.
func longest(s *retrip.Strategy) *retrip.Strategy {
	s.Rand = func() float64 { return 1 }
	return s
}

// classOf is the class of what one attempt gives.
func classOf(t *testing.T, s *retrip.Strategy, play step) retrip.Class {
	t.Helper()
	ctx, trace := retrip.WithTrace(retrip.WithMaxAttempts(t.Context(), 1))
	_, _ = get(ctx, &retrip.Transport{Base: script(play), Strategy: s})
	return trace.Requests()[0][0].Class
}
