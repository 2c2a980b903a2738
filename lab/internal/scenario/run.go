package scenario

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/sim"
)

// Never is the recovery of a server that does not recover while it is watched.
const Never = -1

// A Result is what one policy does in one scenario: means over the seeds.
type Result struct {
	Policy string `json:"policy"`
	// Amplification is how many attempts were sent for each request in the outage,
	// and Least and Most its range over the seeds.
	Amplification      float64 `json:"amplification"`
	LeastAmplification float64 `json:"least_amplification"`
	MostAmplification  float64 `json:"most_amplification"`
	// Good is the part of the requests begun in the outage that ended well.
	Good float64 `json:"good"`
	// Recovery is how many seconds after the outage 99 % of each later second's
	// requests end well, or Never; the longest of the seeds.
	Recovery float64 `json:"recovery"`
	// Peak is the highest rate of attempts, over the rate of requests.
	Peak float64 `json:"peak"`
	// Requests, Lost and Refused are counts of the whole run: requests, those that
	// ended badly, and retries that quotas refused.
	Requests float64 `json:"requests"`
	Lost     float64 `json:"lost"`
	Refused  float64 `json:"refused"`
	// P50 and P99 are seconds until a request ends, well or badly, for those that
	// begin before, in and after the outage.
	P50 [3]float64 `json:"p50"`
	P99 [3]float64 `json:"p99"`
	// The series are those of the first seed.
	Series Series `json:"series"`
}

// A Series is what happened in each step of time.
type Series struct {
	Step     float64   `json:"step"` // seconds
	Requests []float64 `json:"requests"`
	Attempts []float64 `json:"attempts"`
	Good     []float64 `json:"good"`    // of the requests begun in the step
	Answers  []float64 `json:"answers"` // good ones that came in the step
	Level    []float64 `json:"level"`   // of the quotas, 1 as good as new
}

// A Report is a scenario and what each policy did.
type Report struct {
	Scenario *Scenario
	Results  []Result
}

// Run runs a scenario with each of its policies. Results do not depend on how many
// processors there are.
func Run(ctx context.Context, s *Scenario, progress func(done, of int)) (*Report, error) {
	records := make([][]*sim.Record, len(s.Policies))
	for i := range records {
		records[i] = make([]*sim.Record, len(s.Seeds))
	}
	n := len(s.Policies) * len(s.Seeds)
	err := Parallel(ctx, n, progress, func(i int) {
		p, seed := i/len(s.Seeds), i%len(s.Seeds)
		records[p][seed] = s.play(s.Policies[p], s.Seeds[seed])
	})
	if err != nil {
		return nil, err
	}
	report := &Report{Scenario: s}
	for i, p := range s.Policies {
		report.Results = append(report.Results, s.summarize(p.Name, records[i]))
	}
	return report, nil
}

// Parallel does jobs 0 to n-1 on all processors.
func Parallel(ctx context.Context, n int, progress func(done, of int), do func(i int)) error {
	var (
		wg         sync.WaitGroup
		next, done atomic.Int64
		mu         sync.Mutex
	)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				do(i)
				if progress != nil {
					mu.Lock()
					progress(int(done.Add(1)), n)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// world builds the simulation of one policy.
func (s *Scenario) world(p policy.Policy, seed uint64) (*sim.World, *sim.Site) {
	w := sim.NewWorld(seed)
	for tier := range s.Tiers {
		n := s.Clients
		if tier > 0 {
			n = s.Instances
		}
		w.Tiers = append(w.Tiers, sim.NewTier(n, p.Shared, p.Strategies(s.Strategy)))
	}
	site := s.site(seed)
	w.Server = site
	if s.recording != nil {
		w.Server = &recorded{recording: s.recording, rng: rand.New(rand.NewPCG(seed, 3))}
		w.Arrivals.Times, w.Arrivals.Clients = s.recording.times, s.recording.clients
	} else if s.Requests > 0 {
		for i := range s.Requests {
			w.Arrivals.Times = append(w.Arrivals.Times, s.Warm+time.Duration(i)*s.Every)
		}
	} else {
		rate := s.perSecond()
		w.Arrivals.Rate = func(now time.Duration) (float64, time.Duration) {
			factor, until := site.Load(now)
			return rate * factor, until
		}
	}
	w.Record = sim.NewRecord(s.Step, s.total())
	w.Record.Phase = s.phase
	return w, site
}

// play runs one policy with one seed.
func (s *Scenario) play(p policy.Policy, seed uint64) *sim.Record {
	w, _ := s.world(p, seed)
	w.Run(s.total() + tail)
	return w.Record
}

// tail is how long the simulation goes on for requests that are still under way.
const tail = 20 * time.Second

func (s *Scenario) phase(begun time.Duration) int {
	switch {
	case begun < s.Warm:
		return 0
	case begun < s.Warm+s.Outage:
		return 1
	}
	return 2
}

// summarize makes one result of the records of all seeds.
func (s *Scenario) summarize(name string, records []*sim.Record) Result {
	r := Result{Policy: name, LeastAmplification: math.Inf(1)}
	var took [3]sim.Histogram
	n := float64(len(records))
	for _, rec := range records {
		amplification, good := s.inOutage(rec)
		r.Amplification += amplification / n
		r.LeastAmplification = min(r.LeastAmplification, amplification)
		r.MostAmplification = max(r.MostAmplification, amplification)
		r.Good += good / n
		if recovery := s.recovery(rec); recovery == Never || r.Recovery == Never {
			r.Recovery = Never
		} else {
			r.Recovery = max(r.Recovery, recovery)
		}
		r.Peak = max(r.Peak, s.peak(rec))
		r.Requests += float64(rec.Ended) / n
		r.Lost += float64(rec.Lost) / n
		r.Refused += float64(rec.Refused) / n
		for i := range took {
			took[i].Merge(&rec.Took[i])
		}
	}
	for i := range took {
		r.P50[i], r.P99[i] = took[i].Quantile(0.5).Seconds(), took[i].Quantile(0.99).Seconds()
	}
	first, steps := records[0], int(s.total()/s.Step)
	r.Series = Series{
		s.Step.Seconds(), first.Firsts[:steps], first.Sent[:steps], first.Good[:steps], first.Answers[:steps], first.Levels[:steps],
	}
	return r
}

// inOutage is the amplification and the part of good answers in the outage.
func (s *Scenario) inOutage(r *sim.Record) (amplification, good float64) {
	var firsts, sent, well float64
	for _, w := range s.windows() {
		firsts += r.Sum(r.Firsts, w[0], w[1])
		sent += r.Sum(r.Sent, w[0], w[1])
		well += r.Sum(r.Good, w[0], w[1])
	}
	if firsts == 0 {
		return 0, 1
	}
	return sent / firsts, well / firsts
}

// recovery is when the last bad second after the outage ends, in seconds from the
// outage's end.
func (s *Scenario) recovery(r *sim.Record) float64 {
	end := s.Warm + s.Outage
	after := time.Duration(0)
	for from := end; from+s.Step <= s.total(); from += s.Step {
		if r.Sum(r.Good, from, from+s.Step) < 0.99*r.Sum(r.Firsts, from, from+s.Step) {
			after = from + s.Step - end
		}
	}
	if s.Watch > 0 && after > s.Watch-min(10*time.Second, s.Watch/4) {
		return Never
	}
	return after.Seconds()
}

func (s *Scenario) peak(r *sim.Record) (peak float64) {
	normal := s.perSecond() * s.Step.Seconds()
	if normal == 0 {
		return 0
	}
	for i := int(s.Warm / s.Step); i < int(s.total()/s.Step); i++ {
		peak = max(peak, r.Sent[i]/normal)
	}
	return peak
}
