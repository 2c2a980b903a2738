package services

import (
	"fmt"
	"math"
	"time"

	"github.com/retrip-go/retrip"
)

type (
	rules []retrip.Classifier
	waits []retrip.HintReader
)

// standard returns retrip.Standard with a service's own rules and waits: the
// rules are asked first, the waits are the only ones.
func standard(first rules, instead waits) *retrip.Strategy {
	s := retrip.Standard()
	s.Classifiers = append(first, s.Classifiers...)
	s.Hints = instead
	return s
}

// later makes a wait longer.
func later(w retrip.HintReader, more time.Duration) retrip.HintReader { return longer{w, more} }

type longer struct {
	retrip.HintReader
	more time.Duration
}

func (l longer) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	h, ok := l.HintReader.ReadHint(a)
	h.Wait = min(h.Wait, math.MaxInt64-l.more) + l.more
	return h, ok
}

func (l longer) String() string { return fmt.Sprintf("%v + %v", l.HintReader, l.more) }

// epoch is a header that names a moment, seconds a header that names a span.
func epoch(name string) retrip.HintReader {
	return retrip.HintHeader{Name: name, Format: retrip.EpochSeconds}
}

func seconds(name string) retrip.HintReader {
	return retrip.HintHeader{Name: name, Format: retrip.Seconds}
}

// A pause is what a service wants without saying so in the answer.
type pause struct {
	wait     time.Duration
	doubling bool // with each attempt
}

func (p pause) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	wait := p.wait
	if p.doubling {
		wait <<= min(max(a.Number-1, 0), 20) // a minute doubled 20 times is two years
	}
	return retrip.Hint{Wait: wait, From: "the service's documentation"}, true
}

func (p pause) String() string {
	if p.doubling {
		return fmt.Sprintf("%v, doubled with each attempt", p.wait)
	}
	return p.wait.String()
}
