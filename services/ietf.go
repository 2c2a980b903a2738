package services

import (
	"math"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

// IETF returns a new strategy for services that follow the IETF's draft on
// rate limits (draft-ietf-httpapi-ratelimit-headers-11, "RateLimit header
// fields for HTTP"): ProblemTypes, then as Standard; Retry-After, which by the
// draft takes precedence, then RateLimit.
func IETF() *retrip.Strategy {
	return standard(ProblemTypes(), waits{retryAfter, RateLimit{}})
}

// RateLimit is a HintReader for the RateLimit field of the IETF's draft (-11,
// section 4), such as
//
//	RateLimit: "burst";r=0;t=5, "daily";r=800;t=3600
//
// The wait is the longest effective window (t, in seconds) of a limit of which
// nothing is available (r=0). A field that is malformed anywhere is ignored,
// and so is one on an answer from a cache (Age above 0). Place it behind
// Retry-After. It does not read RateLimit-Reset, whose unit differs.
type RateLimit struct{}

// ReadHint reads the field.
func (RateLimit) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	header := a.Response.Header
	age := strings.TrimLeft(header.Get("Age"), "0")
	if age != "" && isDigit(age[0]) {
		return retrip.Hint{}, false
	}
	window, ok := exhausted(strings.Join(header.Values("RateLimit"), ", "))
	wait := time.Duration(math.MaxInt64)
	if window < math.MaxInt64/int64(time.Second) {
		wait = time.Duration(window) * time.Second
	}
	return retrip.Hint{Wait: wait, From: "RateLimit"}, ok
}

// String returns "RateLimit (t in seconds, with r=0)".
func (RateLimit) String() string { return "RateLimit (t in seconds, with r=0)" }

// exhausted is the longest window in a RateLimit field of a limit of which
// nothing is left. ok is false if there is none, or the field is malformed.
func exhausted(field string) (window int64, ok bool) {
	malformed := !eachMember(field, func(m member) bool {
		if m.name.kind != stringKind || !m.r.isCount() || m.t.kind != none && !m.t.isCount() {
			return false
		}
		if m.r.n == 0 && m.t.kind != none {
			window, ok = max(window, m.t.n), true
		}
		return true
	})
	return window, ok && !malformed
}

// ProblemTypes returns the rules for the problem types (RFC 9457) that the same
// draft registers in section 5: quota-exceeded and temporary-reduced-capacity
// are throttling. abnormal-usage-detected is permanent, since a retry adds to
// what the server takes for an attack. They read application/problem+json.
func ProblemTypes() []retrip.Classifier {
	typeIs := func(names ...string) retrip.Condition {
		for _, name := range names {
			names = append(names, "https://iana.org/assignments/http-problem-types#"+name)
		}
		return problem.And(retrip.FieldIs("type", names...))
	}
	return rules{
		retrip.On(retrip.Throttled, typeIs("quota-exceeded", "temporary-reduced-capacity")),
		retrip.On(retrip.Permanent, typeIs("abnormal-usage-detected")),
	}
}

var problem = retrip.ConditionFunc("application/problem+json", func(a retrip.Attempt) bool {
	if a.Response == nil {
		return false
	}
	media, _, _ := strings.Cut(a.Response.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/problem+json")
})
