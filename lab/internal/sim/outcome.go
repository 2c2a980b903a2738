package sim

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
)

// An Outcome is how an attempt ends.
type Outcome uint8

const (
	Good      Outcome = iota // 200
	NotFound                 // 404
	Failed                   // 503
	Refused                  // no connection
	Silent                   // a timeout
	Throttled                // 429
	outcomes
)

// String returns the outcome's name in scenario files.
func (o Outcome) String() string {
	return [...]string{"200", "404", "503", "refused", "timeout", "429"}[o]
}

// OutcomeNamed returns the outcome with a name.
func OutcomeNamed(name string) (Outcome, error) {
	for o := range outcomes {
		if o.String() == name {
			return o, nil
		}
	}
	return 0, errors.New("use one of 200, 404, 503, refused, timeout, 429")
}

// A Reply is what becomes of an attempt: how it ends, after how long, and how long
// the server asks the client to wait (0: it does not say).
type Reply struct {
	Outcome Outcome
	Took    time.Duration
	Hint    time.Duration
}

type timeoutError struct{}

func (timeoutError) Error() string { return "timeout" }
func (timeoutError) Timeout() bool { return true }

// attempts are what strategies are shown of each outcome.
var attempts = func() (all [outcomes]retrip.Attempt) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://server.example/", nil)
	if err != nil {
		panic(err)
	}
	for o := range all {
		all[o] = retrip.Attempt{Number: 1, Request: req}
	}
	for o, status := range map[Outcome]int{Good: 200, NotFound: 404, Failed: 503, Throttled: 429} {
		all[o].Response = &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
	}
	all[Refused].Err = &net.OpError{Op: "dial", Net: "tcp", Err: socketerr.ConnRefused}
	all[Silent].Err = &net.OpError{Op: "read", Net: "tcp", Err: timeoutError{}}
	return all
}()

// A Rule is what a strategy makes of each outcome. Asked once and for all: the
// classifiers see nothing else that could change their minds.
type Rule struct {
	strategy *retrip.Strategy
	class    [outcomes]retrip.Class
	cost     [outcomes]int
	obeys    bool // Retry-After
}

// NewRule asks a strategy about the outcomes.
func NewRule(s *retrip.Strategy) *Rule {
	r := &Rule{strategy: s}
	for o := range outcomes {
		r.class[o] = classOf(s, attempts[o])
		r.cost[o] = s.Cost
		switch {
		case r.class[o] == retrip.Throttled:
			r.cost[o] = s.ThrottleCost
		case o == Silent && s.TimeoutCost > 0:
			r.cost[o] = s.TimeoutCost
		}
	}
	told := attempts[Throttled]
	resp := *told.Response
	resp.Header = http.Header{"Retry-After": {"2"}}
	told.Response = &resp
	for _, hints := range s.Hints {
		if h, ok := hints.ReadHint(told); ok {
			r.obeys = h.Wait > 0
			break
		}
	}
	return r
}

// classOf is what the classifiers say, the first opinion winning.
func classOf(s *retrip.Strategy, a retrip.Attempt) retrip.Class {
	for _, c := range s.Classifiers {
		if class := c.Classify(a); class != retrip.Unknown && class != retrip.NeedsBody {
			return class
		}
	}
	if a.Err == nil && a.Response.StatusCode < 400 {
		return retrip.Success
	}
	return retrip.Permanent
}
