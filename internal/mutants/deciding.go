package main

// deciding are faults in whether a retry follows, and in the order of the
// questions.
var deciding = []mutant{
	{
		name: "A cancelled attempt is classified like a failure",
		file: "decide.go", old: `if o.Err != nil && (cancellation(r.req) != nil || cancelRequested(o.Err)) {`, new: `if false {`,
		tests: `TestCancelledAttemptDoesNotMoveTheRate|TestClientTimeout`,
	},
	{
		name: "A cancelled attempt is missing in the measured rate",
		file: "decide.go", old: `r.limiter.count(r.limiter.clock())`, new: `_ = r.limiter`,
		tests: `TestAdaptiveHearsEveryAttempt|TestCancelledAttemptDoesNotMoveTheRate`,
	},
	{
		name: "No error code is read",
		file: "decide.go", old: `readError(&o.Attempt)`, new: `_ = o.Attempt`,
		tests:    `TestVectorsErrorBodies`,
		packages: []string{"./aws"},
	},
	{
		name: "A classifier that needs the body is not asked again",
		file: "decide.go", old: `if v.class == NeedsBody {`, new: `if false {`,
		tests:    `TestS3Errors`,
		packages: []string{"./aws"},
	},
	{
		name: "A classifier gets only the body that comes within 250 ms",
		file: "decide.go", old: `readBody(&o.Attempt, -1)`, new: `readBody(&o.Attempt, peekTime)`,
		tests:    `TestS3ErrorAfterAWhile`,
		packages: []string{"./aws"},
	},
	{
		name: "An error that a classifier calls a success is one",
		file: "decide.go", old: `v.class == Success && o.Err == nil`, new: `v.class == Success`,
		tests: `TestOddVerdicts`,
	},
	{
		name: "A refused time stamp is retried although the clocks agree",
		file: "decide.go", old: `v.class == ClockSkewed && skewed`, new: `v.class == ClockSkewed && (skewed || true)`,
		tests:    `TestVectorsClockSkewDecisions`,
		packages: []string{"./aws"},
	},
	{
		name: "A failure below status 400 has no time at which it ended",
		file: "decide.go", old: `v.class = Permanent } o.stampDone() if`, new: `v.class = Permanent }; if`,
		tests: `TestFailuresBelow400`,
	},
	{
		name: "The measured skew is not kept for later requests",
		file: "decide.go", old: `r.entry.setSkew(measured)`, new: `_ = measured`,
		tests: `TestSkewIsMeasuredAndSignedFor`,
	},
	{
		name: "A first attempt that succeeds earns no token",
		file: "bucket.go", old: `b.give(max(cost, 1))`, new: `b.give(cost)`,
		tests: `TestTokens|TestBucketTimeline`,
	},
	{
		name: "A retry that succeeds gives back one token in place of its cost",
		file: "bucket.go", old: `b.give(max(cost, 1))`, new: `b.give(1)`,
		tests: `TestTokens|TestBucketTimeline`,
	},
	{
		name: "The limiter takes every failure for throttling",
		file: "decide.go", old: `r.limiter.update(r.limiter.clock(), v.class == Throttled)`,
		new:   `r.limiter.update(r.limiter.clock(), v.class != Success)`,
		tests: `TestOtherFailuresDoNotSlowDown`,
	},
	{
		name: "A retry by an SDK further out is retried once more",
		file: "transport.go", old: `if outerAttempt(r.req) > 1 {`, new: `if outerAttempt(r.req) > 2 {`,
		tests: `TestOuterRetrierIsNotMultiplied`,
	},
	{
		name: "One attempt more than MaxAttempts is made",
		file: "decide.go", old: `o.Number >= r.attempts`, new: `o.Number > r.attempts`,
		tests: `TestModesTable|TestOverridesOfTheContext`,
	},
	{
		name: "A request that is not idempotent is repeated after any failure",
		file: "decide.go", old: `case !r.mayRepeat() && !unprocessed(o, v):`, new: `case false:`,
		tests: `TestSafety`,
	},
	{
		name: "A request that was cancelled as its answer came loses the answer",
		file: "decide.go", old: `case cancellation(r.req) != nil: return noRetry(Cancelled)`, new: `case false:`,
		tests: `TestAnswerOfACancelledRequest`,
	},
	{
		name: "A cancellation while the body is awaited is blamed on the body",
		file: "decide.go", old: `case obstacle != nil && cancellation(r.req) != nil:`, new: `case false:`,
		tests: `TestCancelDuringTheGrace`,
	},
	{
		name: "A retry whose GetBody fails costs tokens",
		file: "decide.go", old: `case obstacle != nil: return`, new: `case obstacle != nil: r.policy.Quota.Take(r.ctx, r.failure(o, v, past)); return`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "A retry that its wait rules out costs tokens",
		file: "decide.go", old: `return r.schedule(o, v, past)`,
		new:   `d := r.schedule(o, v, past); if d.reason != 0 { r.policy.Quota.Take(r.ctx, r.failure(o, v, past)) }; return d`,
		tests: `TestServerDirectedWaits|TestWait|TestHintIsToldWhenItIsWhyWeStop`,
	},
	{
		name: "A long poll that is refused a retry returns at once",
		file: "decide.go", old: `longPoll != nil && longPoll(r.req) {`, new: `longPoll != nil && false {`,
		tests: `TestLongPollWaitsWithItsAnswer`,
	},
	{
		name: "A request without quota waits its backoff for nothing",
		file: "decide.go", old: `return noRetry(QuotaExhausted)`, new: `return decision{reason: QuotaExhausted, linger: d.wait}`,
		tests: `TestLongPollWaitsWithItsAnswer|TestQuotaSpentKeepsTheAnswer`,
	},
	{
		name: "A base that goes on reading an old body takes from the new one",
		file: "internal/replay/opaque.go", old: `o.stopWatch() o.attempt++`, new: `o.stopWatch()`,
		tests: `TestFenceKeepsAnOldAttemptOut`,
	},
	{
		name: "A cancelled wait keeps the tokens of the retry that was not sent",
		file: "finish.go", old: `r.policy.Quota.Return(p.cost)`, new: ``,
		tests: `TestCancelDuringWait|TestPanicsConserveTokens`,
	},
	{
		name: "RetryNonIdempotent does not count",
		file: "decide.go", old: `r.idempotent || r.policy.RetryNonIdempotent || repeatable(`, new: `r.idempotent || repeatable(`,
		tests: `TestSafety`,
	},
	{
		name: "WithIdempotent does not count",
		file: "decide.go", old: `r.idempotent || r.policy.RetryNonIdempotent || repeatable(`, new: `r.policy.RetryNonIdempotent || repeatable(`,
		tests: `TestSafety`,
	},
	{
		name: "A body whose source is slow is not replayed",
		file: "internal/replay/opaque.go", old: `for left := graceSteps; ; {`, new: `for left := 0 * graceSteps; ; {`,
		tests: `TestSlowSourceIsReplayed`,
	},
	{
		name: "A GetBody that fails ends in a retry without a body",
		file: "decide.go", old: `obstacle = p.body.Reopen()`, new: `_ = p.body.Reopen()`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "The period of retries begins anew with each failure",
		file: "decide.go", old: `if h.failed.IsZero() {`, new: `{`,
		tests: `TestRetryIsTold|TestFailuresBelow400`,
	},
	{
		name: "The first retry waits like the second",
		file: "decide.go", old: `Index: o.Number - 1,`, new: `Index: o.Number,`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "A backoff does not hear what it gave before",
		file: "decide.go", old: `h.backoff, h.asked, h.class = d.backoff, d.asked, v.class`, new: `h.asked, h.class = d.asked, v.class`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "A backoff hears of the server's wait as if it were its own",
		file: "decide.go", old: `d.wait, d.from = hint, o.hint.From`, new: `d.wait, d.from, d.backoff = hint, o.hint.From, hint`,
		tests: `TestBackoffIsNotToldTheServersWait`,
	},
	{
		name: "A server's short wait cuts the backoff",
		file: "decide.go", old: `o.hasHint && hint > backoff {`, new: `o.hasHint {`,
		tests:    `TestServerDirectedWaits|TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "The cap bounds each of the server's waits, but not their sum",
		file: "decide.go", old: `if hint > s.MaxRetryAfter-past.asked`, new: `if hint > s.MaxRetryAfter`,
		tests: `TestServerDirectedWaits|TestRetryAfterFloods`,
	},
	{
		name: "A server's wait of exactly the cap is refused",
		file: "decide.go", old: `if hint > s.MaxRetryAfter-past.asked`, new: `if hint >= s.MaxRetryAfter-past.asked`,
		tests: `TestWaitsAtTheirBounds`,
	},
	{
		name: "The limiter's queue is not part of a retry's wait",
		file: "decide.go", old: `queued = r.limiter.queueTime(r.limiter.clock())`, new: `queued = 0`,
		tests: `TestQueueIsPartOfTheWait`,
	},
	{
		name: "The backoff does not count towards the wait for the limiter",
		file: "decide.go", old: `queued-d.wait > s.MaxLimiterWait`, new: `queued > s.MaxLimiterWait`,
		tests: `TestBackoffIsPartOfTheQueue`,
	},
	{
		name: "A retry is planned for the very moment of the deadline",
		file: "decide.go", old: `return wait >= deadline.Sub(now)`, new: `return wait > deadline.Sub(now)`,
		tests: `TestWaitsAtTheirBounds`,
	},
	{
		name: "A backoff that outlives the deadline is waited for",
		file: "decide.go", old: `r.outlivesDeadline(d.wait, o.Done), r.outlivesDeadline(queued, time.Time{}):`,
		new:   `r.outlivesDeadline(queued, time.Time{}):`,
		tests: `TestWaitBeyondDeadlineFailsFast`,
	},
	{
		name: "The time that a look into the body took counts twice against the deadline",
		file: "decide.go", old: `wait -= now.Sub(from)`, new: `_ = now.Sub(from)`,
		tests: `TestLookIntoTheBodyCountsOnce`,
	},
	{
		name: "An event blames the backoff for the server's wait",
		file: "decide.go", old: `d.wait, d.from = hint, o.hint.From`, new: `d.wait = hint`,
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
		tests:    `TestFailuresBelow400|TestS3Errors`,
		packages: []string{"./aws"},
	},
	{
		name: "A classifier of the user's own is not asked about an answer below 400",
		file: "strategy.go", old: `failuresOnly := false`, new: `failuresOnly := true`,
		tests:    `TestS3ErrorAfterAWhile|ExampleClassifierFunc`,
		packages: []string{"./aws"},
	},
	{
		name: "A user's wait reader may ask for less than nothing",
		file: "strategy.go", old: `h.Wait = max(h.Wait, 0)`, new: `_ = h`,
		tests:      `TestServerDirectedWaits`,
		equivalent: "a wait that is not longer than the backoff does not count, and on top of the backoff a negative one is never longer",
	},
	{
		name: "The bound of a server's wait does not count",
		file: "strategy.go", old: `if h.MaxExcess > 0 {`, new: `if false {`,
		tests:    `TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "The bound of a server's wait counts from nothing in place of the backoff",
		file: "strategy.go", old: `min(wait, plus(own, h.MaxExcess))`, new: `min(wait, h.MaxExcess)`,
		tests:    `TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "A wait that comes on top of the backoff replaces it",
		file: "strategy.go", old: `if h.Additive {`, new: `if false {`,
		tests: `TestWaitHeaderOfTheUsersOwn`,
	},
	{
		name: "The last of several readers of a server's wait wins",
		file: "strategy.go", old: `for i := range p.hintReaders {`, new: `for i := len(p.hintReaders) - 1; i >= 0; i-- {`,
		tests: `TestWaitHeaders|TestServerDirectedWaits`,
	},
	{
		name: "A timeout is free where it has no price of its own",
		file: "strategy.go", old: `case s.TimeoutCost > 0 && isTimeout(a.Err):`, new: `case isTimeout(a.Err):`,
		tests:    `TestModes|TestVectorsQuota`,
		packages: []string{"./aws"},
	},
	{
		name: "A throttled retry costs as much as any",
		file: "strategy.go", old: `return s.ThrottleCost`, new: `return s.Cost`,
		tests: `TestTokens`,
	},
	{
		name: "A clone has no more tokens than the original",
		file: "strategy.go", old: `NewBucket(q.Capacity())`, new: `NewBucket(q.Tokens())`,
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
		file: "strategy.go", old: `c.Hints = slices.Clone(s.Hints)`, new: `c.Hints = s.Hints`,
		tests: `TestCloneIsFresh`,
	},
	{
		name: "A limiter per request has no beginning",
		file: "transport.go", old: `|| r.trace != nil || r.limiter != r.policy.Limiter`, new: `|| r.trace != nil`,
		tests:    `TestAdaptiveV1`,
		packages: []string{"./aws"},
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
	{
		name: "A user's type around one of ours is not asked whether it is valid",
		file: "strategy.go", old: `if err := own.check(); err != nil { return err }`, new: `return own.check()`,
		tests: `TestValidateOfATypeAroundOurs`,
	},
}
