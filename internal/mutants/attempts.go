package main

// attempts are faults in preparing one attempt, in bounding its time, and in
// what retriers around it make of it.
var attempts = []mutant{
	{
		name: "The attempt timeout goes on while the body is read",
		file: "timeout.go", old: `if !l.timer.Stop() {`, new: `if false {`,
		tests: `TestAttemptTimeoutEndsAtTheHeaders`,
	},
	{
		name: "A response that comes with the timeout stays open",
		file: "timeout.go", old: `_ = resp.Body.Close()`, new: `_ = resp.Body`,
		tests: `TestAttemptTimeoutAtTheLastMoment`,
	},
	{
		name: "An attempt timeout looks like any error of the base",
		file: "timeout.go", old: `resp, err = nil, l.over`, new: `resp = nil`,
		tests: `TestAttemptTimeout$|TestAttemptTimeoutIsToldFromOtherErrors`,
	},
	{
		name: "An attempt timeout is no timeout",
		file: "errors.go", old: `func (e *AttemptTimeoutError) Timeout() bool { return true }`, new: `func (e *AttemptTimeoutError) Timeout() bool { return false }`,
		tests: `TestAttemptTimeout`,
	},
	{
		name: "The connection of a 101 response can't be written to",
		file: "timeout.go", old: `case resp.StatusCode == http.StatusSwitchingProtocols:`, new: `case false:`,
		tests: `TestUpgradedBody`,
	},
	{
		name: "An answer that ends early ends the request's body, too",
		file: "timeout.go", old: `if err != nil && !b.limit.sends {`, new: `if err != nil {`,
		tests: `TestAttemptTimeoutLeavesTheBodyAlone|TestFullDuplex|TestEarlyAnswer`,
	},
	{
		name: "Closing a response does not end its attempt",
		file: "timeout.go", old: `defer b.limit.cancel(nil)`, new: ``,
		tests: `TestAttemptTimeout|TestEarlyAnswer`,
	},
	{
		name: "The attempt timeout begins before Prepare",
		file: "send.go", old: `ctx = c.limit.ctx`, new: `c.limit.start(); ctx = c.limit.ctx`,
		tests: `TestAttemptTimeoutBeginsAfterPrepare`,
	},
	{
		name: "Prepare changes the caller's header",
		file: "send.go", old: `out := req.Clone(req.Context())`, new: `out := req.WithContext(req.Context())`,
		tests: `TestPrepare$|TestRequestIsNotModified`,
	},
	{
		name: "Trailers are lost with Prepare",
		file: "send.go", old: `out.Trailer = req.Trailer`, new: ``,
		tests: `TestTrailersSurvivePrepare|TestTrailersBothWays`,
	},
	{
		name: "Prepare does not hear what became of the attempt before",
		file: "send.go", old: `Skew: c.signed, Last: c.verdict.class}`, new: `Skew: c.signed}`,
		tests: `TestPrepare$`,
	},
	{
		name: "Prepare numbers attempts from 0",
		file: "send.go", old: `Prep{Number: c.attempt.Number + 1,`, new: `Prep{Number: c.attempt.Number,`,
		tests: `TestPrepare$`,
	},
	{
		name: "A cancelled Prepare is blamed on Prepare",
		file: "send.go", old: `if cause := cancellation(req); cause != nil { return nil, Cancelled, cause }`, new: ``,
		tests: `TestPrepareThatIsCancelled`,
	},
	{
		name: "The time that Prepare takes counts as the server's",
		file: "send.go", old: `c.attempt.Sent = time.Now()`, new: ``,
		tests: `TestPrepare$|TestEventsAndTrace|TestSkewIsMeasuredAndSignedFor`,
	},
	{
		name: "A retry does not see its limit of attempts from a Transport further out",
		file: "send.go", old: `again.context.sign.show(out)`, new: ``,
		tests: `TestStackedTransportsAdd`,
	},
	{
		name: "The second of two settings in a context undoes the first",
		file: "override.go", old: `o = *before`, new: `_ = before`,
		tests: `TestOverridesAddUp`,
	},
	{
		name: "A retry forgets what its context says",
		file: "override.go", old: `m.overrides = *before`, new: `_ = before`,
		tests: `TestInnerTransportStillDoesItsDuty|TestStackedTransportsAdd|TestInnerRequestsKeepTheirRetries`,
	},
	{
		name: "A request for a token that a retry makes is not retried",
		file: "override.go", old: `s.host == req.URL.Host && s.path == req.URL.Path && s.query`, new: `s.query`,
		tests: `TestInnerRequestsKeepTheirRetries`,
	},
	{
		name: "A request to another host that a retry makes is not retried",
		file: "override.go", old: `s.host == req.URL.Host && s.path`, new: `s.path`,
		tests: `TestInnerRequestsKeepTheirRetries`,
	},
	{
		name: "A request with another method that a retry makes is not retried",
		file: "override.go", old: `s.shown.Load() && s.method == req.Method &&`, new: `s.shown.Load() &&`,
		tests: `TestInnerRequestsKeepTheirRetries`,
	},
	{
		name: "No attempts at all can be asked for",
		file: "override.go", old: `if n < 1 {`, new: `if n < 0 {`,
		tests: `TestOverridesOfTheContext|TestRequestsThatMakeNoSense`,
	},
	{
		name: "The last of several retriers further out counts, not the highest",
		file: "outer.go", old: `max(number, attemptNumber(value, h.before))`, new: `attemptNumber(value, h.before)`,
		tests: `TestOuterAttemptsOfSeveral`,
	},
	{
		name: "A first retry of an SDK that counts from 0 is taken for a first attempt",
		file: "outer.go", old: `{"X-Stainless-Retry-Count", 1},`, new: `{"X-Stainless-Retry-Count", 0},`,
		tests: `TestOuterAttempt`,
	},
	{
		name: "A first attempt that Envoy counts from 1 is taken for a retry",
		file: "outer.go", old: `{"X-Envoy-Attempt-Count", 0},`, new: `{"X-Envoy-Attempt-Count", 1},`,
		tests: `TestOuterAttempt`,
	},
	{
		name: "Idle connections of the base stay open",
		file: "configure.go", old: `base.CloseIdleConnections()`, new: `_ = base`,
		tests: `TestCloseIdleConnectionsReachesTheBase`,
	},
	{
		name: "A request without a URL panics",
		file: "transport.go", old: `case req.URL == nil:`, new: `case req.URL == nil && false:`,
		tests: `TestRequestsThatMakeNoSense`,
	},
}
