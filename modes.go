package retrip

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrip-go/retrip/internal/errorcode"
)

// Mode names a mode, for flags (flag.TextVar), environment variables and
// configuration files. The zero Mode is ModeStandard. Package aws reads AWS's
// own variables and files, and has the modes that AWS SDKs use since 2026.
type Mode uint8

// The modes, whose names are "standard", "legacy", "adaptive" and "gated".
const (
	ModeStandard Mode = iota
	ModeLegacy
	ModeAdaptive
	ModeGated
)

const (
	maxBackoff    = 20 * time.Second // the page below, and the source of Java 2.x
	quotaCapacity = 500              // likewise
	quotaCost     = 5                // likewise
	maxServerWait = 60 * time.Second // see Strategy.MaxRetryAfter
)

// modes has what differs between the modes. The source is the page "Retry
// behavior" of the guide to the AWS SDK for Java 2.x. After throttling,
// Standard and Adaptive start at 1 s by its prose and by the SDK's source; its
// table says 100 ms. The statuses are our choice, and so is Gated.
var modes = [...]struct {
	name         string
	attempts     int
	backoff      Backoff
	throttled    Backoff // after throttling
	throttleCost int
	limited      bool // has a send-rate limiter
	gated        bool // has a gate in the place of the bucket
}{
	ModeStandard: {"standard", 3, fullJitter(100 * time.Millisecond), fullJitter(time.Second), quotaCost, false, false},
	ModeLegacy:   {"legacy", 4, fullJitter(100 * time.Millisecond), EqualJitter{500 * time.Millisecond, maxBackoff}, 0, false, false},
	ModeAdaptive: {"adaptive", 3, fullJitter(100 * time.Millisecond), fullJitter(time.Second), quotaCost, true, false},
	ModeGated:    {"gated", 3, fullJitter(100 * time.Millisecond), fullJitter(time.Second), quotaCost, false, true},
}

func fullJitter(base time.Duration) Backoff { return FullJitter{Base: base, Cap: maxBackoff} }

// What the modes have in common; strategies get copies.
var (
	modeClassifiers = slices.Concat([]Classifier{
		On(Throttled, CodeIs(errorcode.Throttling()...)),
		On(Transient, CodeIs(errorcode.Transient()...)),
		On(ClockSkewed, CodeIs(errorcode.ClockSkew()...)),
	}, statusRules, []Classifier{TransportErrors()})
	modeHints = []HintReader{amzRetryAfter, retryAfterMS, msRetryAfterMS, retryAfter}
)

// Standard returns a new strategy with the parameters of the AWS SDK for Java
// 2.x's standard mode (its guide, "Retry behavior"): 3 attempts, a bucket of 500
// tokens, retries costing 5, full jitter up to 20 s from 100 ms, and from 1 s after
// throttling. The statuses and MaxRetryAfter are our choice. It is what a
// Transport uses unless told otherwise.
func Standard() *Strategy { return ModeStandard.Strategy() }

// Legacy returns a new strategy with the parameters of the AWS SDK for Java
// 2.x's legacy mode: as Standard, but 4 attempts, equal jitter from 500 ms after
// throttling, and retries after throttling cost nothing.
func Legacy() *Strategy { return ModeLegacy.Strategy() }

// Adaptive returns a new strategy like Standard with a send-rate limiter
// (ADAPTIVE_V2 in the SDK): once the server throttles, first attempts are delayed,
// too. Use it where a server throttles you often, with one strategy per throttled
// resource; see Limiter.
func Adaptive() *Strategy { return ModeAdaptive.Strategy() }

// Gated returns a new strategy like Standard with a Gate in the place of the
// bucket: an outage makes no storm of retries however many clients there are, and
// a busy client gets over an interruption of part of a second. It is ours, not
// AWS's; docs/quotas.md has when to take which.
func Gated() *Strategy { return ModeGated.Strategy() }

// Strategy returns a new strategy of the mode. If there is no such mode, it is
// an empty one, which Transport.Validate and RoundTrip refuse.
func (m Mode) Strategy() *Strategy {
	if int(m) >= len(modes) {
		return new(Strategy)
	}
	row := modes[m]
	s := &Strategy{
		MaxAttempts:     row.attempts,
		MaxRetryAfter:   maxServerWait,
		Classifiers:     slices.Clone(modeClassifiers),
		Hints:           slices.Clone(modeHints),
		Backoff:         row.backoff,
		ThrottleBackoff: row.throttled,
		Quota:           NewBucket(quotaCapacity),
		Cost:            quotaCost,
		ThrottleCost:    row.throttleCost,
	}
	if row.limited {
		s.Limiter = NewLimiter()
	}
	if row.gated {
		s.Quota = new(Gate)
	}
	return s
}

// String returns the mode's name.
func (m Mode) String() string { return nameOf(modeNames(), m) }

// MarshalText returns the mode's name, or an error if there is no such mode.
func (m Mode) MarshalText() ([]byte, error) {
	if int(m) >= len(modes) {
		return nil, unknownMode(m.String())
	}
	return []byte(m.String()), nil
}

// UnmarshalText sets the mode by its name, in upper or lower case. Another text
// is an error and leaves the mode as it was.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, row := range modes {
		if strings.EqualFold(row.name, string(text)) {
			*m = Mode(i)
			return nil
		}
	}
	return unknownMode(string(text))
}

func unknownMode(name string) error {
	return fmt.Errorf("retrip: unknown mode %q: use one of %s", name, strings.Join(modeNames(), ", "))
}

func modeNames() (names []string) {
	for _, row := range modes {
		names = append(names, row.name)
	}
	return names
}
