package main

// quotas are faults in the bucket and in who pays and earns.
var quotas = []mutant{
	{
		name: "The last tokens can't be spent",
		file: "bucket.go", old: `if have < int64(n) {`, new: `if have <= int64(n) {`,
		tests:    `TestBucketTimeline|TestVectorsQuota`,
		packages: []string{"./aws"},
	},
	{
		name: "The last retry may cost more than what is left",
		file: "bucket.go", old: `if have < int64(n) {`, new: `if have < 1 {`,
		tests:    `TestBucketTimeline|TestVectorsQuota`,
		packages: []string{"./aws"},
	},
	{
		name: "Two retries at once pay once",
		file: "bucket.go", old: `if b.tokens.CompareAndSwap(have, have-int64(n)) { return true }`, new: `b.tokens.Store(have - int64(n)); return true`,
		tests: `TestBucketGivesNoTokenTwice`,
	},
	{
		name: "A bucket holds more than its capacity",
		file: "bucket.go", old: `min(int64(n), b.capacity-have)`, new: `int64(n)`,
		tests: `TestBucketTimeline`,
	},
	{
		name: "A retry that costs nothing is refused by an empty bucket",
		file: "bucket.go", old: `if n <= 0 { return true }`, new: `if n <= 0 { return b.tokens.Load() > 0 }`,
		tests: `TestZeroBucketRefuses|TestBucketTimeline`,
	},
	{
		name: "A full bucket that misses a token counts as full",
		file: "bucket.go", old: `return b.tokens.Load() >= b.capacity`, new: `return b.tokens.Load() >= b.capacity-10`,
		tests: `TestKeysAreBounded|TestKeysStayFound|TestFloodOfHosts`,
	},
	{
		name: "A panic gives back the tokens of a retry that was sent",
		file: "attempt.go", old: `o.cost, p.cost, p.taken, p.admitted = p.cost, 0, false, false`, new: `o.cost, p.admitted = p.cost, false`,
		tests: `TestPanicsConserveTokens`,
	},
	{
		name: "A permit that was not used is lost",
		file: "finish.go", old: `if p.admitted {`, new: `if p.admitted && false {`,
		tests: `TestPermitsComeBack`,
	},
	{
		name: "A request of a context with a strategy of its own pays from the Transport's",
		file: "transport.go", old: `if r.policy == nil { r.policy = &r.entry.policy }`, new: `{ r.policy = &r.entry.policy }`,
		tests: `TestOverridesOfTheContext`,
	},
	{
		name: "A quota that can't say whether it is full is forgotten",
		file: "strategy.go", old: `!ok || !q.Full()`, new: `ok && !q.Full()`,
		tests: `TestQuotaThatDoesNotTellIsKept`,
	},
	{
		name: "A host is forgotten with the throttle its limiter met",
		file: "strategy.go", old: `return p.Limiter == nil || p.Limiter.asNew()`, new: `return true`,
		tests: `TestThrottledHostIsNotForgotten`,
	},
	{
		name: "The tokens of a retry that was not sent come back twice",
		file: "finish.go", old: `p.taken = false // before`, new: `// before`,
		tests: `TestCancelledWaitReturnsItsTokensOnce`,
	},
	{
		name: "The event of a cancelled wait tells the tokens before they come back",
		file: "finish.go", old: `r.giveBack(p) d := decision{reason: reason}`, new: `defer r.giveBack(p); d := decision{reason: reason}`,
		tests: `TestCancelledWaitReturnsItsTokensOnce`,
	},
	{
		name: "A retry that is called off gives back nothing",
		file: "decide.go", old: `p.taken, p.cost = true, failure.Cost`, new: ``,
		tests: `TestCancelledWaitReturnsItsTokensOnce`,
	},
	{
		name: "A quota is not told of a permanent answer",
		file: "decide.go", old: `case o.Response != nil: quota.Answered`, new: `case v.class == Success: quota.Answered`,
		tests: `TestQuotaHearsOfEachAttempt`,
	},
	{
		name:  "A quota is told of an attempt that the caller cancelled",
		file:  "decide.go",
		old:   `if v.class == Unknown { // it was sent`,
		new:   `if v.class == Unknown && r.policy.Quota != nil { r.policy.Quota.Failed(r.failure(o, v, past)) }; if v.class == Unknown { // it was sent`,
		tests: `TestQuotaAndCancels`,
	},
	{
		name: "A quota is not told that a retry which cost nothing was not sent",
		file: "finish.go", old: `r.policy.Quota.Return(p.cost)`, new: `if p.cost > 0 { r.policy.Quota.Return(p.cost) }`,
		tests: `TestQuotaHearsOfACancelledRetryThatCostNothing`,
	},
	{
		name: "A quota is told of a failure twice",
		file: "decide.go", old: `quota.Failed(r.failure(o, v, past))`, new: `quota.Failed(r.failure(o, v, past)); quota.Failed(r.failure(o, v, past))`,
		tests: `TestQuotaHearsOfEachAttempt`,
	},
	{
		name:  "A quota that panics when it gets something back leaves the response open",
		file:  "finish.go",
		old:   `func (r *route) cleanUp(p *permit, o *outcome, returned *http.Response) {`,
		new:   `func (r *route) cleanUp(p *permit, o *outcome, returned *http.Response) { r.giveBack(p)`,
		tests: `TestQuotaThatPanicsLeavesNothingOpen|TestQuotaAndObserveThatPanicLeaveNothingOpen`,
	},
}

// keys are faults in what state is kept for whom.
var keys = []mutant{
	{
		name: "A host with the default port of https is another host",
		file: "hosts.go", old: `port == "443" && req.URL.Scheme == "https"`, new: `port == "443" && false`,
		tests: `TestHostKey`,
	},
	{
		name: "A port of http is cut off with https",
		file: "hosts.go", old: `port == "80" && req.URL.Scheme == "http"`, new: `port == "80"`,
		tests: `TestHostKey`,
	},
	{
		name: "Two hosts that differ by a dotted İ share a quota",
		file: "hosts.go", old: `host = lowerASCII(host);`, new: `host = strings.ToLower(host);`,
		tests: `TestHostKey`,
	},
	{
		name: "A host in upper case is another host",
		file: "hosts.go", old: `host = lowerASCII(host);`, new: `_ = host;`,
		tests: `TestHostKey|TestEachHostHasItsOwnQuota`,
	},
	{
		name: "Host names beyond MaxKeys each get a fresh quota",
		file: "hosts.go", old: `if e == nil && t.overflow.Load() == nil { t.overflow.CompareAndSwap(nil, create("")) } return cmp.Or(e, t.overflow.Load())`,
		new:   `return cmp.Or(e, create(""))`,
		tests: `TestKeysAreBounded|TestPerKeyIsNotAskedInVain`,
	},
	{
		name: "Two requests that need a new key at once have a quota each",
		file: "hosts.go", old: `if e := t.get(key); e != nil { return e, false // made`, new: `if e := t.get(key); e != nil && made == nil { return e, false // made`,
		tests: `TestKeysHaveOneEntry`,
	},
	{
		name: "A key that was made in the meantime drops another",
		file: "hosts.go", old: `if e := t.get(key); e != nil { return e, false // made`, new: `if e := t.get(key); e != nil && made != nil { return e, false // made`,
		tests: `TestKeyMadeInTheMeantimeIsFound`,
	},
	{
		name: "More keys than MaxKeys are kept",
		file: "hosts.go", old: `t.full() && !t.drop(now) ||`, new: `t.full() && made == nil && !t.drop(now) ||`,
		tests: `TestNewKeysAtOnceAreBounded`,
	},
	{
		name: "A host whose quota is spent is forgotten",
		file: "hosts.go", old: `(e.shared || e.policy.asNew(rested))`, new: `true`,
		tests: `TestKeysAreBounded|TestHostThatComesBackFindsItsQuota|TestRetriesPerHourAreBounded`,
	},
	{
		name: "A host's measured clock is forgotten",
		file: "hosts.go", old: `(rested || e.skew.offset().Abs() <= skewThreshold) && (e.shared`, new: `(e.shared`,
		tests: `TestMeasuredSkewAndRoom`,
	},
	{
		name: "A host with one Strategy for all is never forgotten",
		file: "hosts.go", old: `(e.shared || e.policy.asNew(rested))`, new: `e.policy.asNew(rested)`,
		tests: `TestKeysOfOneStrategyMakeRoom`,
	},
	{
		name: "A long key takes a place of its own",
		file: "hosts.go", old: `len(key) <= longestKey &&`, new: ``,
		tests: `TestLongKeysAreShared`,
	},
	{
		name: "A key holds the long URL that it was cut from",
		file: "hosts.go", old: `key = strings.Clone(key)`, new: `_ = strings.Clone`,
		tests: `TestKeyDoesNotKeep`,
	},
	{
		name: "When keys were in use is known only as of the last new key",
		file: "hosts.go", old: `if t.full() { t.tellTime() }`, new: ``,
		tests: `TestSickCrawlAfterAQuietTime`,
	},
	{
		name: "A busy host is dropped before an idle one",
		file: "hosts.go", old: `case e.inUse.Load() > uint32(now/time.Minute): return false`, new: ``,
		tests: `TestBusyHostIsKept|TestSickCrawlLeavesHostsInUseTheirRetries`,
	},
	{
		name: "Hosts that share a strategy share a clock",
		file: "hosts.go", old: `if e.key != "" {`, new: `{`,
		tests: `TestMeasuredSkewAndRoom`,
	},
	{
		name: "A table that grows forgets what it had",
		file: "hosts.go", old: `for _, e := range t.all() { link(buckets, e) }`, new: ``,
		tests: `TestKeysAreBounded|TestEachHostHasItsOwnQuota|TestFloodOfHosts`,
	},
	{
		name: "A key is dropped from the room for keys, but not from the table",
		file: "hosts.go", old: `at.Store(e.next.Load())`, new: ``,
		tests: `TestKeysAreBounded|TestKeysUnderContention`,
	},
	{
		name: "A host that failed once takes its place for ever",
		file: "hosts.go", old: `time.Duration(e.failed.Load()) >= keyMemory`, new: `time.Duration(e.failed.Load()) >= 1<<62`,
		tests: `TestFailedHostsAreForgottenInAnHour`,
	},
	{
		name: "A host's failures are forgotten after a minute",
		file: "hosts.go", old: `time.Duration(e.failed.Load()) >= keyMemory`, new: `time.Duration(e.failed.Load()) >= time.Minute`,
		tests: `TestFailedHostsAreForgottenInAnHour`,
	},
	{
		name: "Only a host's first failure counts for how long it is remembered",
		file: "hosts.go", old: `e.failed.Store(int64(o.Done.Sub(t.keys.start)))`, new: ``,
		tests: `TestHostIsRememberedFromItsLastFailure`,
	},
	{
		name: "A host is forgotten while requests to it fail",
		file: "hosts.go", old: `&& e.pins.CompareAndSwap(0, math.MinInt32)`, new: `&& e.pins.Swap(math.MinInt32) > -1`,
		tests: `TestHostOfAFailedRequestIsKept`,
	},
	{
		name: "A request that has ended keeps its host from being forgotten",
		file: "finish.go", old: `r.entry.pins.Add(-1)`, new: ``,
		tests: `TestChurnOfHosts|TestFailedHostsAreForgottenInAnHour`,
	},
	{
		name: "A request whose host was forgotten takes from the old quota",
		file: "hosts.go", old: `if e.key != "" && e.pins.Add(1) > 0 {`, new: `if e.key != "" && e.pins.Add(1) != 0 {`,
		tests: `TestRequestsUnderWayShareOneQuota`,
	},
	{
		name: "A clock measured after the host was forgotten is lost",
		file: "hosts.go", old: `t.Prepare != nil { r.noteSkew(o)`, new: `t.Prepare != nil && false { r.noteSkew(o)`,
		tests: `TestRequestUnderWayKeepsWhatItLearns`,
	},
	{
		name: "A crawl beyond MaxKeys allocates",
		file: "hosts.go", old: `!full || rand.Uint32N(sampled) == 0`, new: `!full || rand.Uint32N(sampled) >= 0`,
		tests: `TestRequestsBeyondMaxKeysAllocateNothing`,
	},
	{
		name: "A host that is asked beyond MaxKeys again and again never gets an entry",
		file: "hosts.go", old: `!full || rand.Uint32N(sampled) == 0`, new: `!full || rand.Uint32N(sampled) == sampled`,
		tests: `TestHostInUseBeyondMaxKeysGetsAnEntry`,
	},
	{
		name: "A body stays open when Key panics",
		file: "finish.go", old: `r.giveBack(p) // last`, new: `if r.policy != nil { r.giveBack(p) } // last`,
		tests: `TestPanicsOfTheUsersFunctions|TestEveryExitClosesTheBody`,
	},
}
