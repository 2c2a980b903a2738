package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/retrip-go/retrip"
)

// A Server answers attempts. Calls come one at a time, in the order of time.
type Server interface {
	Attempt(now time.Duration) Reply
}

// A Beginner is a quota that hears of each request when it begins.
type Beginner interface {
	Began(now time.Time)
}

// A Leveler is a quota that can say how near it is to refusing: 1 where it is as
// good as new, 0 where it refuses.
type Leveler interface {
	Level() float64
}

// A Tier is some clients that follow one strategy, each with a quota of its own.
type Tier struct {
	Rule   *Rule
	Quotas []retrip.Quota // nil: no limit
	begin  []Beginner     // nil unless they want to hear
}

// NewTier makes n clients. If shared, they share one quota.
func NewTier(n int, shared bool, strategy func() *retrip.Strategy) *Tier {
	t := &Tier{Rule: NewRule(strategy()), Quotas: make([]retrip.Quota, n)}
	one := strategy().Quota
	for i := range t.Quotas {
		t.Quotas[i] = one
		if !shared && i > 0 {
			t.Quotas[i] = strategy().Quota
		}
	}
	if _, ok := one.(Beginner); ok {
		t.begin = make([]Beginner, n)
		for i, q := range t.Quotas {
			t.begin[i] = q.(Beginner)
		}
	}
	return t
}

// level is the mean of the first clients' levels.
func (t *Tier) level() (mean float64) {
	n := min(len(t.Quotas), 100)
	for _, q := range t.Quotas[:n] {
		mean += levelOf(q)
	}
	return mean / float64(n)
}

func levelOf(q retrip.Quota) float64 {
	switch q := q.(type) {
	case Leveler:
		return q.Level()
	case retrip.MeteredQuota:
		if q.Capacity() > 0 {
			return float64(q.Tokens()) / float64(q.Capacity())
		}
		return 0
	case interface{ Doubt() float64 }: // a gate
		return max(0, 1-q.Doubt()/8)
	}
	return 1
}

// Arrivals plan when requests begin.
type Arrivals struct {
	// Rate is how many requests begin per second in all, at a time, and Until when
	// it changes next.
	Rate func(now time.Duration) (perSecond float64, until time.Duration)
	// Times are when single requests begin, of all clients alike, or of one client
	// each. They are sorted.
	Times   []time.Duration
	Clients []int32
}

// A World is clients, in one tier or several, and a server. An attempt of a client
// of one tier is a request of a client of the next; attempts of the last go to the
// server.
type World struct {
	Tiers    []*Tier
	Server   Server
	Arrivals Arrivals
	Record   *Record
	// Chance is the chance that an attempt fails, if it is always the same: a
	// refused retry then counts with the chance that it costs a request.
	Chance float64

	now             time.Duration
	events          heap
	arriving, chaos *rand.Rand
	requests        []request
	spare           []int32
	next            int // of Arrivals.Times
}

// Epoch is the time at which every world begins.
var Epoch = time.Unix(1_800_000_000, 0).UTC()

type request struct {
	client  int32
	parent  int32 // the request of the tier before, or -1
	tier    int8
	attempt int16
	hinted  int16 // failures with a hint that is obeyed
	cost    int   // of this attempt
	begun   time.Duration
	sent    time.Duration // this attempt
	failed  time.Duration // the first attempt's end
	prev    time.Duration // the last backoff
	obeyed  time.Duration // what servers asked for so far
	reply   Reply
}

// NewWorld returns a world without events.
func NewWorld(seed uint64) *World {
	return &World{
		arriving: rand.New(rand.NewPCG(seed, 1)),
		chaos:    rand.New(rand.NewPCG(seed, 2)),
	}
}

// Run lets time pass.
func (w *World) Run(until time.Duration) {
	w.plan()
	w.events.push(event{at: 0, kind: sample})
	for len(w.events.events) > 0 && w.events.events[0].at < until {
		w.step()
	}
	w.now = until
}

// plan plans the next request's begin.
func (w *World) plan() {
	if w.Arrivals.Rate == nil {
		if w.next < len(w.Arrivals.Times) {
			w.events.push(event{at: w.Arrivals.Times[w.next], kind: arrive})
		}
		return
	}
	at := w.now
	for at < math.MaxInt64 {
		rate, until := w.Arrivals.Rate(at)
		if rate > 0 {
			wait := w.arriving.ExpFloat64() / rate * 1e9
			if wait < float64(until-at) { // an exponential has no memory: beyond, it is drawn anew
				w.events.push(event{at: at + time.Duration(wait), kind: arrive})
				return
			}
		}
		at = until
	}
}

func (w *World) step() {
	e := w.events.pop()
	w.now = e.at
	switch e.kind {
	case arrive:
		w.arrive()
		w.plan()
	case resend:
		w.send(e.id)
	case end:
		w.ended(e.id)
	case sample:
		if w.Record != nil {
			w.Record.level(w.now, w.Tiers[0].level())
			w.events.push(event{at: w.now + w.Record.Step, kind: sample})
		}
	}
}

// arrive begins a request, or one of each client.
func (w *World) arrive() {
	clients := len(w.Tiers[0].Quotas)
	if w.Arrivals.Rate != nil {
		w.begin(0, int32(w.arriving.IntN(clients)), -1)
		return
	}
	w.next++
	if w.Arrivals.Clients != nil {
		w.begin(0, w.Arrivals.Clients[w.next-1], -1)
		return
	}
	for c := range clients {
		w.begin(0, int32(c), -1)
	}
}

func (w *World) begin(tier int8, client, parent int32) {
	id := int32(len(w.requests))
	if n := len(w.spare); n > 0 {
		id, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		w.requests = append(w.requests, request{})
	}
	w.requests[id] = request{client: client, tier: tier, parent: parent, begun: w.now}
	if begin := w.Tiers[tier].begin; begin != nil {
		begin[client].Began(Epoch.Add(w.now))
	}
	if tier == 0 && w.Record != nil {
		w.Record.began(w.now)
	}
	w.send(id)
}

func (w *World) send(id int32) {
	r := &w.requests[id]
	r.attempt++
	r.sent = w.now
	if next := r.tier + 1; int(next) < len(w.Tiers) {
		// Round robin would do as well: the instances of a tier are alike.
		w.begin(next, int32(w.chaos.IntN(len(w.Tiers[next].Quotas))), id)
		return
	}
	if w.Record != nil {
		w.Record.sent(w.now)
	}
	r.reply = w.Server.Attempt(w.now)
	w.events.push(event{at: w.now + r.reply.Took, kind: end, id: id})
}

// ended is what RoundTrip does after an attempt, in its order: report to the quota,
// decide, ask the quota last.
func (w *World) ended(id int32) {
	r := &w.requests[id]
	tier := w.Tiers[r.tier]
	rule, quota := tier.Rule, tier.Quotas[r.client]
	class := rule.class[r.reply.Outcome]
	if class != retrip.Transient && class != retrip.Throttled {
		if quota != nil && r.reply.Outcome != Refused && r.reply.Outcome != Silent {
			quota.Answered(class, r.cost)
		}
		w.finish(id)
		return
	}
	hint := rule.hint(r)
	f := w.failure(r, rule, hint > 0 && hint <= rule.strategy.MaxRetryAfter-r.obeyed)
	if quota != nil {
		quota.Failed(f)
	}
	wait, ok := w.schedule(r, rule.strategy, class, hint)
	if !ok {
		w.finish(id)
		return
	}
	if quota != nil && !quota.Take(context.Background(), f) {
		w.refuse(r, f.MaxAttempts)
		w.finish(id)
		return
	}
	r.cost = f.Cost
	w.events.push(event{at: w.now + wait, kind: resend, id: id})
}

// hint is the wait that the server asks for, if the strategy reads it.
func (rule *Rule) hint(r *request) time.Duration {
	if rule.obeys {
		return r.reply.Hint
	}
	return 0
}

// failure is what the quota is told.
func (w *World) failure(r *request, rule *Rule, obeyed bool) retrip.Failure {
	if obeyed {
		r.hinted++
	}
	return retrip.Failure{
		Class: rule.class[r.reply.Outcome], Timeout: r.reply.Outcome == Silent,
		Attempt: int(r.attempt), MaxAttempts: rule.strategy.MaxAttempts,
		Hint: obeyed, Hinted: int(r.hinted), Cost: rule.cost[r.reply.Outcome], Done: Epoch.Add(w.now),
	}
}

// schedule says how long the retry waits, if one may follow.
func (w *World) schedule(r *request, s *retrip.Strategy, class retrip.Class, hint time.Duration) (wait time.Duration, ok bool) {
	if int(r.attempt) >= s.MaxAttempts {
		return 0, false
	}
	wait, ok = w.backoff(r, s, class)
	if !ok || hint <= wait {
		return wait, ok
	}
	if hint > s.MaxRetryAfter-r.obeyed {
		return 0, false
	}
	r.obeyed += hint
	return hint, true
}

func (w *World) backoff(r *request, s *retrip.Strategy, class retrip.Class) (time.Duration, bool) {
	if r.attempt == 1 {
		r.failed = w.now
	}
	backoff := s.Backoff
	if class == retrip.Throttled && s.ThrottleBackoff != nil {
		backoff = s.ThrottleBackoff
	}
	retry := retrip.Retry{
		Index: int(r.attempt) - 1, Class: class, Attempt: attempts[r.reply.Outcome], Prev: r.prev,
		Elapsed: w.now - r.failed, Rand: w.chaos.Float64(),
	}
	retry.Attempt.Number = int(r.attempt)
	own, ok := backoff.Delay(retry)
	r.prev = max(own, 0)
	return r.prev, ok
}

// refuse counts a retry that the quota refused.
func (w *World) refuse(r *request, attempts int) {
	if w.Record == nil || r.tier != 0 || r.begun < w.Record.From {
		return
	}
	w.Record.Refused++
	if w.Chance > 0 {
		w.Record.Excess += 1 - math.Pow(w.Chance, float64(attempts-int(r.attempt)))
	}
}

// finish ends a request. Its end is the end of an attempt of the tier before.
func (w *World) finish(id int32) {
	r := &w.requests[id]
	w.spare = append(w.spare, id)
	good := w.Tiers[r.tier].Rule.class[r.reply.Outcome] == retrip.Success || r.reply.Outcome == NotFound
	if r.parent < 0 {
		if w.Record != nil {
			w.Record.ended(r.begun, w.now, good, int(r.attempt))
		}
		return
	}
	parent, reply := r.parent, r.reply
	if !good && reply.Outcome != Throttled {
		reply.Outcome = Failed // what a service answers whose own request failed
	}
	w.requests[parent].reply = reply
	w.ended(parent)
}
