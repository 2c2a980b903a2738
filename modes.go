package retrip

import (
	"encoding"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Standard returns a new strategy with the parameters of the AWS SDK for Java
// 2.x's standard mode (SDK guide, "Retry behavior": 3 attempts, a bucket of
// 500, retries costing 5, full jitter up to 20 s from 100 ms, and from 1 s
// after throttling, as the page's prose and the SDK's source have it; the
// page's table says 100 ms). It is what a Transport uses unless told
// otherwise, and should be your choice unless you know better.
func Standard() *Strategy {
	s := mode(3, 5, 5, fullJitter(100*time.Millisecond), fullJitter(time.Second))
	s.Classifiers = append(awsCodes(), statusClasses{}, transportErrors{})
	return s
}

// Legacy returns a new strategy with the parameters of the AWS SDK for Java
// 2.x's legacy mode (same page): 4 attempts, throttling waits with equal jitter
// from 500 ms, and retries after throttling cost nothing.
func Legacy() *Strategy {
	s := Standard()
	s.MaxAttempts, s.ThrottleCost = 4, 0
	s.ThrottleBackoff = EqualJitter{Base: 500 * time.Millisecond, Cap: maxBackoff}
	return s
}

// Adaptive returns a new strategy like Standard with a send-rate limiter (the
// same page; ADAPTIVE_V2 in the SDK): once the server throttles, first
// attempts are delayed too. Use it where a server throttles you often, with
// one strategy per throttled resource; see Limiter.
func Adaptive() *Strategy { return limited(Standard()) }

// Standard2026 returns a new strategy with what most AWS SDKs do by default
// since November 2026 (AWS SDKs and Tools Reference Guide, "Retry behavior"):
// as Standard, but full jitter from 50 ms, retries that cost 14 and throttled
// ones 5, and no statuses but 500, 502, 503, 504 and 429. Compared with
// Standard it retries sooner, and gives up sooner when much fails. It knows
// AWS's long polls (AWSLongPoll) and S3's errors with status 200 (S3Errors).
func Standard2026() *Strategy {
	s := mode(3, 14, 5, fullJitter(50*time.Millisecond), fullJitter(time.Second))
	s.Classifiers = append(awsCodes(), S3Errors(),
		OnStatus(Throttled, 429), OnStatus(Transient, 500, 502, 503, 504), transportErrors{})
	s.LongPoll = AWSLongPoll
	return s
}

// Adaptive2026 returns a new strategy like Standard2026 with a send-rate
// limiter, as Adaptive has it.
func Adaptive2026() *Strategy { return limited(Standard2026()) }

// Standard2026DynamoDB returns a new strategy like Standard2026 with what the
// AWS SDKs do for DynamoDB and DynamoDB Streams (same page): 4 attempts, full
// jitter from 25 ms.
func Standard2026DynamoDB() *Strategy {
	s := Standard2026()
	s.MaxAttempts, s.Backoff = 4, fullJitter(25*time.Millisecond)
	return s
}

// Adaptive2026DynamoDB returns a new strategy like Standard2026DynamoDB with a
// send-rate limiter.
func Adaptive2026DynamoDB() *Strategy { return limited(Standard2026DynamoDB()) }

const (
	maxBackoff    = 20 * time.Second // the same page, and that of Java 2.x
	quotaCapacity = 500              // likewise
	maxServerWait = 60 * time.Second // see Strategy.MaxRetryAfter
)

// mode is what our own modes have in common.
func mode(attempts, cost, throttleCost int, backoff, throttleBackoff Backoff) *Strategy {
	return &Strategy{
		MaxAttempts:     attempts,
		MaxRetryAfter:   maxServerWait,
		Hints:           slices.Clone(standardWaits),
		Backoff:         backoff,
		ThrottleBackoff: throttleBackoff,
		Quota:           NewBucket(quotaCapacity),
		Cost:            cost,
		ThrottleCost:    throttleCost,
	}
}

func awsCodes() []Classifier { return []Classifier{throttlingCodes, transientCodes, clockSkewCodes} }

func fullJitter(base time.Duration) Backoff { return FullJitter{Base: base, Cap: maxBackoff} }

func limited(s *Strategy) *Strategy {
	s.Limiter = NewLimiter()
	return s
}

// Mode names a mode, for flags, environment variables and configuration files.
// The zero Mode is ModeStandard. (Package awsconfig reads AWS's own.)
type Mode uint8

// The modes, whose names are "standard", "legacy", "adaptive", "standard2026"
// and "adaptive2026".
const (
	ModeStandard Mode = iota
	ModeLegacy
	ModeAdaptive
	ModeStandard2026
	ModeAdaptive2026
)

var (
	_ flag.Value               = (*Mode)(nil)
	_ encoding.TextMarshaler   = Mode(0)
	_ encoding.TextUnmarshaler = (*Mode)(nil)
)

var (
	modeNames = [...]string{"standard", "legacy", "adaptive", "standard2026", "adaptive2026"}
	modeMakes = [...]func() *Strategy{Standard, Legacy, Adaptive, Standard2026, Adaptive2026}
)

// Strategy returns a new strategy of the mode. If there is no such mode, it is
// an empty one, which Transport.Validate and RoundTrip refuse.
func (m Mode) Strategy() *Strategy {
	if int(m) >= len(modeMakes) {
		return new(Strategy)
	}
	return modeMakes[m]()
}

// String returns the mode's name.
func (m Mode) String() string { return nameOf(modeNames[:], m) }

// MarshalText returns the mode's name, or an error if there is no such mode.
func (m Mode) MarshalText() ([]byte, error) {
	if int(m) >= len(modeNames) {
		return nil, fmt.Errorf("retrip: %v is no mode: use one of %s", m, strings.Join(modeNames[:], ", "))
	}
	return []byte(m.String()), nil
}

// UnmarshalText sets the mode by its name, upper or lower case. Another text
// is an error and leaves the mode as it was.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if strings.EqualFold(name, string(text)) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("retrip: %q is no mode: use one of %s", text, strings.Join(modeNames[:], ", "))
}

// Set sets the mode by its name, for flag.Var.
func (m *Mode) Set(name string) error { return m.UnmarshalText([]byte(name)) }
