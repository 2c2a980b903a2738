package sim

import (
	"math"
	"math/bits"
	"time"
)

// A Record counts what happens in a world, by steps of time.
type Record struct {
	// Step is how long a step is.
	Step time.Duration
	// By step: requests begun, attempts sent, requests that ended well by the step
	// in which they began, good answers by the step in which they came, and the mean
	// level of the quotas.
	Firsts, Sent, Good, Answers []float64
	Levels                      []float64
	// Requests whose end is known, those that ended badly, and retries that quotas
	// refused.
	Ended, Lost, Refused int
	// Excess is how many requests are expected to fail because of refusals.
	Excess float64
	// Phase says which histogram a request that began at a time belongs to.
	Phase func(begun time.Duration) int
	// Took are the times from a request's begin to its end: those before, during
	// and after the outage.
	Took [3]Histogram
	// From is when counting begins for Ended, Lost, Refused and Excess.
	From time.Duration
}

// NewRecord returns a record with room for the steps until a time.
func NewRecord(step, until time.Duration) *Record {
	n := int(until/step) + 1
	all := make([]float64, 5*n)
	r := &Record{Step: step}
	r.Firsts, r.Sent, r.Good = all[:n:n], all[n:2*n:2*n], all[2*n:3*n:3*n]
	r.Answers, r.Levels = all[3*n:4*n:4*n], all[4*n:]
	return r
}

func (r *Record) add(by []float64, at time.Duration) {
	if i := int(at / r.Step); i < len(by) {
		by[i]++
	}
}

func (r *Record) began(at time.Duration) { r.add(r.Firsts, at) }
func (r *Record) sent(at time.Duration)  { r.add(r.Sent, at) }

func (r *Record) level(at time.Duration, level float64) {
	if i := int(at / r.Step); i < len(r.Levels) {
		r.Levels[i] = level
	}
}

func (r *Record) ended(begun, now time.Duration, good bool, _ int) {
	if good {
		r.add(r.Good, begun)
		r.add(r.Answers, now)
	}
	if r.Phase != nil {
		r.Took[r.Phase(begun)].Add(now - begun)
	}
	if begun < r.From {
		return
	}
	r.Ended++
	if !good {
		r.Lost++
	}
}

// Sum adds up the steps from one time to another.
func (r *Record) Sum(by []float64, from, to time.Duration) (n float64) {
	for i := int(from / r.Step); i < min(int(to/r.Step), len(by)); i++ {
		n += by[i]
	}
	return n
}

// A Histogram counts durations, each within 3 %.
type Histogram struct {
	counts [64 * perOctave]uint32
	n      int
}

const perOctave = 32

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[slot(uint64(max(d, 0)))]++
	h.n++
}

func slot(x uint64) int {
	if x < perOctave {
		return int(x)
	}
	octave := bits.Len64(x) - 6 // the top six bits tell the slot
	return octave*perOctave + int(x>>octave)
}

// Merge adds the counts of another.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// Quantile returns the duration that a part of all does not exceed, or 0 if there
// are none.
func (h *Histogram) Quantile(part float64) time.Duration {
	rank := int(math.Ceil(part * float64(h.n)))
	for i, n := range h.counts {
		rank -= int(n)
		if rank <= 0 && n > 0 {
			if i < 2*perOctave {
				return time.Duration(i)
			}
			octave := i/perOctave - 1
			return time.Duration((uint64(i-octave*perOctave)<<octave + uint64(1)<<octave/2))
		}
	}
	return 0
}
