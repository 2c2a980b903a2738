package main

// answers are faults in looking at a response, in dropping it and in handing
// it over.
var answers = []mutant{
	{
		name: "An answer of which a piece has come is read in the caller's goroutine",
		file: "arrived.go", old: `filled.Int()-read.Int() >= left.Int()`, new: `filled.Int()-read.Int() > 0*left.Int()`,
		tests: `TestAnswersInOnePieceAreRecognised`,
	},
	{
		name: "An answer that came in one piece takes a goroutine",
		file: "arrived.go", old: `filled.Int()-read.Int() >= left.Int()`, new: `filled.Int()-read.Int() > left.Int()+1000`,
		tests: `TestAnswersInOnePieceAreRecognised`,
	},
	{
		name: "An answer that came in one piece is not read before its retry",
		file: "finish.go", old: `drain(resp.Body)`, new: `replay.Close(resp.Body)`,
		tests: `TestAnswersInOnePieceFreeTheirConnection`,
	},
	{
		name: "An answer to a request that is still written is read in the caller's goroutine",
		file: "arrived.go", old: `hasBody(req) || resp.ContentLength <= 0`, new: `resp.ContentLength <= 0`,
		tests: `TestAnswersInOnePieceAreRecognised`,
	},
	{
		name: "An answer keeps its connection while the limiter delays its retry",
		file: "finish.go", old: `d.wait < discardTime && r.limiter == nil && arrivedWhole`, new: `d.wait < discardTime && arrivedWhole`,
		tests: `TestAnswerFreesItsConnectionDuringTheWait`,
	},
	{
		name: "An answer keeps its connection during the backoff",
		file: "finish.go", old: `d.wait < discardTime && r.limiter == nil && arrivedWhole`, new: `r.limiter == nil && arrivedWhole`,
		tests: `TestAnswerFreesItsConnectionDuringTheWait`,
	},
	{
		name: "What a processor counted in its lane is not in the sum",
		file: "stats.go", old: `s.Attempts += n`, new: `_ = n`,
		tests: `Stats`,
	},
	{
		name: "The caller does not get what was read ahead",
		file: "peek.go", old: `if len(p.buf) > 0 { n := copy(b, p.buf)`, new: `if false { n := copy(b, p.buf)`,
		tests: `TestPeekLeavesTheBodyWhole`,
	},
	{
		name: "An error that the look into the body met is lost",
		file: "peek.go", old: `n, err := 0, p.err`, new: `n, err := 0, error(nil)`,
		tests: `TestErrorDuringALookReachesTheCaller`,
	},
	{
		name: "A panic of the response body ends the program",
		file: "peek.go", old: `if value := recover(); value != nil { p.err = &bodyPanic{value} }`, new: ``,
		tests: `TestBodyThatPanicsDuringALook`,
	},
	{
		name:  "An error page that does not end holds the request up",
		file:  "peek.go",
		old:   `readBody(a, peekTime) a.Code = format.InBody(a.Body)`,
		new:   `if format == errorcode.JSON { readBody(a, -1) } else { readBody(a, peekTime) }; a.Code = format.InBody(a.Body)`,
		tests: `TestPeekOfASlowBody|TestStalledErrorBodies$`,
	},
	{
		name:  "An error page in XML that does not end holds the request up",
		file:  "peek.go",
		old:   `readBody(a, peekTime) a.Code = format.InBody(a.Body)`,
		new:   `if format == errorcode.XML { readBody(a, -1) } else { readBody(a, peekTime) }; a.Code = format.InBody(a.Body)`,
		tests: `TestPeekOfASlowBody|TestStalledErrorBodies$`,
	},
	{
		name: "An error code in a header is not seen",
		file: "peek.go", old: `if a.Code = errorcode.InHeaders(a.Request.Method, a.Response); a.Code != "" { return }`, new: ``,
		tests:    `TestErrorsKeepNoHeaders|TestVectorsErrorCodes`,
		packages: []string{"./aws"},
	},
	{
		name: "An error code in a compressed body is not seen",
		file: "internal/errorcode/errorcode.go", old: `strings.EqualFold(encoding, "identity"), strings.EqualFold(encoding, "gzip"):`, new: `strings.EqualFold(encoding, "identity"):`,
		tests:    `TestPeekLeavesTheBodyWhole|TestBodyCodes|TestVectorsErrorBodies`,
		packages: []string{"./aws", "./internal/errorcode"},
	},
	{
		name: "A small compressed body fills the memory",
		file: "peek.go", old: `io.ReadAll(io.LimitReader(r, readAhead))`, new: `io.ReadAll(r)`,
		tests: `TestGzipBomb`,
	},
	{
		name: "A response that was looked into can't be closed",
		file: "peek.go", old: `return p.src.Close()`, new: `return nil`,
		tests: `TestCloseAfterALook`,
	},
	{
		name: "More is read ahead of a response than 64 KiB",
		file: "peek.go", old: `for p.err == nil && len(p.buf) < readAhead && !p.stop.Load() { if len(p.buf) == cap(p.buf) { p.buf = slices.Grow(p.buf, min(len(p.buf), readAhead-len(p.buf))) } room := p.buf[len(p.buf):min(cap(p.buf), readAhead)]`,
		new:   `for p.err == nil && len(p.buf) < 2*readAhead && !p.stop.Load() { if len(p.buf) == cap(p.buf) { p.buf = slices.Grow(p.buf, len(p.buf)) }; room := p.buf[len(p.buf):cap(p.buf)]`,
		tests: `TestDiscardReadsNoMoreThanItsLimit`,
	},
	{
		name: "A response that a retry follows is not read, which costs its connection",
		file: "finish.go", old: `k.reading = peek(r.req, k.resp)`, new: `_ = peek`,
		tests: `TestErrorPagesKeepTheConnection|TestDiscard`,
	},
	{
		name: "A response that a retry followed is closed twice",
		file: "finish.go", old: `*k = kept{}`, new: ``,
		tests: `TestResponseBeforeARetryIsClosedOnce`,
	},
	{
		name: "A panic closes a response that a retry followed once more",
		file: "attempt.go", old: `o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}`,
		new:   `o.Err, o.Code, o.Body, o.Done = nil, "", nil, time.Time{}`,
		tests: `TestResponseBeforeARetryIsClosedOnce`,
	},
	{
		name: "An error does not tell the status before it",
		file: "decide.go", old: `h.last.status, h.last.code = o.Response.StatusCode, r.policy.listed(o.Code)`, new: ``,
		tests: `TestLastErrorNamesAttemptsAndReason|TestCancelDuringWait|TestPrepareFailure`,
	},
	{
		name: "A response whose Close waits for the request's body holds the retry up",
		file: "finish.go", old: `case readToEnd(resp) && !hasBody(req):`, new: `case readToEnd(resp):`,
		tests: `TestCloseThatBlocksHoldsNoRetry`,
	},
	{
		name: "An error of the second attempt looks like one of the first",
		file: "finish.go", old: `return o.Number == 1 && (d.reason`, new: `return (d.reason`,
		tests: `TestHopelessErrorAfterARetry`,
	},
	{
		name: "A hopeless first error is wrapped",
		file: "finish.go", old: `|| d.reason == NotRetryable || o.sent`, new: `|| o.sent`,
		tests: `TestHopelessErrorIsReturnedAsItCame`,
	},
	{
		name: "An error of a cancelled wait is no context.Canceled where there is a cause",
		file: "finish.go", old: `e.Err, e.ctxErr = cause, r.ctx.Err()`, new: `e.Err = cause`,
		tests: `TestCancelDuringWait`,
	},
	{
		name: "An error of a cancelled wait does not tell what failed before",
		file: "finish.go", old: `Last: last.err, Status: last.status`, new: `Status: last.status`,
		tests: `TestCancelDuringWait|TestLastErrorNamesAttemptsAndReason|TestPrepareFailure`,
	},
	{
		name: "A panic leaves the response open",
		file: "finish.go", old: `if o.Response != returned { abandon(o.Response) }`, new: ``,
		tests: `TestPanicsLeaveNothingBehind|TestPanicsOfTheUsersFunctions`,
	},
	{
		name: "A panic leaves everything as it is",
		file: "transport.go", old: `r.cleanUp(&p, &o, resp)`, new: `_ = resp`,
		tests: `TestPanics`,
	},
	{
		name: "The context of an attempt that is not sent stays alive",
		file: "finish.go", old: `p.limit.stop() p.limit = nil`, new: `p.limit = nil`,
		tests: `TestContextOfAnAttemptThatIsNotSentEnds`,
	},
	{
		name: "A request that is not retried leaves its body open",
		file: "finish.go", old: `func (r *route) giveBack(p *permit) { p.body.Finish()`, new: `func (r *route) giveBack(p *permit) {`,
		tests: `TestEveryExitClosesTheBody|TestRequestBodyIsClosedOnce`,
	},
	{
		name: "A response names a copy of the request",
		file: "attempt.go", old: `o.Response.Request = r.req`, new: `_ = r.req`,
		tests: `TestRetriesUntilSuccess|TestPrepare`,
	},
	{
		name: "A response that came with an error stays open",
		file: "attempt.go", old: `_ = resp.Body.Close() // the error decides`, new: `_ = resp.Body // the error decides`,
		tests: `TestBaseThatBreaksItsContract|TestErrorComesWithoutResponse`,
	},
	{
		name: "A response is returned along with an error",
		file: "attempt.go", old: `return nil, err case err == nil && resp == nil:`, new: `return resp, err; case err == nil && resp == nil:`,
		tests: `TestBaseThatBreaksItsContract|TestErrorComesWithoutResponse`,
	},
	{
		name: "No event is the last of a request",
		file: "event.go", old: `final := v.class == Success || d.reason != 0`, new: `final := false`,
		tests: `TestEventsAndTrace`,
	},
	{
		name: "An event tells a code that no rule lists",
		file: "strategy.go", old: `if code != "" && slices.ContainsFunc(p.Classifiers, func(c Classifier) bool { return lists(c, code) }) { return code } return ""`, new: `return code`,
		tests: `TestEventsShowListedCodesOnly|TestCodeOutsideTheListsIsNotRepeated`,
	},
	{
		name: "The response is closed while its retry waits",
		file: "transport.go", old: `p.answer = r.keep(o.take(), d)`, new: `p.answer = r.keep(o.take(), d); p.answer.letGo(r.req)`,
		tests: `TestAnswerIsKept`,
	},
	{
		name: "The response is closed before the limiter admits its retry",
		file: "transport.go", old: `refused := r.admit(&p, &o)`, new: `p.answer.letGo(r.req); refused := r.admit(&p, &o)`,
		tests: `TestAnswerIsKeptUntilTheLimiter`,
	},
	{
		name: "The response is closed before the body of its retry is opened",
		file: "attempt.go", old: `out, refused := r.outgoing(p, o, last)`, new: `p.answer.letGo(r.req); out, refused := r.outgoing(p, o, last)`,
		tests: `TestAnswerIsKeptUntilTheFile`,
	},
	{
		name: "A retry that is refused at the last moment loses the response",
		file: "finish.go", old: `if reason == Cancelled || reason == PrepareFailed {`, new: `{`,
		tests: `TestAnswerIsKept`,
	},
	{
		name: "A caller that cancels the wait gets the response",
		file: "finish.go", old: `if reason == Cancelled || reason == PrepareFailed {`, new: `if reason == PrepareFailed {`,
		tests: `TestCancelDuringWait`,
	},
	{
		name: "A Prepare that fails for a retry is hidden by the response",
		file: "finish.go", old: `if reason == Cancelled || reason == PrepareFailed {`, new: `if reason == Cancelled {`,
		tests: `TestPrepareFailure`,
	},
	{
		name: "The response stays open when the wait for its retry is cancelled",
		file: "finish.go", old: `p.answer.letGo(r.req) resp = nil`, new: `p.answer, resp = kept{}, nil`,
		tests: `TestCancelDuringWait`,
	},
	{
		name: "A response stays open although its retry is sent",
		file: "attempt.go", old: `p.answer.letGo(r.req)`, new: ``,
		tests: `TestRetriesUntilSuccess|TestDiscard|TestErrorPagesKeepTheConnection|TestResponseBeforeARetryIsClosedOnce`,
	},
	{
		name: "A panic while a retry waits leaves the response open",
		file: "finish.go", old: `if p.answer.resp != nil && p.answer.resp != returned { abandon(p.answer.resp) }`, new: ``,
		tests: `TestQuotaThatPanicsLeavesNothingOpen|TestPanicsLeaveNothingBehind|TestPanicsOfTheUsersFunctions`,
	},
	{
		name: "The response that the caller gets is closed",
		file: "finish.go", old: `if o.Response != returned { abandon(o.Response) }`, new: `abandon(o.Response)`,
		tests: `TestLastResponseIsTheCallers|TestRetriesUntilSuccess`,
	},
	{
		name: "A backoff counts from the end of the first attempt",
		file: "attempt.go", old: `o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}`,
		new:      `o.Response, o.Err, o.Code, o.Body = nil, nil, "", nil; _ = time.Time{}`,
		tests:    `TestRetriesUntilSuccess|TestFixedInterval|TestCustomBackoff`,
		packages: []string{"./services", "./aws"},
	},
	{
		name: "An error code of one attempt counts for the next",
		file: "attempt.go", old: `o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}`,
		new:   `o.Response, o.Err, o.Body, o.Done = nil, nil, nil, time.Time{}`,
		tests: `TestOutcomesAreApart`,
	},
	{
		name: "A body of one attempt counts for the next",
		file: "attempt.go", old: `o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}`,
		new:   `o.Response, o.Err, o.Code, o.Done = nil, nil, "", time.Time{}`,
		tests: `TestOutcomesAreApart`,
	},
	{
		name: "An error of one attempt stays until the next is sent",
		file: "attempt.go", old: `o.Response, o.Err, o.Code, o.Body, o.Done = nil, nil, "", nil, time.Time{}`,
		new:        `o.Response, o.Code, o.Body, o.Done = nil, "", nil, time.Time{}`,
		tests:      `TestOutcomesAreApart`,
		equivalent: "send writes it, and nothing reads it before",
	},
	{
		name: "An event tells the limiter's wait of the attempt before",
		file: "attempt.go", old: `o.Sent, o.limiterWait = time.Now(), 0`, new: `o.Sent = time.Now()`,
		tests: `TestAttemptsAreTimedApart`,
	},
	{
		name: "All attempts are told as sent when the first was",
		file: "attempt.go", old: `o.Sent, o.limiterWait = time.Now(), 0`, new: `o.limiterWait = 0; if r.begun.IsZero() { o.Sent = time.Now() }`,
		tests: `TestAttemptsAreTimedApart`,
	},
	{
		name: "An error does not tell how the caller's context ended",
		file: "finish.go", old: `case !r.tellsEnd(err):`, new: `case false:`,
		tests: `TestErrorTellsTheEndOfTheContextAfterTheDecision`,
	},
	{
		name: "A first error is returned as it is, although the caller's context ended and it does not say so",
		file: "finish.go", old: `case r.hadNoPart(o, d) && r.tellsEnd(o.Err):`, new: `case r.hadNoPart(o, d):`,
		tests: `TestErrorAfterTheContextEndedTellsHow|TestCancelledUploadTellsWhy`,
	},
	{
		name: "An error that only wraps the caller's deadline is taken for a timeout",
		file: "finish.go", old: `(!errors.Is(end, context.DeadlineExceeded) || ok && timeout.Timeout())`, new: `(true || ok && timeout.Timeout())`,
		tests: `TestErrorAfterTheContextEndedTellsHow`,
	},
	{
		name: "An error that does not tell the context's cause is taken to tell it",
		file: "finish.go", old: `errors.Is(err, end) && errors.Is(err, context.Cause(r.ctx)) &&`, new: `errors.Is(err, end) &&`,
		tests: `TestErrorAfterTheContextEndedTellsHow`,
	},
	{
		name: "An error that tells only the context's cause is taken to tell its end",
		file: "finish.go", old: `errors.Is(err, end) && errors.Is(err, context.Cause(r.ctx)) &&`, new: `errors.Is(err, context.Cause(r.ctx)) &&`,
		tests: `TestErrorAfterTheContextEndedTellsHow`,
	},
	{
		name: "A wait that would outlive the deadline is no context.DeadlineExceeded",
		file: "finish.go", old: `if reason == WaitOverDeadline {`, new: `if false {`,
		tests: `TestFailingFastForADeadlineIsATimeout`,
	},
	{
		name: "A wait that would outlive the deadline is no timeout",
		file: "errors.go", old: `if errors.Is(e.ctxErr, context.DeadlineExceeded) {`, new: `if false && errors.Is(e.ctxErr, context.DeadlineExceeded) {`,
		tests: `TestFailingFastForADeadlineIsATimeout`,
	},
	{
		name: "An error does not tell why the body can't be sent again",
		file: "finish.go", old: `fmt.Errorf("%w; %w", o.Err, d.obstacle)`, new: `o.Err`,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestGetBodyThatFails|TestFileThatChanged`,
	},
	{
		name: "An error of an attempt that was cancelled does not tell what failed before",
		file: "finish.go", old: `case during && o.Number > 1:`, new: `case during && false:`,
		tests: `TestErrorsTellWhatFailedBefore`,
	},
	{
		name: "An error of a request that was cancelled after a failure does not tell the failure",
		file: "finish.go", old: `o.Err, ending{err: o.Err})`, new: `o.Err, ending{})`,
		tests: `TestErrorsTellWhatFailedBefore|TestAnswerOfACancelledRequest|TestCancelInObserve`,
	},
	{
		name: "The last failure is not found in an error",
		file: "errors.go", old: `[...]error{e.Err, e.ctxErr, e.Last}`, new: `[...]error{e.Err, e.ctxErr}`,
		tests: `TestCancelDuringWait`,
	},
	{
		name: "The event of a retry that is refused at the last moment tells no status",
		file: "finish.go", old: `r.observeStop(o, d, resp, err)`, new: `r.observeStop(o, d, nil, err)`,
		tests: `TestAnswerIsKept`,
	},
	{
		name: "The event of an attempt that the limiter refuses does not tell the wait",
		file: "finish.go", old: `d.wait, d.from = why.wait, "limiter"`, new: `_ = why.wait`,
		tests: `TestRefusalTellsTheWait`,
	},
	{
		name: "The caller's response lacks the trailers that come after a body that was looked at",
		file: "peek.go", old: `if err == io.EOF { p.copyTrailers() }`, new: ``,
		tests: `TestTrailersOfAnErrorPage`,
	},
	{
		name: "A response is let go only when Prepare has returned",
		file: "attempt.go", old: `p.answer.letGo(r.req)`, new: `defer p.answer.letGo(r.req)`,
		tests: `TestKeptAnswerDoesNotHoldUpPrepare|TestAttemptIsSentAfterPrepare`,
	},
	{
		name: "A response that is not retried becomes an error, too",
		file: "migrate/giveup.go", old: `|| c.end.Reason == retrip.NotRetryable`, new: ``,
		tests:    `TestErrorOnGiveUp`,
		packages: []string{"./migrate"},
	},
	{
		name: "An error waits for a body that stalls",
		file: "migrate/giveup.go", old: `late := time.AfterFunc(errorWait,`, new: `late := time.AfterFunc(100*errorWait,`,
		tests:    `TestGiveUpErrorBounds`,
		packages: []string{"./migrate"},
	},
	{
		name: "The code in the Error object of a JSON error is not read",
		file: "internal/errorcode/json.go", old: `depth == 2 && inError && string(name)`, new: `false && string(name)`,
		tests:    `TestBodyCodes|TestVectorsErrorBodies`,
		packages: []string{"./aws", "./internal/errorcode"},
	},
}
