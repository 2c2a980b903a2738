package retrip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/stretchr/testify/require"
)

// A plainGate is the gate's rule as it is written down, with floating-point doubt
// and no thought of time or memory. It counts whole milliseconds.
type plainGate struct {
	doubt, most float64
	late        bool
	since       time.Time
}

// counted is what a request adds by so many failures, of which some had a hint.
func counted(failures, hinted int) float64 {
	return min(2, float64(failures-hinted)+float64(hinted)/4)
}

func plainLimit(maxAttempts int) float64 {
	return max(4, min(6, float64(maxAttempts+1)))
}

func (g *plainGate) failed(f Failure) {
	before, hintedBefore := f.Attempt-1, f.Hinted
	if f.Hint {
		hintedBefore--
	}
	ended := f.Done.Truncate(time.Millisecond)
	adds := counted(f.Attempt, f.Hinted) - counted(before, hintedBefore)
	if g.doubt == 0 {
		if adds == 0 {
			return
		}
		*g = plainGate{most: 8, since: ended}
	}
	since := ended.Sub(g.since)
	if since >= time.Second || since < -time.Second {
		g.late = true
	}
	if since >= time.Minute || since < -time.Second {
		g.most = 8
	}
	if f.Timeout && g.doubt+1 >= plainLimit(f.MaxAttempts) {
		g.late = true
	}
	if !g.late && g.doubt+adds > g.most {
		g.most = g.doubt + adds
	}
	g.doubt = min(g.doubt+adds, g.most)
}

func (g *plainGate) answered() { g.doubt = max(0, g.doubt-2) }

func (g *plainGate) allows(f Failure) bool {
	ofOthers := g.doubt - counted(f.Attempt, f.Hinted)
	return !g.late || ofOthers < plainLimit(f.MaxAttempts)
}

// A modelGate is a Gate and a plain one that hears the same. It notes where they
// differ.
type modelGate struct {
	script *modelScript

	mu    sync.Mutex
	real  Gate
	plain plainGate
}

func (g *modelGate) Failed(f Failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.real.Failed(f)
	g.plain.failed(f)
	g.compare("after %+v", f)
}

func (g *modelGate) Answered(class Class, cost int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.real.Answered(class, cost)
	g.plain.answered()
	g.compare("after an answer")
}

func (g *modelGate) Take(ctx context.Context, f Failure) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := ctx.Value(modelRequestKey{}).(*modelRequest)
	r.checkFailure(f)
	ok, want := g.real.Take(ctx, f), g.plain.allows(f)
	if ok != want {
		r.wrong("the gate says %v and the plain one %v to %+v", ok, want, f)
	}
	r.gateRefused = !want
	return ok
}

func (g *modelGate) compare(when string, args ...any) {
	if have := g.real.Doubt(); have != g.plain.doubt {
		g.script.mu.Lock()
		defer g.script.mu.Unlock()
		g.script.wrongs = append(g.script.wrongs, fmt.Sprintf("the gate's doubt is %v, not %v, "+when, append([]any{have, g.plain.doubt}, args...)...))
	}
}

// checkFailure compares what a quota is told with what happened.
func (r *modelRequest) checkFailure(f Failure) {
	if r.script.stack != nil {
		return // which hides attempts
	}
	r.mu.Lock()
	deliveries := r.deliveries
	r.mu.Unlock()
	if f.Attempt != len(deliveries) || f.MaxAttempts != r.max {
		r.wrong("the quota is asked for attempt %d of %d, not %d of %d", f.Attempt, f.MaxAttempts, len(deliveries), r.max)
		return
	}
	var asked time.Duration
	for _, d := range deliveries {
		asked = plus(asked, d.fault.hint)
	}
	d := deliveries[len(deliveries)-1]
	switch named := d.err == nil && strings.HasPrefix(d.fault.header, "Retry-After"); {
	case f.Timeout:
	case named && d.fault.hint > 0 && asked <= maxServerWait && !f.Hint:
		r.wrong("the quota does not hear of the hint of attempt %d", f.Attempt)
	case f.Hint && (!named || d.fault.hint > maxServerWait):
		r.wrong("the quota hears of a hint of attempt %d", f.Attempt)
	}
}

// ofTheBody reports whether an error is a request body's own: its source's, or of a
// body that a transport further in wanted once more and could not have.
func ofTheBody(err error) bool {
	return slices.ContainsFunc([]error{
		errModelSource, errModelDial,
		replay.ErrTooLong, replay.ErrOver, replay.ErrFailed, replay.ErrBlocked, replay.ErrFileChanged,
	}, func(known error) bool { return errors.Is(err, known) })
}

// checkGate compares how many failures and answers the gate heard of with the
// events. Of a request body's own error it need not hear: not every body is watched.
func (s *modelScript) checkGate() {
	failures, answers, bodies := int64(0), int64(0), int64(0)
	for _, r := range s.requests {
		for _, e := range r.events {
			switch {
			case e.Sent.IsZero(), e.Class == Unknown:
			case e.Err != nil && (s.prepare == prepareBroken || ofTheBody(e.Err)):
				bodies++
			case e.Class == Transient, e.Class == Throttled:
				failures++
			case e.Status != 0:
				answers++
			}
		}
	}
	heard, given := s.ledger.taken.Load(), s.ledger.given.Load()
	if heard < failures || heard > failures+bodies || given != answers {
		s.wrongs = append(s.wrongs, fmt.Sprintf("by the events, there were %d failures, %d of bodies, and %d answers; the gate heard of %d and %d",
			failures, bodies, answers, heard, given))
	}
}

// The gate does what the plain one does, whatever it hears.
func TestGateAnswersAsThePlainOne(t *testing.T) {
	type request struct{ attempt, max, hinted int }
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var (
			gate  Gate
			plain plainGate
			open  []request
		)
		now, step, chance := time.Unix(1e9, 0), 1+rng.Int64N(800), rng.Float64()
		for range 2000 {
			now = now.Add(time.Duration(rng.Int64N(step)) * time.Millisecond)
			if len(open) == 0 || rng.IntN(3) == 0 {
				open = append(open, request{max: 2 + rng.IntN(9)})
			}
			i := rng.IntN(len(open))
			r := &open[i]
			if rng.Float64() >= chance {
				gate.Answered(Success, 0)
				plain.answered()
				open = append(open[:i], open[i+1:]...)
				continue
			}
			f := Failure{MaxAttempts: r.max, Hint: rng.IntN(4) == 0, Timeout: rng.IntN(10) == 0, Done: now}
			if rng.IntN(4) == 0 { // others that ended later were told first
				f.Done = now.Add(-time.Duration(rng.Int64N(1500)) * time.Millisecond)
			}
			r.attempt++
			if f.Hint {
				r.hinted++
			}
			f.Attempt, f.Hinted = r.attempt, r.hinted
			if rng.IntN(2) == 0 {
				f.Sent = f.Done.Add(-time.Duration(rng.IntN(1500)) * time.Millisecond)
			}
			gate.Failed(f)
			plain.failed(f)
			ok := gate.Take(t.Context(), f)
			require.Equal(t, plain.allows(f), ok, "seed %d: %+v, %+v", seed, f, plain)
			require.Equal(t, plain.doubt, gate.Doubt(), "seed %d: %+v", seed, f)
			if !ok || r.attempt == r.max {
				open = append(open[:i], open[i+1:]...)
			}
		}
	}
}
