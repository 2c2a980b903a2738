package main

// deciding are faults in whether a retry follows, and in the order of the
// questions.
var deciding = []mutant{
	{
		name: "A cancelled attempt is classified like a failure",
		file: "judge.go", old: `if a.Err != nil && cancellation(a.Request) != nil {`, new: `if false {`,
		tests: `TestCancelledAttemptDoesNotMoveTheRate|TestClientTimeout`,
	},
	{
		name: "A cancelled attempt is missing in the measured rate",
		file: "judge.go", old: `c.limiter.count(c.limiter.clock())`, new: `_ = c.limiter`,
		tests: `TestAdaptiveHearsEveryAttempt|TestCancelledAttemptDoesNotMoveTheRate`,
	},
	{
		name: "No error code is read",
		file: "judge.go", old: `readError(a)`, new: `_ = a`,
		tests: `TestVectorsErrorBodies`,
	},
	{
		name: "A classifier that needs the body is not asked again",
		file: "judge.go", old: `if v.class == NeedsBody {`, new: `if false {`,
		tests: `TestS3Errors`,
	},
	{
		name: "A classifier gets only the body that comes within 250 ms",
		file: "judge.go", old: `readBody(a, -1)`, new: `readBody(a, peekTime)`,
		tests: `TestS3ErrorAfterAWhile`,
	},
	{
		name: "An error that a classifier calls a success is one",
		file: "judge.go", old: `v.class == Success && a.Err == nil`, new: `v.class == Success`,
		tests: `TestOddVerdicts`,
	},
	{
		name: "A refused time stamp is retried although the clocks agree",
		file: "judge.go", old: `v.class == ClockSkewed && skewed`, new: `v.class == ClockSkewed && (skewed || true)`,
		tests: `TestVectorsClockSkewDecisions`,
	},
	{
		name: "A failure below status 400 has no time at which it ended",
		file: "judge.go", old: `if v.class != Success && a.Done.IsZero() {`, new: `if false {`,
		tests: `TestFailuresBelow400`,
	},
	{
		name: "The measured skew is not kept for later requests",
		file: "judge.go", old: `c.entry.setSkew(measured)`, new: `_ = measured`,
		tests: `TestSkewIsMeasuredAndSignedFor`,
	},
	{
		name: "A first attempt that succeeds earns no token",
		file: "judge.go", old: `c.policy.give(max(c.cost, 1))`, new: `c.policy.give(c.cost)`,
		tests: `TestTokens|TestVectorsQuota`,
	},
	{
		name: "A retry that succeeds gives back one token in place of its cost",
		file: "judge.go", old: `c.policy.give(max(c.cost, 1))`, new: `c.policy.give(1)`,
		tests: `TestTokens|TestVectorsQuota`,
	},
	{
		name: "The limiter takes every failure for throttling",
		file: "judge.go", old: `c.limiter.update(c.limiter.clock(), c.verdict.class == Throttled)`,
		new:   `c.limiter.update(c.limiter.clock(), c.verdict.class != Success)`,
		tests: `TestOtherFailuresDoNotSlowDown`,
	},
	{
		name: "A retry by an SDK further out is retried once more",
		file: "judge.go", old: `if outerAttempt(a.Request) > 1 {`, new: `if outerAttempt(a.Request) > 2 {`,
		tests: `TestOuterRetrierIsNotMultiplied`,
	},
	{
		name: "One attempt more than MaxAttempts is made",
		file: "judge.go", old: `a.Number >= c.maxAttempts`, new: `a.Number > c.maxAttempts`,
		tests: `TestModesTable|TestOverridesOfTheContext`,
	},
	{
		name: "A request that is not idempotent is repeated after any failure",
		file: "judge.go", old: `case !c.repeatable() && !unprocessed(*a, class, c.verdict.byCode):`, new: `case false:`,
		tests: `TestSafety`,
	},
	{
		name: "A request that was cancelled as its answer came loses the answer",
		file: "judge.go", old: `case cancellation(a.Request) != nil: return Cancelled`, new: `case false:`,
		tests: `TestAnswerOfACancelledRequest`,
	},
	{
		name: "A cancellation while the body is awaited is blamed on the body",
		file: "judge.go", old: `if cancellation(a.Request) != nil { return Cancelled } return BodyNotReplayable`,
		new:   `return BodyNotReplayable`,
		tests: `TestCancelDuringTheGrace`,
	},
	{
		name: "A retry whose GetBody fails costs tokens",
		file: "judge.go", old: `if !c.reopenBody() {`, new: `if !c.reopenBody() { c.policy.take(c.policy.costOf(a, class))`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "A retry that its wait rules out costs tokens",
		file: "judge.go", old: `if reason := c.schedule(); reason != 0 {`,
		new:   `if reason := c.schedule(); reason != 0 { c.policy.take(c.policy.costOf(a, class))`,
		tests: `TestServerDirectedWaits|TestWait|TestHintIsToldWhenItIsWhyWeStop`,
	},
	{
		name: "A long poll that is refused a retry returns at once",
		file: "judge.go", old: `longPoll == nil || !longPoll(a.Request)`, new: `longPoll == nil || longPoll != nil`,
		tests: `TestLongPollWaitsWithItsAnswer`,
	},
	{
		name: "A request without quota waits its backoff for nothing",
		file: "judge.go", old: `!longPoll(a.Request) { c.delay, c.from = 0, "" }`, new: `!longPoll(a.Request) { c.from = "" }`,
		tests: `TestLongPollWaitsWithItsAnswer|TestQuotaSpentKeepsTheAnswer`,
	},
	{
		name: "A base that goes on reading an old body takes from the new one",
		file: "judge.go", old: `c.cost, c.spent = cost, false if c.replay != nil { c.replay.fence() }`, new: `c.cost, c.spent = cost, false`,
		tests: `TestFenceKeepsAnOldAttemptOut`,
	},
	{
		name: "A cancelled wait keeps the tokens of the retry that was not sent",
		file: "judge.go", old: `c.cost, c.spent = cost, false`, new: `c.cost = cost`,
		tests: `TestCancelDuringWait|TestPanicsConserveTokens`,
	},
	{
		name: "RepeatAll does not count",
		file: "judge.go", old: `c.idempotent || c.policy.RepeatAll || repeatable(`, new: `c.idempotent || repeatable(`,
		tests: `TestSafety`,
	},
	{
		name: "WithIdempotent does not count",
		file: "judge.go", old: `c.idempotent || c.policy.RepeatAll || repeatable(`, new: `c.policy.RepeatAll || repeatable(`,
		tests: `TestSafety`,
	},
	{
		name: "A body whose source is slow is not replayed",
		file: "judge.go", old: `for left := sourceGrace; pending != nil`, new: `for left := 0 * sourceGrace; pending != nil`,
		tests: `TestSlowSourceIsReplayed`,
	},
	{
		name: "A GetBody that fails ends in a retry without a body",
		file: "judge.go", old: `return c.obstacle == nil`, new: `return c.obstacle == nil || c.replay == nil`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "The period of retries begins anew with each failure",
		file: "judge.go", old: `if c.failed.IsZero() {`, new: `{`,
		tests: `TestRetryIsTold|TestFailuresBelow400`,
	},
	{
		name: "The first retry waits like the second",
		file: "judge.go", old: `Index: a.Number - 1,`, new: `Index: a.Number,`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "A backoff does not hear what it gave before",
		file: "judge.go", old: `c.own, c.delay, c.from = own, own, "backoff"`, new: `c.delay, c.from = own, "backoff"`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "A backoff hears of the server's wait as if it were its own",
		file: "judge.go", old: `c.delay, c.from = h.Wait, h.From`, new: `c.delay, c.from, c.own = h.Wait, h.From, h.Wait`,
		tests: `TestBackoffIsNotToldTheServersWait`,
	},
	{
		name: "A server's short wait cuts the backoff",
		file: "judge.go", old: `ok && h.Wait > own {`, new: `ok {`,
		tests: `TestVectorsServerWaits|TestServerDirectedWaits`,
	},
	{
		name: "The cap bounds each of the server's waits, but not their sum",
		file: "judge.go", old: `h.Wait > s.MaxWait-c.hinted`, new: `h.Wait > s.MaxWait`,
		tests: `TestServerDirectedWaits|TestRetryAfterFloods`,
	},
	{
		name: "A server's wait of exactly the cap is refused",
		file: "judge.go", old: `h.Wait > s.MaxWait-c.hinted`, new: `h.Wait >= s.MaxWait-c.hinted`,
		tests: `TestWaitsAtTheirBounds`,
	},
	{
		name: "The limiter's queue is not part of a retry's wait",
		file: "judge.go", old: `queued = c.limiter.queueTime(c.limiter.clock())`, new: `queued = 0`,
		tests: `TestQueueIsPartOfTheWait`,
	},
	{
		name: "The backoff does not count towards the wait for the limiter",
		file: "judge.go", old: `queued-c.delay > s.MaxAdmitWait`, new: `queued > s.MaxAdmitWait`,
		tests: `TestBackoffIsPartOfTheQueue`,
	},
	{
		name: "A retry is planned for the very moment of the deadline",
		file: "judge.go", old: `return wait >= deadline.Sub(now)`, new: `return wait > deadline.Sub(now)`,
		tests: `TestWaitsAtTheirBounds`,
	},
	{
		name: "A backoff that outlives the deadline is waited for",
		file: "judge.go", old: `c.outlivesDeadline(c.delay, a.Done), c.outlivesDeadline(queued, time.Time{}):`,
		new:   `c.outlivesDeadline(queued, time.Time{}):`,
		tests: `TestWaitBeyondDeadlineFailsFast`,
	},
	{
		name: "The time that a look into the body took counts twice against the deadline",
		file: "judge.go", old: `wait -= now.Sub(from)`, new: `_ = now.Sub(from)`,
		tests: `TestLookIntoTheBodyCountsOnce`,
	},
	{
		name: "An event blames the backoff for the server's wait",
		file: "judge.go", old: `c.delay, c.from = h.Wait, h.From`, new: `c.delay = h.Wait`,
		tests: `TestHintIsToldWhenItIsWhyWeStop|TestEventsAndTrace`,
	},
	{
		name: "Throttling waits like any failure",
		file: "strategy.go", old: `if r.Class == Throttled && s.ThrottleBackoff != nil {`, new: `if false {`,
		tests: `TestEventsAndTrace`,
	},
	{
		name: "A negative delay of a backoff is not zero",
		file: "strategy.go", old: `return max(d, 0), ok`, new: `return d, ok`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "The last opinion of the classifiers wins",
		file: "strategy.go", old: `for _, classifier := range asked {`, new: `for _, classifier := range slices.Backward(asked) {`,
		tests: `TestOneRuleMore`,
	},
	{
		name: "A classifier that asks for the body twice keeps the others from answering",
		file: "strategy.go", old: `c == NeedsBody && (a.Body != nil || a.Response == nil)`, new: `c == NeedsBody && a.Response == nil`,
		tests: `TestClassifierThatAlwaysAsks`,
	},
	{
		name: "A classifier that asks for the body of an error keeps the others from answering",
		file: "strategy.go", old: `c == NeedsBody && (a.Body != nil || a.Response == nil)`, new: `c == NeedsBody && a.Body != nil`,
		tests: `TestClassifierThatAlwaysAsks`,
	},
	{
		name: "No classifier is asked about an answer below 400",
		file: "strategy.go", old: `rest, asked = Success, p.onSuccess`, new: `rest, asked = Success, nil`,
		tests: `TestFailuresBelow400|TestS3Errors`,
	},
	{
		name: "A classifier of the user's own is not asked about an answer below 400",
		file: "strategy.go", old: `!ok || !rule.FailuresOnly()`, new: `ok && !rule.FailuresOnly()`,
		tests: `TestS3ErrorAfterAWhile|ExampleClassifierFunc`,
	},
	{
		name: "A user's wait reader may ask for less than nothing",
		file: "strategy.go", old: `h.Wait = max(h.Wait, 0)`, new: `_ = h`,
		tests:      `TestServerDirectedWaits`,
		equivalent: "a wait that is not longer than the backoff does not count, and on top of the backoff a negative one is never longer",
	},
	{
		name: "The bound of a server's wait does not count",
		file: "strategy.go", old: `if h.Within > 0 {`, new: `if false {`,
		tests: `TestVectorsServerWaits`,
	},
	{
		name: "The bound of a server's wait counts from nothing in place of the backoff",
		file: "strategy.go", old: `min(h.Wait, plus(own, h.Within))`, new: `min(h.Wait, h.Within)`,
		tests: `TestVectorsServerWaits`,
	},
	{
		name: "A wait that comes on top of the backoff replaces it",
		file: "strategy.go", old: `if h.Added {`, new: `if false {`,
		tests: `TestWaitHeaderOfTheUsersOwn`,
	},
	{
		name: "The last of several readers of a server's wait wins",
		file: "strategy.go", old: `for i := range p.waits {`, new: `for i := len(p.waits) - 1; i >= 0; i-- {`,
		tests: `TestWaitHeaders|TestServerDirectedWaits`,
	},
	{
		name: "A timeout is free where it has no price of its own",
		file: "strategy.go", old: `case s.TimeoutCost > 0 && isTimeout(a.Err):`, new: `case isTimeout(a.Err):`,
		tests: `TestModes|TestVectorsQuota`,
	},
	{
		name: "A throttled retry costs as much as any",
		file: "strategy.go", old: `return s.ThrottleCost`, new: `return s.Cost`,
		tests: `TestTokens`,
	},
	{
		name: "A clone has no more tokens than the original",
		file: "strategy.go", old: `NewBucket(b.Capacity())`, new: `NewBucket(b.Tokens())`,
		tests: `TestCloneIsFresh`,
	},
	{
		name: "A clone shares the original's limiter",
		file: "strategy.go", old: `c.Limiter = s.Limiter.fresh()`, new: `c.Limiter = s.Limiter`,
		tests: `TestCloneIsFresh`,
	},
	{
		name: "A change of a clone's classifiers changes the original's",
		file: "strategy.go", old: `c.Classifiers = slices.Clone(s.Classifiers)`, new: `c.Classifiers = s.Classifiers`,
		tests: `TestCloneIsFresh`,
	},
	{
		name: "A change of a clone's wait readers changes the original's",
		file: "strategy.go", old: `c.Waits = slices.Clone(s.Waits)`, new: `c.Waits = s.Waits`,
		tests: `TestCloneIsFresh`,
	},
	{
		name: "A limiter per request has no beginning",
		file: "strategy.go", old: `&& p.limiter == s.Limiter`, new: ``,
		tests: `TestAdaptiveV1`,
	},
	{
		name: "A negative cost is accepted",
		file: "strategy.go", old: `if s.Cost < 0 {`, new: `if s.Cost < -1 {`,
		tests: `TestValidate`,
	},
	{
		name: "A strategy that makes no attempt is accepted",
		file: "strategy.go", old: `if s.MaxAttempts < 1 {`, new: `if s.MaxAttempts < 0 {`,
		tests: `TestValidate`,
	},
}
