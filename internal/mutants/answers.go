package main

// answers are faults in looking at a response, in dropping it and in handing
// it over.
var answers = []mutant{
	{
		name: "The caller does not get what was read ahead",
		file: "peek.go", old: `if len(p.buf) > 0 { n := copy(b, p.buf)`, new: `if false { n := copy(b, p.buf)`,
		tests: `TestPeekLeavesTheBodyWhole`,
	},
	{
		name: "An error that the look into the body met is lost",
		file: "peek.go", old: `if p.err != nil { return 0, p.err }`, new: ``,
		tests: `TestErrorDuringALookReachesTheCaller`,
	},
	{
		name: "A panic of the response body ends the program",
		file: "peek.go", old: `if value := recover(); value != nil { p.err = &bodyPanic{value} }`, new: ``,
		tests: `TestBodyThatPanicsDuringALook`,
	},
	{
		name: "An error page that does not end holds the request up",
		file: "peek.go", old: `readBody(a, peekTime) a.Code = jsonBodyCode`, new: `readBody(a, -1); a.Code = jsonBodyCode`,
		tests: `TestPeekOfASlowBody|TestStalledErrorBodies$`,
	},
	{
		name: "An error page in XML that does not end holds the request up",
		file: "peek.go", old: `readBody(a, peekTime) a.Code = xmlBodyCode`, new: `readBody(a, -1); a.Code = xmlBodyCode`,
		tests: `TestPeekOfASlowBody|TestStalledErrorBodies$`,
	},
	{
		name: "An error code in a header is not seen",
		file: "peek.go", old: `if a.Code = headerCode(a.Response.Header); a.Code != "" { return }`, new: ``,
		tests: `TestHeaderCode|TestVectorsErrorCodes`,
	},
	{
		name: "An error code in a compressed body is not seen",
		file: "peek.go", old: `strings.EqualFold(encoding, "identity"), strings.EqualFold(encoding, "gzip"):`, new: `strings.EqualFold(encoding, "identity"):`,
		tests: `TestPeekLeavesTheBodyWhole|TestBodyCodes|TestVectorsErrorBodies`,
	},
	{
		name: "A small compressed body fills the memory",
		file: "peek.go", old: `io.ReadAll(io.LimitReader(r, readAhead))`, new: `io.ReadAll(r)`,
		tests: `TestGzipBomb`,
	},
	{
		name: "A response that was looked into can't be closed",
		file: "peek.go", old: `p.stop.Store(true) return p.src.Close()`, new: `p.stop.Store(true); return nil`,
		tests: `TestCloseAfterALook`,
	},
	{
		name: "A dropped response is read without end",
		file: "discard.go", old: `io.CopyN(io.Discard, d.body, readAhead)`, new: `io.Copy(io.Discard, d.body)`,
		tests: `TestDiscardReadsNoMoreThanItsLimit`,
	},
	{
		name: "A dropped response is not read, which costs its connection",
		file: "discard.go", old: `_, _ = io.CopyN(io.Discard, d.body, readAhead)`, new: ``,
		tests: `TestErrorPagesKeepTheConnection|TestDiscard`,
	},
	{
		name: "A dropped response is closed twice",
		file: "discard.go", old: `if d.closed.CompareAndSwap(false, true) {`, new: `{`,
		tests: `TestDiscard`,
	},
	{
		name: "A panic closes a response that was dropped once more",
		file: "discard.go", old: `a.Response = nil`, new: ``,
		tests: `TestPanicsLeaveNothingBehind|TestPanicsOfTheUsersFunctions`,
	},
	{
		name: "An error does not tell the status before it",
		file: "discard.go", old: `c.last.status, c.last.code = resp.StatusCode, c.code()`, new: ``,
		tests: `TestLastErrorNamesAttemptsAndReason|TestCancelDuringWait|TestPrepareFailure`,
	},
	{
		name: "A response whose Close waits for the request's body holds the retry up",
		file: "discard.go", old: `ended && !hasBody(a.Request)`, new: `ended`,
		tests: `TestCloseThatBlocksHoldsNoRetry`,
	},
	{
		name: "An error of the second attempt looks like one of the first",
		file: "end.go", old: `case a.Number == 1 && (c.reason == NotRetryable || during):`, new: `case c.reason == NotRetryable || during:`,
		tests: `TestHopelessErrorAfterARetry`,
	},
	{
		name: "A hopeless first error is wrapped",
		file: "end.go", old: `case a.Number == 1 && (c.reason == NotRetryable || during):`, new: `case a.Number == 1 && during:`,
		tests: `TestHopelessErrorIsReturnedAsItCame`,
	},
	{
		name: "An error of a cancelled wait is no context.Canceled where there is a cause",
		file: "end.go", old: `e.Err, e.ctxErr = cancellation(c.attempt.Request), c.ctx.Err()`, new: `e.Err = cancellation(c.attempt.Request)`,
		tests: `TestCancelDuringWait`,
	},
	{
		name: "An error of a cancelled wait does not tell what failed before",
		file: "end.go", old: `Last: last.err, Status: last.status`, new: `Status: last.status`,
		tests: `TestCancelDuringWait|TestLastErrorNamesAttemptsAndReason|TestPrepareFailure`,
	},
	{
		name: "A panic leaves the response open",
		file: "end.go", old: `_ = resp.Body.Close()`, new: `_ = resp.Body`,
		tests: `TestPanicsLeaveNothingBehind|TestPanicsOfTheUsersFunctions`,
	},
	{
		name: "A panic leaves everything as it is",
		file: "end.go", old: `if c.ended { return }`, new: `if c.ended || c.t != nil { return }`,
		tests: `TestPanics`,
	},
	{
		name: "The context of an attempt that is not sent stays alive",
		file: "end.go", old: `if c.limit != nil { c.limit.stop() }`, new: ``,
		tests: `TestContextOfAnAttemptThatIsNotSentEnds`,
	},
	{
		name: "A request that is not retried leaves its body open",
		file: "end.go", old: `c.ended = true c.closeBody() a := &c.attempt`, new: `c.ended = true; a := &c.attempt`,
		tests: `TestEveryExitClosesTheBody|TestRequestBodyIsClosedOnce`,
	},
	{
		name: "A response names a copy of the request",
		file: "send.go", old: `a.Response.Request = a.Request`, new: `_ = a.Request`,
		tests: `TestRetriesUntilSuccess|TestPrepare`,
	},
	{
		name: "A response that came with an error stays open",
		file: "send.go", old: `_ = resp.Body.Close()`, new: `_ = resp.Body`,
		tests: `TestBaseThatBreaksItsContract|TestErrorComesWithoutResponse`,
	},
	{
		name: "A response is returned along with an error",
		file: "send.go", old: `return nil, err case err == nil && resp == nil:`, new: `return resp, err; case err == nil && resp == nil:`,
		tests: `TestBaseThatBreaksItsContract|TestErrorComesWithoutResponse`,
	},
	{
		name: "No event is the last of a request",
		file: "transport.go", old: `c.observe(true, !retry)`, new: `c.observe(true, false)`,
		tests: `TestEventsAndTrace`,
	},
	{
		name: "An event tells a code that no rule lists",
		file: "event.go", old: `if c.verdict.byCode {`, new: `{`,
		tests: `TestCodeOutsideTheListsIsNotRepeated`,
	},
}
