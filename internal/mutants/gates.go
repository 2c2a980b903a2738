package main

// gates are faults in the gate: in what it counts, and in what it allows.
var gates = []mutant{
	{
		name: "A 404 leaves the gate shut",
		file: "gate.go", old: `func (g *Gate) Answered(Class, int) { for {`, new: `func (g *Gate) Answered(c Class, _ int) { for c == Success {`,
		tests: `TestGateTrustsAnyAnswer`,
	},
	{
		name: "A request's own failures count against it",
		file: "gate.go", old: `return g.late && g.doubt >= limit+own`, new: `return g.late && g.doubt >= limit`,
		tests: `TestGateNeverRefusesALoneRequest|TestGateTimeline`,
	},
	{
		name: "A gate is shut by one failure too few",
		file: "gate.go", old: `g.doubt >= limit+own`, new: `g.doubt+gateFailure > limit+own`,
		tests: `TestGateTimeline|TestGateBoundsRetries`,
	},
	{
		name: "All failures of a request count",
		file: "gate.go", old: `gateHinted*hinted, gateRequest))`, new: `gateHinted*hinted, 100*gateRequest))`,
		tests: `TestGateTimeline|TestGateSavedRequestLeavesNoDoubt`,
	},
	{
		name: "A failure with a hint counts like any other",
		file: "gate.go", old: `gateHinted = 1`, new: `gateHinted = gateFailure`,
		tests: `TestGateTimeline|TestGateAndHints`,
	},
	{
		name: "Failures with a hint do not count at all",
		file: "gate.go", old: `gateHinted = 1`, new: `gateHinted = 0`,
		tests: `TestGateTimeline|TestGateAndHints`,
	},
	{
		name: "The gate takes a hint that is too long to be obeyed for one",
		file: "decide.go", old: `Hint: obeyed == 1`, new: `Hint: o.hasHint`,
		tests: `TestGateAndHints|TestQuotaHearsOfEachAttempt`,
	},
	{
		name: "The gate takes a hint of 0 for one",
		file: "decide.go", old: `0 < wait && wait <= p.MaxRetryAfter`, new: `wait <= p.MaxRetryAfter`,
		tests: `TestGateAndHints`,
	},
	{
		name: "A request body that can't be read counts against the server",
		file: "decide.go", old: `case o.broke:`, new: `case false:`,
		tests: `TestQuotaAndBodiesThatFail`,
	},
	{
		name: "A body that a timeout ended hides the timeout from the gate",
		file: "attempt.go", old: `o.broke = !isTimeout(o.Err) && replay.Broke`, new: `o.broke = replay.Broke`,
		tests: `TestModel`,
	},
	{
		name: "The gate does not see which failure had the hint",
		file: "gate.go", old: `if f.Hint { return f.Attempt - f.Hinted, f.Hinted - 1 }`, new: ``,
		tests: `TestGateTimeline|TestGateAndHints`,
	},
	{
		name: "Nothing is free in the first second",
		file: "gate.go", old: `gateGrace = 1000`, new: `gateGrace = 0`,
		tests: `TestGateFirstSecond|TestGatedRidesOutAnInterruption`,
	},
	{
		name: "The first second never ends",
		file: "gate.go", old: `g.late = g.late || elapsed >= 2*gateGrace ||`, new: `g.late = g.late ||`,
		tests: `TestGateTimeline|TestGatedOutage`,
	},
	{
		name: "A failure that the gate hears of after later ones ends the first second",
		file: "gate.go", old: `(now - g.since + gateGrace) & gateSinceMask`, new: `(now-g.since)&gateSinceMask + gateGrace`,
		tests: `TestGatedFailuresOutOfOrder`,
	},
	{
		name: "What the first second added counts until it is worked off",
		file: "gate.go", old: `case elapsed >= gateGrace+gateDebt: g.most = gateMost`, new: ``,
		tests: `TestGateForgetsTheFirstSecond|TestGatedBurstThenFewRequests`,
	},
	{
		name: "What the first second added is forgotten at once",
		file: "gate.go", old: `elapsed >= gateGrace+gateDebt`, new: `true`,
		tests: `TestGateFirstSecond`,
	},
	{
		name: "Every failure in doubt begins another second",
		file: "gate.go", old: `g.late = g.late || elapsed`, new: `g.late = elapsed`,
		tests: `TestGateAndAClockThatIsSet|TestGateInFullDoubt|TestGateTimeoutsEndTheSecond`,
	},
	{
		name: "The retries of the first second need not be worked off",
		file: "gate.go", old: `g.most = max(g.most, g.doubt+adds)`, new: ``,
		tests: `TestGateFirstSecond|TestGateCountsExactly`,
	},
	{
		name: "Doubt grows for as long as the server is down",
		file: "gate.go", old: `g.doubt = min(g.doubt+adds, g.most)`, new: `g.doubt = min(g.doubt+adds, gateDoubtMask)`,
		tests: `TestGateTimeline|TestGateInFullDoubt`,
	},
	{
		name: "Timeouts do not end the first second",
		file: "gate.go", old: `limit, f.Timeout)`, new: `limit, false)`,
		tests: `TestGateTimeoutsEndTheSecond`,
	},
	{
		name: "Any failure ends the first second",
		file: "gate.go", old: `timeout && g.doubt+gateFailure`, new: `g.doubt+gateFailure`,
		tests: `TestGateFirstSecond|TestGatedCrashOfOneMachine`,
	},
	{
		name: "One answer takes all doubt away",
		file: "gate.go", old: `w-min(doubt, gateAnswer)`, new: `w-doubt`,
		tests: `TestGateTimeline|TestGateInFullDoubt`,
	},
	{
		name: "Of two failures at once one is lost",
		file: "gate.go", old: `if w == old || g.word.CompareAndSwap(old, w) { return }`, new: `g.word.Store(w); return`,
		tests: `TestGateCountsExactly`,
	},
	{
		name: "A flood of failures makes doubt spill over into the rest of the word",
		file: "gate.go", old: `|| g.doubt+gateRequest > gateDoubtMask`, new: ``,
		tests: `TestGateHoldsAFloodOfFailures`,
	},
	{
		name: "A success without doubt writes",
		file: "gate.go", old: `if doubt == 0 || g.word.CompareAndSwap(w, w-min(doubt, gateAnswer)) {`, new: `if g.word.CompareAndSwap(w, w-min(doubt, gateAnswer)) {`,
		tests: `TestGateWithoutDoubtIsOnlyRead`,
	},
	{
		name: "A request of many attempts has no higher limit",
		file: "gate.go", old: `gateLeastLimit), gateMostLimit)`, new: `gateLeastLimit), gateLeastLimit)`,
		tests: `TestGateTimeline|TestGateTimeoutsEndTheSecond`,
	},
	{
		name: "A host in doubt is forgotten",
		file: "gate.go", old: `return g.word.Load()&gateDoubtMask == 0`, new: `return true`,
		tests: `TestHostInDoubtIsKept|TestGateTimeline`,
	},
	{
		name: "A host with a gate is never forgotten",
		file: "strategy.go", old: `q, ok := p.Quota.(RestingQuota)`, new: `q, ok := p.Quota.(MeteredQuota)`,
		tests: `TestHostInDoubtIsKept`,
	},
	{
		name: "A clone has the original's gate",
		file: "strategy.go", old: `c.Quota = new(Gate)`, new: `_ = c`,
		tests: `TestCloneHasAFreshGate`,
	},
	{
		name: "Gated has a bucket",
		file: "modes.go", old: `if row.gated { s.Quota = new(Gate) }`, new: ``,
		tests: `TestModes`,
	},
}
