package retrip_test

import (
	"net"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// Short names for the words of testkit that are in most tests.
type step = testkit.Step

var (
	script     = testkit.Script
	status     = testkit.Status
	opaque     = testkit.Opaque
	answer     = testkit.Answer
	fails      = testkit.Fails
	newRequest = testkit.NewRequest
)

// immediately is the standard mode without backoff, with what the edits change.
func immediately(edits ...func(*retrip.Strategy)) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff, s.ThrottleBackoff = retrip.Constant{}, nil
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// asking puts a rule before a strategy's own.
func asking(rule retrip.Classifier) func(*retrip.Strategy) {
	return func(s *retrip.Strategy) { s.Classifiers = append([]retrip.Classifier{rule}, s.Classifiers...) }
}

// dialError is what net/http returns for a connection that can't be made.
var dialError = &net.OpError{Op: "dial", Net: "tcp", Err: socketerr.ConnRefused}
