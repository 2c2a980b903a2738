package main

// attempts are faults in preparing one attempt, in bounding its time, and in
// what retriers around it make of it.
var attempts = []mutant{
	{
		name: "The attempt timeout goes on while the body is read",
		file: "attempt.go", old: `if !l.timer.Stop() {`, new: `if false {`,
		tests: `TestAttemptTimeoutLeavesTheBodyAlone`,
	},
	{
		name: "A response that comes with the timeout stays open",
		file: "attempt.go", old: `_ = resp.Body.Close() // its context`, new: `_ = resp.Body // its context`,
		tests: `TestAttemptTimeoutWinsOverTheBase`,
	},
	{
		name: "An attempt timeout looks like any error of the base",
		file: "attempt.go", old: `resp, err = nil, l.over`, new: `resp = nil`,
		tests: `TestAttemptTimeoutWinsOverTheBase`,
	},
	{
		name: "An attempt timeout is no timeout",
		file: "errors.go", old: `func (e *AttemptTimeoutError) Timeout() bool { return true }`, new: `func (e *AttemptTimeoutError) Timeout() bool { return false }`,
		tests: `TestAttemptTimeout`,
	},
	{
		name: "The connection of a 101 response can't be written to",
		file: "attempt.go", old: `case resp.StatusCode == http.StatusSwitchingProtocols:`, new: `case false:`,
		tests: `TestUpgradedBody`,
	},
	{
		name: "An answer that ends early ends the request's body, too",
		file: "attempt.go", old: `if err != nil && !b.limit.sends {`, new: `if err != nil {`,
		tests: `TestAttemptTimeoutLeavesAnUploadAlone`,
	},
	{
		name: "Closing a response does not end its attempt",
		file: "attempt.go", old: `defer b.limit.cancel(nil)`, new: ``,
		tests: `TestAttemptTimeout|TestEarlyAnswer`,
	},
	{
		name: "The attempt timeout begins before Prepare",
		file: "attempt.go", old: `ctx = p.limit.ctx`, new: `p.limit.start(); ctx = p.limit.ctx`,
		tests: `TestAttemptTimeoutBeginsAfterPrepare`,
	},
	{
		name: "Prepare changes the caller's header",
		file: "attempt.go", old: `out := req.Clone(req.Context())`, new: `out := req.WithContext(req.Context())`,
		tests: `TestPrepare$|TestRequestIsNotModified`,
	},
	{
		name: "Trailers are lost with Prepare",
		file: "attempt.go", old: `out.Trailer = req.Trailer`, new: ``,
		tests: `TestTrailersSurvivePrepare|TestTrailersBothWays`,
	},
	{
		name: "Prepare does not hear what became of the attempt before",
		file: "attempt.go", old: `Skew: o.signed, Last: last}`, new: `Skew: o.signed}`,
		tests: `TestPrepare$`,
	},
	{
		name: "Prepare numbers attempts from 0",
		file: "attempt.go", old: `PrepareInfo{Number: o.Number + 1,`, new: `PrepareInfo{Number: o.Number,`,
		tests: `TestPrepare$`,
	},
	{
		name: "A cancelled Prepare is blamed on Prepare",
		file: "finish.go", old: `if cause := cancellation(r.req); cause != nil {`, new: `if cause := cancellation(r.req); cause != nil && false {`,
		tests: `TestPrepareThatIsCancelled`,
	},
	{
		name: "The time that Prepare takes counts as the server's",
		file: "attempt.go", old: `o.Sent = time.Now() // Prepare`, new: `// Prepare`,
		tests: `TestAttemptIsSentAfterPrepare`,
	},
	{
		name: "A retry of a Transport further out is retried once more",
		file: "attempt.go", old: `again.context.mark.show(out)`, new: ``,
		tests: `TestStackedTransportsAdd`,
	},
	{
		name: "The second of two settings in a context undoes the first",
		file: "context.go", old: `o = *before`, new: `_ = before`,
		tests: `TestOverridesAddUp`,
	},
	{
		name: "A retry forgets what its context says",
		file: "context.go", old: `m.overrides = *before`, new: `_ = before`,
		tests: `TestStackedTransportsObeyTheContextOfARetry`,
	},
	{
		name: "A request for a token that a retry makes is not retried",
		file: "context.go", old: `m.host == req.URL.Host && m.path == req.URL.Path && m.query`, new: `m.query`,
		tests: `TestInnerRequestsKeepTheirRetries`,
	},
	{
		name: "A request to another host that a retry makes is not retried",
		file: "context.go", old: `m.host == req.URL.Host && m.path`, new: `m.path`,
		tests: `TestStackedTransportsRetryOtherRequests`,
	},
	{
		name: "A request with another method that a retry makes is not retried",
		file: "context.go", old: `m.shown.Load() && m.method == methodOf(req) && (`, new: `m.shown.Load() && (`,
		tests: `TestStackedTransportsRetryOtherRequests`,
	},
	{
		name: "No attempts at all can be asked for",
		file: "context.go", old: `if n < 1 {`, new: `if n < 0 {`,
		tests: `TestOverridesOfTheContext|TestRequestsThatMakeNoSense`,
	},
	{
		name: "The last of several retriers further out counts, not the highest",
		file: "context.go", old: `max(number, attemptNumber(value, h.before))`, new: `attemptNumber(value, h.before)`,
		tests: `TestOuterAttemptsOfSeveral`,
	},
	{
		name: "A first retry of an SDK that counts from 0 is taken for a first attempt",
		file: "context.go", old: `{"X-Stainless-Retry-Count", 1},`, new: `{"X-Stainless-Retry-Count", 0},`,
		tests: `TestOuterAttempt`,
	},
	{
		name: "A first attempt that Envoy counts from 1 is taken for a retry",
		file: "context.go", old: `{"X-Envoy-Attempt-Count", 0},`, new: `{"X-Envoy-Attempt-Count", 1},`,
		tests: `TestOuterAttempt`,
	},
	{
		name: "Idle connections of the base stay open",
		file: "transport.go", old: `base.CloseIdleConnections()`, new: `_ = base`,
		tests: `TestCloseIdleConnectionsReachesTheBase`,
	},
	{
		name: "A request without a URL panics",
		file: "transport.go", old: `case req.URL == nil:`, new: `case req.URL == nil && false:`,
		tests: `TestRequestsThatMakeNoSense`,
	},
	{
		name: "The end of a request ends the body of its response",
		file: "attempt.go", old: `p.limit = nil o.Response, o.Err = limit.settle(`, new: `o.Response, o.Err = limit.settle(`,
		tests: `TestAttemptTimeoutLeavesTheBodyAlone|TestAttemptTimeoutEndsAtTheHeaders`,
	},
	{
		name: "An attempt that is not sent is stopped twice",
		file: "finish.go", old: `p.limit.stop() p.limit = nil`, new: `p.limit.stop()`,
		tests:      `TestContextOfAnAttemptThatIsNotSentEnds`,
		equivalent: "a second stop finds the timer stopped and the context ended",
	},
	{
		name: "A copy of a retry has no mark",
		file: "attempt.go", old: `again.Proto = retriedProto`, new: ``,
		tests: `TestStackedTransportsAddAcrossLayers`,
	},
	{
		name: "The mark of a copy is not looked at",
		file: "context.go", old: `(isCopyOfRetry(req) || m.host`, new: `(m.host`,
		tests: `TestStackedTransportsAddAcrossLayers`,
	},
	{
		name: "Every request over HTTP/1.1 has the mark of a copy",
		file: "context.go", old: `strings.Clone("HTTP/1.1")`, new: `"HTTP/1.1"`,
		tests: `TestStackedTransportsRetryATokenFetch`,
	},
}
