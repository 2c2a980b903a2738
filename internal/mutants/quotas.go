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
		file: "strategy.go", old: `return s.Limiter == nil || s.Limiter.asNew()`, new: `return true`,
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
		file: "hosts.go", old: `if t.overflow.Load() == nil { t.overflow.CompareAndSwap(nil, create("")) } return t.overflow.Load()`,
		new:   `return create("")`,
		tests: `TestKeysAreBounded|TestPerKeyIsNotAskedInVain`,
	},
	{
		name: "Two requests that need a new key at once have a quota each",
		file: "hosts.go", old: `if found := t.get(e.key); found != nil { return found }`, new: ``,
		tests: `TestKeysHaveOneEntry`,
	},
	{
		name: "A key that was made in the meantime drops another",
		file: "hosts.go", old: `defer t.mu.Unlock() if e := t.get(key); e != nil {`, new: `defer t.mu.Unlock(); if e := t.get(key); e != nil && false {`,
		tests: `TestKeyMadeInTheMeantimeIsFound`,
	},
	{
		name: "More keys than MaxKeys are kept",
		file: "hosts.go", old: `if len(t.ring) == t.max { return nil }`, new: ``,
		tests: `TestNewKeysAtOnceAreBounded`,
	},
	{
		name: "A host whose quota is spent is forgotten",
		file: "hosts.go", old: `(e.shared || e.policy.asNew())`, new: `true`,
		tests: `TestKeysAreBounded`,
	},
	{
		name: "A host's measured clock is forgotten",
		file: "hosts.go", old: `e.skew.offset().Abs() <= skewThreshold && (e.shared`, new: `(e.shared`,
		tests: `TestMeasuredSkewAndRoom`,
	},
	{
		name: "A host with one Strategy for all is never forgotten",
		file: "hosts.go", old: `(e.shared || e.policy.asNew())`, new: `e.policy.asNew()`,
		tests: `TestKeysOfOneStrategyMakeRoom`,
	},
	{
		name: "A long key takes a place of its own",
		file: "hosts.go", old: `if key == "" || len(key) > longestKey {`, new: `if key == "" {`,
		tests: `TestLongKeysAreShared`,
	},
	{
		name: "A key holds the long URL that it was cut from",
		file: "hosts.go", old: `key = strings.Clone(key)`, new: `_ = strings.Clone`,
		tests: `TestKeyDoesNotKeep`,
	},
	{
		name: "A busy host is dropped before an idle one",
		file: "hosts.go", old: `if e.used.Load() { e.used.Store(false) } else if`, new: `if false { e.used.Store(false) } else if`,
		tests: `TestBusyHostIsKept`,
	},
	{
		name: "Hosts that share a strategy share a clock",
		file: "hosts.go", old: `if e.key != "" {`, new: `{`,
		tests: `TestMeasuredSkewAndRoom`,
	},
	{
		name: "A table that grows forgets what it had",
		file: "hosts.go", old: `for _, e := range t.ring { link(buckets, e) }`, new: ``,
		tests: `TestKeysAreBounded|TestEachHostHasItsOwnQuota|TestFloodOfHosts`,
	},
	{
		name: "A key is dropped from the room for keys, but not from the table",
		file: "hosts.go", old: `unlink(*t.buckets.Load(), t.ring[victim])`, new: ``,
		tests: `TestKeysAreBounded|TestKeysUnderContention`,
	},
	{
		name: "A body stays open when Key panics",
		file: "finish.go", old: `abandon(p.answer.resp) } r.giveBack(p)`, new: `abandon(p.answer.resp) }; if r.policy != nil { r.giveBack(p) }`,
		tests: `TestPanicsOfTheUsersFunctions|TestEveryExitClosesTheBody`,
	},
}
