package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/retrip-go/retrip/lab/internal/logs"
	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/sim"
)

// A recording is what a log says of clients and server. What it can't say is
// estimated.
type recording struct {
	times   []time.Duration // first attempts, from the log's begin
	clients []int32
	seconds []second
	// capacity is the most good answers in a second, if the server is assumed to give
	// no more; 0 for no limit.
	capacity float64
}

// A second is what the server did in it.
type second struct {
	failures float64 // part of the attempts
	as       sim.Outcome
	good     time.Duration // how long answers took, in the middle
	bad      time.Duration
}

// An Estimate is what a replay had to assume.
type Estimate struct {
	Attempts, Requests, Clients int
	Capacity                    float64
	Amplification               float64 // in the log
}

// FromLog makes two scenarios of a log. In the first the server fails the part of
// attempts that failed in each second of the log, whatever the load; in the second it
// also gives no more good answers than the most that the log has in one second. The
// truth lies between, or beyond: a log can't say how a server would have answered
// another load.
func FromLog(l *logs.Log, policies []policy.Policy, strategy policy.Overrides, seeds []uint64) (all []*Scenario, e Estimate, err error) {
	begin := l.Entries[0].At
	length := l.Entries[len(l.Entries)-1].At.Sub(begin)
	if length > 7*24*time.Hour {
		return nil, e, fmt.Errorf("the log covers %v: cut it to the hours around the outage, at most a week", length)
	}
	rec, e := record(l, begin, int(length/time.Second)+1)
	from, to := rec.outage()
	for _, capacity := range []float64{0, e.Capacity} {
		one := *rec
		one.capacity = capacity
		s := &Scenario{
			Name: "replay", Title: "The log, with failures as they were",
			Clients: e.Clients, Rate: float64(e.Requests) / max(1, length.Seconds()) / float64(e.Clients),
			Warm: time.Duration(from) * time.Second, Outage: time.Duration(to-from) * time.Second,
			Seeds: seeds, Policies: policies, Strategy: strategy, recording: &one,
		}
		s.Watch = max(0, time.Duration(len(rec.seconds))*time.Second-s.Warm-s.Outage)
		if capacity > 0 {
			s.Name, s.Title = "replay-capacity", fmt.Sprintf("The log, with at most %.0f good answers per second (estimate)", capacity)
			s.Server.Capacity = capacity
		}
		if err := s.Check(); err != nil {
			return nil, e, err
		}
		all = append(all, s)
	}
	return all, e, nil
}

func record(l *logs.Log, begin time.Time, n int) (*recording, Estimate) {
	rec := &recording{seconds: make([]second, n)}
	ids := map[string]int32{}
	sent, failed, good := make([]float64, n), make([]float64, n), make([]float64, n)
	took := make([][2][]time.Duration, n)
	for _, e := range l.Entries {
		i := int(e.At.Sub(begin) / time.Second)
		id, ok := ids[e.Client]
		if !ok {
			id = int32(len(ids))
			ids[e.Client] = id
		}
		if !e.Retry {
			rec.times, rec.clients = append(rec.times, e.At.Sub(begin)), append(rec.clients, id)
		}
		sent[i]++
		kind := 0
		if e.Failed() {
			kind = 1
			failed[i]++
			rec.seconds[i].as = outcomeOf(e.Status)
		} else {
			good[i]++
		}
		took[i][kind] = append(took[i][kind], e.Took)
	}
	rec.spread()
	for i := range rec.seconds {
		s := &rec.seconds[i]
		if sent[i] > 0 {
			s.failures = failed[i] / sent[i]
		} else if i > 0 {
			*s = rec.seconds[i-1] // nothing was sent that could tell
		}
		s.good, s.bad = middle(took[i][0]), middle(took[i][1])
	}
	return rec, Estimate{
		Attempts: len(l.Entries), Requests: len(rec.times), Clients: len(ids), Capacity: slices.Max(good),
		Amplification: float64(len(l.Entries)) / float64(max(1, len(rec.times))),
	}
}

// spread gives requests that the log has at the same full second times within it:
// most logs have no finer time.
func (r *recording) spread() {
	for _, t := range r.times {
		if t%time.Second != 0 {
			return
		}
	}
	rng := rand.New(rand.NewPCG(1, 4))
	for i := range r.times {
		r.times[i] += time.Duration(rng.Int64N(int64(time.Second)))
	}
	order := make([]int, len(r.times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(r.times[a] - r.times[b]) })
	times, clients := slices.Clone(r.times), slices.Clone(r.clients)
	for i, from := range order {
		r.times[i], r.clients[i] = times[from], clients[from]
	}
}

func outcomeOf(status int) sim.Outcome {
	switch status {
	case 0:
		return sim.Refused
	case 429:
		return sim.Throttled
	case 504:
		return sim.Silent
	}
	return sim.Failed
}

// middle is the median, and 5 ms where the log has none.
func middle(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 5 * time.Millisecond
	}
	slices.Sort(all)
	return max(all[len(all)/2], 5*time.Millisecond)
}

// outage is from the first to the last second in which a tenth of the attempts fail,
// or the whole log.
func (r *recording) outage() (from, to int) {
	from = -1
	for i, s := range r.seconds {
		if s.failures >= 0.1 {
			if from < 0 {
				from = i
			}
			to = i + 1
		}
	}
	if from < 0 {
		return 0, len(r.seconds)
	}
	return from, to
}

// A recorded is a server that does what a log says.
type recorded struct {
	*recording
	rng  *rand.Rand
	at   int
	used float64
}

// Attempt answers.
func (s *recorded) Attempt(now time.Duration) sim.Reply {
	i := min(int(now/time.Second), len(s.seconds)-1)
	if i != s.at {
		s.at, s.used = i, 0
	}
	as := s.seconds[i]
	if s.rng.Float64() < as.failures {
		return sim.Reply{Outcome: as.as, Took: as.bad}
	}
	if s.used++; s.capacity > 0 && s.used > s.capacity {
		return sim.Reply{Outcome: sim.Failed, Took: as.bad}
	}
	return sim.Reply{Outcome: sim.Good, Took: as.good}
}
