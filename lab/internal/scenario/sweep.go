package scenario

import (
	"context"
	"math"
	"time"

	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/sim"
)

// A Curve is one policy's value over something.
type Curve struct {
	Policy string      `json:"policy"`
	X      []float64   `json:"x"`
	Y      [][]float64 `json:"y"` // by quantity, then by X
}

// over measures each policy at each x.
func over(ctx context.Context, policies []policy.Policy, xs []float64, quantities int, progress func(int, int), measure func(p policy.Policy, x float64) []float64) ([]Curve, error) {
	curves := make([]Curve, len(policies))
	for i, p := range policies {
		curves[i] = Curve{Policy: p.Name, X: xs, Y: make([][]float64, quantities)}
		for q := range curves[i].Y {
			curves[i].Y[q] = make([]float64, len(xs))
		}
	}
	err := Parallel(ctx, len(policies)*len(xs), progress, func(job int) {
		i, j := job/len(xs), job%len(xs)
		for q, y := range measure(policies[i], xs[j]) {
			curves[i].Y[q][j] = y
		}
	})
	return curves, err
}

// with returns a copy of a scenario that may be changed.
func (s *Scenario) with(change func(*Scenario)) *Scenario {
	c := *s
	c.Faults = append([]Fault(nil), s.Faults...)
	change(&c)
	return &c
}

// OverFailures measures amplification and the part of good answers over the part
// of attempts that fail, whatever the load.
func OverFailures(ctx context.Context, s *Scenario, progress func(int, int)) ([]Curve, error) {
	xs := []float64{0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	return over(ctx, s.Policies, xs, 2, progress, func(p policy.Policy, x float64) []float64 {
		one := s.with(func(c *Scenario) {
			c.Clients, c.Rate, c.Load, c.Requests = 100, 8, 0, 0
			c.Warm, c.Outage, c.Watch = 10*time.Second, 60*time.Second, 0
			c.Server = Server{Latency: s.Server.Latency, Backends: 1, Failures: 0.001}
			c.Faults = []Fault{{For: c.Outage, Times: 1, Failures: x}}
		})
		amplification, good := one.inOutage(one.play(p, s.Seeds[0]))
		return []float64{amplification, good}
	})
}

// OverClients measures amplification over the number of clients that make the same
// requests together.
func OverClients(ctx context.Context, s *Scenario, progress func(int, int)) ([]Curve, error) {
	xs := []float64{1, 3, 10, 30, 100, 300, 1000, 3000, 10000}
	total := s.perSecond()
	return over(ctx, s.Policies, xs, 1, progress, func(p policy.Policy, x float64) []float64 {
		one := s.with(func(c *Scenario) { c.Clients, c.Rate, c.Load, c.Watch = int(x), total/x, 0, 0 })
		amplification, _ := one.inOutage(one.play(p, s.Seeds[0]))
		return []float64{amplification}
	})
}

// A Loop is the good answers of a server whose load rises and then falls again.
type Loop struct {
	Policy string    `json:"policy"`
	Load   []float64 `json:"load"`
	Good   []float64 `json:"good"` // per second, over the capacity
}

// Metastable raises the load of an overloaded server above its capacity, and
// lowers it again.
func Metastable(ctx context.Context, s *Scenario, progress func(int, int)) ([]Loop, error) {
	const capacity, hold = 250.0, 20 * time.Second
	var loads []float64
	for x := 50; x <= 120; x += 5 {
		loads = append(loads, float64(x)/100)
	}
	for i := len(loads) - 2; i >= 0; i-- {
		loads = append(loads, loads[i])
	}
	loops := make([]Loop, len(s.Policies))
	err := Parallel(ctx, len(loops), progress, func(i int) {
		one := s.with(func(c *Scenario) {
			c.Clients, c.Rate, c.Load, c.Requests, c.Faults = int(capacity), 1, 0, 0, nil
			c.Warm, c.Outage, c.Watch, c.Step = 0, time.Duration(len(loads))*hold, 0, time.Second
			c.Server = Server{Latency: s.Server.Latency, Backends: 1, Capacity: capacity, Queue: 3 * time.Second, Timeout: time.Second}
		})
		w, _ := one.world(s.Policies[i], s.Seeds[0])
		w.Arrivals.Rate = func(now time.Duration) (float64, time.Duration) {
			step := int(now / hold)
			if step >= len(loads) {
				return 0, math.MaxInt64
			}
			return loads[step] * capacity, time.Duration(step+1) * hold
		}
		w.Run(one.total() + tail)
		loops[i] = Loop{Policy: s.Policies[i].Name, Load: loads}
		for step := range loads {
			from := time.Duration(step)*hold + hold/2 // when the step has settled
			answers := w.Record.Sum(w.Record.Answers, from, from+hold/2)
			loops[i].Good = append(loops[i].Good, answers/(hold/2).Seconds()/capacity)
		}
	})
	return loops, err
}

// A Map is one policy's recovery over load and length of the outage.
type Map struct {
	Policy   string      `json:"policy"`
	Loads    []float64   `json:"loads"`
	Lengths  []float64   `json:"lengths"`  // seconds
	Recovery [][]float64 `json:"recovery"` // by length, then load; seconds, or Never
}

// Watched is how long recovery is waited for in a Map.
const Watched = 120 * time.Second

// RecoveryMap measures how long a server that serves late takes to recover.
func RecoveryMap(ctx context.Context, s *Scenario, progress func(int, int)) ([]Map, error) {
	loads := []float64{0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95}
	lengths := []float64{2, 5, 10, 20, 40, 80}
	maps := make([]Map, len(s.Policies))
	for i, p := range s.Policies {
		maps[i] = Map{Policy: p.Name, Loads: loads, Lengths: lengths, Recovery: make([][]float64, len(lengths))}
		for j := range lengths {
			maps[i].Recovery[j] = make([]float64, len(loads))
		}
	}
	half := 0.5
	cells := len(loads) * len(lengths)
	err := Parallel(ctx, len(maps)*cells, progress, func(job int) {
		i, cell := job/cells, job%cells
		y, x := cell/len(loads), cell%len(loads)
		one := s.with(func(c *Scenario) {
			c.Clients, c.Rate, c.Load, c.Requests = 200, 0, loads[x], 0
			c.Warm, c.Watch, c.Step = 30*time.Second, Watched, time.Second
			c.Outage = time.Duration(lengths[y]) * time.Second
			c.Server = Server{Latency: s.Server.Latency, Backends: 1, Capacity: 200, Queue: 3 * time.Second, Timeout: time.Second}
			c.Faults = []Fault{{For: c.Outage, Times: 1, Capacity: &half}}
		})
		maps[i].Recovery[y][x] = one.recovery(one.play(s.Policies[i], s.Seeds[0]))
	})
	return maps, err
}

// Background is one client of a server that fails by chance: how many requests fail
// for one that must, p^attempts. For less noise, a refused retry counts with the
// chance that the attempts left would have succeeded.
func Background(p policy.Policy, strategy policy.Overrides, rate, chance float64, requests int, seed uint64) float64 {
	w := sim.NewWorld(seed)
	w.Tiers = []*sim.Tier{sim.NewTier(1, false, p.Strategies(strategy))}
	site := &sim.Site{Latency: 5 * time.Millisecond, Failures: chance}
	site.Start(seed)
	w.Server, w.Chance = site, chance
	w.Arrivals.Rate = func(time.Duration) (float64, time.Duration) { return rate, math.MaxInt64 }
	length := float64(requests) / rate
	w.Record = sim.NewRecord(time.Duration(length*1e9), time.Duration(length*1e9))
	w.Record.From = time.Duration(length / 10 * 1e9)
	w.Run(time.Duration(length*1e9) + tail)
	attempts := p.Strategies(strategy)().MaxAttempts
	must := math.Pow(chance, float64(attempts))
	return 1 + w.Record.Excess/float64(w.Record.Ended)/must
}

// A Trade is what a policy costs and what it saves.
type Trade struct {
	Policy        string  `json:"policy"`
	Amplification float64 `json:"amplification"`
	// Over is how many requests fail where 10 % and 30 % of attempts fail by chance,
	// over those that must; the worse of a slow and a busy client.
	Over [2]float64 `json:"over"`
}

// Chances are those of Trade.Over.
var Chances = [2]float64{0.1, 0.3}

// Trades measures amplification in a scenario against failures by chance. Over is
// counted against the attempts of the scenario, also where a policy makes fewer.
func Trades(ctx context.Context, s *Scenario, progress func(int, int)) ([]Trade, error) {
	trades := make([]Trade, len(s.Policies))
	const requests = 60_000
	err := Parallel(ctx, len(trades), progress, func(i int) {
		p := s.Policies[i]
		trades[i].Policy = p.Name
		trades[i].Amplification, _ = s.inOutage(s.play(p, s.Seeds[0]))
		attempts := p.Strategies(s.Strategy)().MaxAttempts
		most := attempts
		if s.Strategy.MaxAttempts != nil {
			most = *s.Strategy.MaxAttempts
		}
		for k, chance := range Chances {
			for _, rate := range []float64{1. / 60, 1000} {
				over := Background(p, s.Strategy, rate, chance, requests, s.Seeds[0])
				over *= math.Pow(chance, float64(attempts-most)) // a policy of fewer attempts loses more
				trades[i].Over[k] = max(trades[i].Over[k], over)
			}
		}
	})
	return trades, err
}
