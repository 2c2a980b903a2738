package main

// waits are faults in how long a retry waits.
var waits = []mutant{
	{
		name: "Whole milliseconds may have a fraction",
		file: "retryafter.go", old: `ok = ok && !strings.Contains(value, ".")`, new: ``,
		tests:    `TestWaitHeaders|TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "Milliseconds are taken for seconds",
		file: "retryafter.go", old: `case Milliseconds: wait, ok = parseDecimal(strings.TrimSpace(value), time.Millisecond)`,
		new:   `case Milliseconds: wait, ok = parseDecimal(strings.TrimSpace(value), time.Second)`,
		tests: `TestWaitHeaders`,
	},
	{
		name: "A date in Retry-After counts from our clock in place of the server's",
		file: "retryafter.go", old: `if err != nil { now = a.Done }`, new: `if true || err != nil { now = a.Done }`,
		tests: `TestWaitHeaders`,
	},
	{
		name: "A date in Retry-After counts from the beginning of time without a Date",
		file: "retryafter.go", old: `if err != nil { now = a.Done }`, new: `_ = err`,
		tests: `TestWaitHeaders`,
	},
	{
		name: "A moment in the past asks for a negative wait",
		file: "retryafter.go", old: `return max(0, at.Sub(now))`, new: `return at.Sub(now)`,
		tests: `TestWaitHeaders`,
	},
	{
		name: "A huge Retry-After becomes a negative wait",
		file: "retryafter.go", old: `product < math.MaxInt64 {`, new: `product == product {`,
		tests:    `TestWaitHeaders|TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "Retry-After may have an exponent",
		file: "retryafter.go", old: `strings.Trim(s, "0123456789.") != ""`, new: `strings.Trim(s, "0123456789.e") != ""`,
		tests:    `TestWaitHeaders|TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "A negative Retry-After counts",
		file: "retryafter.go", old: `strings.Trim(s, "0123456789.") != ""`, new: `strings.Trim(s, "-0123456789.") != ""`,
		tests:    `TestWaitHeaders|TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "A header that a user names in lower case is never read",
		file: "retryafter.go", old: `known[i].header = http.CanonicalHeaderKey(w.Name)`, new: `known[i].header = w.Name; _ = http.CanonicalHeaderKey`,
		tests: `TestWaitHeaderOfTheUsersOwn`,
	},
	{
		name: "AWS's own header may ask for 50 s more than the backoff",
		file: "retryafter.go", old: `MaxExcess: 5 * time.Second`, new: `MaxExcess: 50 * time.Second`,
		tests:    `TestVectorsServerWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "Retry-After wins over the exacter headers",
		file: "modes.go", old: `{amzRetryAfter, retryAfterMS, msRetryAfterMS, retryAfter}`, new: `{retryAfter, amzRetryAfter, retryAfterMS, msRetryAfterMS}`,
		tests:    `TestWaitHeaders|TestVectorsServerWaits|TestServerDirectedWaits`,
		packages: []string{"./aws"},
	},
	{
		name: "Full jitter is u² in place of u",
		file: "backoff.go", old: `scale(ceiling(j.Base, j.Cap, r.Index), r.Rand), true`, new: `scale(ceiling(j.Base, j.Cap, r.Index), r.Rand*r.Rand), true`,
		tests:    `TestBackoffs|TestVectorsBackoff`,
		packages: []string{"./aws"},
	},
	{
		name: "The chance that waits are drawn with is u² in place of u",
		file: "strategy.go", old: `r.Rand = rand.Float64()`, new: `r.Rand = rand.Float64(); r.Rand *= r.Rand`,
		tests: `TestJitterIsUniform`,
	},
	{
		name: "The chance of the user's own source does not count",
		file: "strategy.go", old: `r.Rand = s.Rand()`, new: `r.Rand = rand.Float64()`,
		tests: `TestRetryIsTold`,
	},
	{
		name: "Equal jitter keeps no half of the wait",
		file: "backoff.go", old: `return c/2 + scale(c-c/2, r.Rand), true`, new: `return scale(c, r.Rand), true`,
		tests: `TestBackoffs`,
	},
	{
		name: "Decorrelated jitter doubles in place of tripling",
		file: "backoff.go", old: `top = 3 * prev`, new: `top = 2 * prev`,
		tests: `TestBackoffs`,
	},
	{
		name: "Jitter after the cap is jitter before it",
		file: "backoff.go", old: `scale(ceiling(j.Base, 0, r.Index), r.Rand)`, new: `scale(ceiling(j.Base, j.Cap, r.Index), r.Rand)`,
		tests: `TestBackoffs`,
	},
	{
		name: "A backoff without a cap overflows at a late retry",
		file: "backoff.go", old: `case n > 62 || base > top>>n:`, new: `case n > 62 || cap > 0 && base > top>>n:`,
		tests: `TestWaitsWithoutACap`,
	},
	{
		name: "A retry may begin when its period is over",
		file: "backoff.go", old: `plus(r.Elapsed, c.Wait) <= c.Period`, new: `r.Elapsed <= c.Period`,
		tests:    `TestFixedInterval|TestFailuresBelow400|TestBackoffs`,
		packages: []string{"./services"},
	},
	{
		name: "A retry may not begin at the end of its period",
		file: "backoff.go", old: `plus(r.Elapsed, c.Wait) <= c.Period`, new: `plus(r.Elapsed, c.Wait) < c.Period`,
		tests:    `TestFixedInterval|TestFailuresBelow400|TestBackoffs`,
		packages: []string{"./services"},
	},
	{
		name: "The backoff counts from when the answer was looked at, not from its end",
		file: "finish.go", old: `left = max(0, left-time.Since(ended))`, new: `left = max(0, left-0*time.Since(ended))`,
		tests: `TestErrorBodiesAndDeadlines|TestPeekOfASlowBody`,
	},
	{
		name: "An answer that does not end is never closed",
		file: "finish.go", old: `default: go replay.Close(resp.Body)`, new: `default: _ = resp.Body`,
		tests: `TestDiscard`,
	},
	{
		name: "Without a backoff, no answer is read to its end",
		file: "finish.go", old: `if err == nil && d.wait < discardTime {`, new: `if false {`,
		tests: `TestErrorPagesKeepTheConnection|TestDiscard`,
	},
	{
		name: "An answer is read on beside the backoff",
		file: "finish.go", old: `pause(r.req, discardTime-d.wait, reading.done)`, new: `pause(r.req, discardTime, reading.done)`,
		tests: `TestDiscard`,
	},
	{
		name: "Request.Cancel does not end a wait",
		file: "finish.go", old: `case <-cancelled(req): }`, new: `}`,
		tests: `TestRequestCancelDuringWait|TestClientTimeout`,
	},
	{
		name: "A cancelled request does not tell its cause",
		file: "finish.go", old: `return context.Cause(req.Context())`, new: `_ = context.Cause; return req.Context().Err()`,
		tests: `TestCancelDuringWait|TestFinalEventOfACancelledWait`,
	},
	{
		name: "Without a backoff, a request that was cancelled in Observe is sent again",
		file: "finish.go", old: `if d == 0 { return cancellation(req) }`, new: `if d == 0 { return nil }`,
		tests: `TestCancelInObserve`,
	},
}

// limiter are faults in the send-rate limiter and in who waits for it.
var limiter = []mutant{
	{
		name: "The limiter allows three times what is sent, not twice",
		file: "adaptive.go", old: `maxOfMeasured = 2.0`, new: `maxOfMeasured = 3.0`,
		tests: `TestRateIsAtMostTwiceWhatIsSent|TestVectorsAdaptiveSequences`,
	},
	{
		name: "The bound by what is sent does not count",
		file: "adaptive.go", old: `target = min(target, maxOfMeasured*l.measured)`, new: `_ = maxOfMeasured`,
		tests: `TestRateIsAtMostTwiceWhatIsSent`,
	},
	{
		name: "A throttle cuts the rate to a half",
		file: "adaptive.go", old: `beta = 0.7`, new: `beta = 0.5`,
		tests: `TestVectorsAdaptive`,
	},
	{
		name: "Idle half seconds do not count in the measured rate",
		file: "adaptive.go", old: `/ (float64(h-l.halfSecond) / 2)`, new: `/ 0.5`,
		tests: `TestLimiterTimeline|TestVectorsAdaptive`,
	},
	{
		name: "Each attempt moves the measured rate, not each half second",
		file: "adaptive.go", old: `l.attempts, l.halfSecond = 0, h`, new: `l.attempts, l.halfSecond = 0, h-1`,
		tests: `TestLimiterTimeline|TestVectorsAdaptive`,
	},
	{
		name: "A second throttle cuts what was sent, though less was allowed",
		file: "adaptive.go", old: `used = min(used, l.rate)`, new: `used = min(used, used)`,
		tests: `TestVectorsAdaptive|TestLimiterTimeline`,
	},
	{
		name: "What was sent before the first throttle is forgotten",
		file: "adaptive.go", old: `l.more.Add(1)`, new: ``,
		tests: `TestLimiterMakesUpForWhatItPutOff`,
	},
	{
		name: "An update before the first throttle is put off and not made up for",
		file: "adaptive.go", old: `pending > l.now {`, new: `pending > l.now && false {`,
		tests: `TestLimiterMakesUpForWhatItPutOff`,
	},
	{
		name: "A newcomer overtakes the queue",
		file: "adaptive.go", old: `if l.head() == nil && l.take() {`, new: `if l.take() {`,
		tests: `TestQueueIsNotOvertaken`,
	},
	{
		name: "Any waiting attempt may go first, not the oldest",
		file: "adaptive.go", old: `if l.head() != p { return false, -1 }`, new: ``,
		tests: `TestQueueIsFirstComeFirstServed`,
	},
	{
		name: "A permit that comes back wakes nobody",
		file: "adaptive.go", old: `l.tokens = min(l.tokens+1, l.burst) l.wakeHead()`, new: `l.tokens = min(l.tokens+1, l.burst)`,
		tests: `TestPermitThatComesBackEndsAWait`,
	},
	{
		name: "A permit that comes back makes the burst larger than it may be",
		file: "adaptive.go", old: `l.tokens = min(l.tokens+1, l.burst)`, new: `l.tokens++`,
		tests: `TestTokensAreNeverMoreThanTheBurst`,
	},
	{
		name: "The queue stops when its oldest leaves",
		file: "adaptive.go", old: `if wasHead {`, new: `if wasHead && false {`,
		tests: `TestQueueClosesUpBehindWhoGivesUp|TestQueueIsFirstComeFirstServed`,
	},
	{
		name: "A rise of the rate does not shorten a wait under way",
		file: "adaptive.go", old: `l.tokens = min(l.tokens, l.burst) l.wakeHead()`, new: `l.tokens = min(l.tokens, l.burst)`,
		tests: `TestQueueUsesARise`,
	},
	{
		name: "A new rate counts for the time before it, too",
		file: "adaptive.go", old: `l.refill(t) l.rate = max(target, minRate)`, new: `l.rate = max(target, minRate)`,
		tests: `TestLimiterTimeline|TestVectorsAdaptive|TestQueueUsesARise`,
	},
	{
		name: "A cut leaves more tokens than the burst allows",
		file: "adaptive.go", old: `l.tokens = min(l.tokens, l.burst) l.wakeHead()`, new: `l.wakeHead()`,
		tests: `TestTokensAreNeverMoreThanTheBurst`,
	},
	{
		name: "A clock that goes back takes tokens away",
		file: "adaptive.go", old: `l.now = max(l.now, now)`, new: `l.now = now`,
		tests: `TestLimiterTimeline|FuzzLimiter`,
	},
	{
		name: "The rate may fall to almost nothing",
		file: "adaptive.go", old: `l.rate = max(target, minRate)`, new: `_ = minRate; l.rate = target`,
		tests: `TestLimiterTimeline|TestVectorsAdaptive`,
	},
	{
		name: "A low rate never saves up a whole token, so that all wait for ever",
		file: "adaptive.go", old: `l.burst = max(target, minBurst)`, new: `_ = minBurst; l.burst = target`,
		tests: `TestLimiterTimeline|TestVectorsAdaptive`,
	},
	{
		name: "An attempt that waits for less than a nanosecond spins",
		file: "adaptive.go", old: `if fillTime(1-l.tokens, l.rate) > 0 {`, new: `if l.tokens < 1 {`,
		tests: `TestQueueIsFirstComeFirstServed`,
	},
	{
		name: "The queue is not part of the wait that is expected",
		file: "adaptive.go", old: `fillTime(float64(ahead)+1-l.tokens, l.rate)`, new: `fillTime(0*float64(ahead)+1-l.tokens, l.rate)`,
		tests: `TestQueueIsPartOfTheExpectedWait`,
	},
	{
		name: "A limiter with a queue is forgotten",
		file: "adaptive.go", old: `return l.head() == nil && now-l.throttledAt >= throttleMemory`, new: `return now-l.throttledAt >= throttleMemory`,
		tests: `TestHostWithAQueueIsNotForgotten`,
	},
	{
		name: "A limiter is forgotten with its throttle",
		file: "adaptive.go", old: `return l.head() == nil && now-l.throttledAt >= throttleMemory`, new: `return l.head() == nil && now >= 0`,
		tests: `TestThrottledHostIsNotForgotten`,
	},
	{
		name: "A limiter is never forgotten, so that such hosts take all the room",
		file: "adaptive.go", old: `return l.head() == nil && now-l.throttledAt >= throttleMemory`, new: `return now < 0`,
		tests: `TestThrottledHostIsNotForgotten`,
	},
	{
		name: "The wait for the limiter counts as part of the attempt",
		file: "attempt.go", old: `p.admitted, o.limiterWait = true, waited if r.clocked { o.Sent = time.Now() }`,
		new:   `p.admitted, o.limiterWait = true, waited`,
		tests: `TestQueueIsPartOfTheExpectedWait`,
	},
	{
		name: "A wait for the limiter that is too long is waited before it fails",
		file: "attempt.go", old: `if expected > left || left <= 0 {`, new: `if left <= 0 {`,
		tests: `TestAdmissionBounds`,
	},
	{
		name: "An attempt that is refused keeps its place in the queue",
		file: "attempt.go", old: `r.limiter.leave(place)`, new: `if refused.reason == Cancelled { r.limiter.leave(place) }`,
		tests: `TestAdmissionBounds`,
	},
	{
		name: "A cancelled attempt keeps its place in the queue",
		file: "attempt.go", old: `r.limiter.leave(place)`, new: `if refused.reason != Cancelled { r.limiter.leave(place) }`,
		tests: `TestQueueClosesUpBehindWhoGivesUp`,
	},
	{
		name: "An attempt waits for the limiter although its deadline comes first",
		file: "attempt.go", old: `if r.outlivesDeadline(expected, time.Time{}) {`, new: `if false {`,
		tests: `TestAdmissionBounds`,
	},
	{
		name: "Behind others in the queue, no bound of the wait counts",
		file: "attempt.go", old: `if wait < 0 { wait = left }`, new: ``,
		tests: `TestAdmissionBoundBehindOthers`,
	},
	{
		name: "First attempts do not wait for the limiter",
		file: "attempt.go", old: `if r.limiter == nil || !r.limiter.enabled.Load() {`,
		new:   `if r.limiter == nil || !r.limiter.enabled.Load() || o.Number == 0 {`,
		tests: `TestAdaptiveDelaysFirstAttempts|TestQueueIsNotOvertaken`,
	},
	{
		name: "The limiter does not hear of successes",
		file: "decide.go", old: `if r.limiter != nil { r.limiter.update(`, new: `if r.limiter != nil && v.class != Success { r.limiter.update(`,
		tests: `TestAdaptiveHearsEveryAttempt|TestQueueIsFirstComeFirstServed`,
	},
	{
		name: "First attempts are served before retries",
		file: "adaptive.go", old: `if l.retries.head != nil { return l.retries.head } return l.firsts.head`,
		new:   `if l.firsts.head != nil { return l.firsts.head }; return l.retries.head`,
		tests: `TestLimiterServesRetriesFirst`,
	},
	{
		name: "A retry queues with the first attempts",
		file: "attempt.go", old: `r.limiter.admit(joined, o.Number > 0)`, new: `r.limiter.admit(joined, false)`,
		tests: `TestLimiterServesRetriesFirst`,
	},
	{
		name: "A retry gives up for first attempts that it would overtake",
		file: "adaptive.go", old: `return l.queued(true)`, new: `return l.queued(false)`,
		tests: `TestRetryExpectsOnlyRetriesAhead`,
	},
	{
		name: "A first attempt does not expect the retries that are served before it",
		file: "adaptive.go", old: `ahead += l.firsts.length`, new: `ahead = l.firsts.length`,
		tests: `TestFirstAttemptExpectsRetriesAhead`,
	},
	{
		name: "A permit that was not used comes back twice",
		file: "finish.go", old: `if p.admitted { p.admitted = false`, new: `if p.admitted {`,
		tests: `TestPermitComesBackOnce`,
	},
	{
		name: "An attempt that is sent gives its permit back",
		file: "attempt.go", old: `o.cost, p.cost, p.taken, p.admitted = p.cost, 0, false, false`, new: `o.cost, p.cost, p.taken = p.cost, 0, false`,
		tests: `TestQueueIsFirstComeFirstServed|TestPermitsComeBack`,
	},
	{
		name: "An event does not tell the limiter's wait",
		file: "attempt.go", old: `p.admitted, o.limiterWait = true, waited`, new: `p.admitted = true; _ = waited`,
		tests: `TestQueueIsPartOfTheExpectedWait|TestAttemptsAreTimedApart`,
	},
	{
		name: "A permit that was waited for is not given back",
		file: "attempt.go", old: `p.admitted, o.limiterWait = true, waited`, new: `o.limiterWait = waited`,
		tests: `TestPermitThatWasWaitedForComesBack`,
	},
	{
		name: "A permit that was to be had at once is not given back",
		file: "attempt.go", old: `p.admitted = admitted`, new: `_ = admitted`,
		tests: `TestPermitsComeBack`,
	},
}
