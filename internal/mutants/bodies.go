package main

// bodies are faults in reading a request's body once and sending it again.
var bodies = []mutant{
	{
		name: "A file is sent again from its beginning, not from where the caller left it",
		file: "internal/replay/opaque.go", old: `info: info, start: at}`, new: `info: info, start: at - at}`,
		tests: `TestBodyIsSentAgainWhole`,
	},
	{
		name: "A file that became shorter or longer is sent again",
		file: "internal/replay/file.go", old: `info.Size() != f.info.Size() || !info.ModTime()`, new: `!info.ModTime()`,
		tests: `TestFileThatChangedInOneWay`,
	},
	{
		name: "A file that was written anew is sent again",
		file: "internal/replay/file.go", old: `info.Size() != f.info.Size() || !info.ModTime().Equal(f.info.ModTime())`, new: `info.Size() != f.info.Size()`,
		tests: `TestFileThatChangedInOneWay`,
	},
	{
		name: "A copy of the body can be opened when its attempt is over",
		file: "internal/replay/opaque.go", old: `if attempt != o.attempt { return nil, ErrOver }`, new: ``,
		tests:    `TestFenceKeepsAnOldAttemptOut|TestFenceEndsAnAttempt`,
		packages: []string{"./internal/replay"},
	},
	{
		name: "A body that failed midway is sent again",
		file: "internal/replay/stream.go", old: `case s.failure() != nil: return ErrFailed`, new: ``,
		tests: `TestBodyThatFailsMidway`,
	},
	{
		name: "A body that is longer than what is kept is sent again",
		file: "internal/replay/stream.go", old: `case s.sole != nil: return ErrTooLong`, new: `case false:`,
		tests: `TestBodyBeyondTheBufferIsSentOnce`,
	},
	{
		name: "The caller's body stays open at the end",
		file: "internal/replay/opaque.go", old: `case o.done(): return o.closeSource()`, new: `case o.done(): return nil`,
		tests: `TestRequestBodyIsClosedOnce|TestEveryExitClosesTheBody`,
	},
	{
		name: "What was kept for a retry stays in memory after the last attempt",
		file: "internal/replay/stream.go", old: `clear(s.chunks[:r.chunk])`, new: ``,
		tests:    `TestCaptureIsFreedWhileTheSourceIsIdle`,
		packages: []string{"./internal/replay"},
	},
	{
		name: "What the last attempt has read of the body stays in memory",
		file: "internal/replay/stream.go", old: `if s.sole == r { s.chunks[r.chunk] = nil }`, new: ``,
		tests: `TestCaptureIsFreedAsTheLastAttemptReadsIt`,
	},
	{
		name: "A body whose Close panics ends the program",
		file: "internal/replay/replay.go", old: `defer func() { _ = recover() }()`, new: ``,
		tests: `TestSourceWhoseClosePanics`,
	},
	{
		name: "A copy that was forgotten holds the body open",
		file: "internal/replay/opaque.go", old: `o.open = slices.DeleteFunc(o.open, func(r *reader) bool { return !r.own && !r.begun })`, new: ``,
		tests: `TestForgottenCopy|TestBaseForgetsACopy`,
	},
	{
		name: "A copy that Prepare has begun to read goes on reading",
		file: "internal/replay/prepare.go", old: `if !r.own { r.leave(ErrOver) }`, new: `_ = r`,
		tests: `TestPrepare|TestForgottenCopy`,
	},
	{
		name: "A body of Prepare's making does not close the caller's",
		file: "internal/replay/prepare.go", old: `a.own.body.end(a.own.attempt)`, new: ``,
		tests: `TestPrepareThatWrapsABodyWithoutItsClose`,
	},
	{
		name: "A body is read on while it is decided whether it is sent again",
		file: "internal/replay/stream.go", old: `case !s.held && !s.reading:`, new: `case !s.reading:`,
		tests: `TestLateReadLosesNothing|TestFenceKeepsAnOldAttemptOut|TestBlockedSourceIsNotReplayable`,
	},
	{
		name: "Two readers read the caller's body at the same time",
		file: "internal/replay/stream.go", old: `case !s.held && !s.reading:`, new: `case !s.held:`,
		tests:    `TestLateReadLosesNothing|TestConcurrentOpaqueBodies|TestCopiesAreIndependent|TestReadersAtOnce`,
		packages: []string{"./internal/replay"},
	},
	{
		name: "A body that was cut short ends like a whole one",
		file: "internal/replay/opaque.go", old: `return context.Cause(ctx) } return ErrOver`, new: `return context.Cause(ctx) }; return io.EOF`,
		tests: `TestCopyReadTooLateHasNoCleanEnd`,
	},
	{
		name: "A body one byte longer than what is kept is sent again",
		file: "internal/replay/stream.go", old: `(s.size < s.limit || s.size == s.limit && !sent)`, new: `(s.size <= s.limit || s.size == s.limit && !sent)`,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestBodyIsSentAgainWhole`,
	},
	{
		name: "A body of exactly the length that is kept is not sent again",
		file: "internal/replay/stream.go", old: `(s.size < s.limit || s.size == s.limit && !sent)`, new: `s.size < s.limit-1`,
		tests: `TestBodyThatJustFitsTheBuffer`,
	},
	{
		name: "More of a body is kept than ReplayBuffer says",
		file: "internal/replay/stream.go", old: `s.size += int64(n)`, new: ``,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestLongOpaqueBodyTakesNoMemory`,
	},
	{
		name: "A short body of a declared length takes the memory of a long one",
		file: "internal/replay/stream.go", old: `room = left + 1`, new: `_ = left`,
		tests: `TestShortBodyTakesLittleMemory`,
	},
	{
		name: "A reader that returns more than there was room for is believed",
		file: "internal/replay/stream.go", old: `if n < 0 || n > len(into) {`, new: `if n < 0 {`,
		tests: `TestReaderThatLies`,
	},
	{
		name: "A panic of the body's Read is an error",
		file: "internal/replay/stream.go", old: `panic(raised.value)`, new: `return 0, true, raised`,
		tests: `TestBodyThatPanics`,
	},
	{
		name: "A body whose Read ends its goroutine hangs its reader",
		file: "internal/replay/stream.go", old: `s.reading, s.ended = false, err`, new: `if err == errSourceQuit { return }; s.reading, s.ended = false, err`,
		tests: `TestSourceThatEndsItsGoroutine`,
	},
	{
		name: "A source that blocks is not closed when the caller gives up",
		file: "internal/replay/opaque.go", old: `if o.done() || o.ctx.Err() != nil {`, new: `if o.done() {`,
		tests: `TestEndOfContext`,
	},
	{
		name: "A GetBody that returns more than declared is believed",
		file: "internal/replay/getbody.go", old: `case b.left < 0:`, new: `case false:`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A GetBody that returns less than declared is believed",
		file: "internal/replay/getbody.go", old: `case err == io.EOF && b.left > 0:`, new: `case false:`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A GetBody that returns nothing panics",
		file: "internal/replay/getbody.go", old: `case body == nil:`, new: `case false:`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "A retry sends the body that the first attempt has read",
		file: "internal/replay/replay.go", old: `b.held, err = reopen(b.req)`, new: `b.held = b.req.Body`,
		tests: `TestBodyIsSentAgainWhole`,
	},
	{
		name: "ReplayBuffer can't be made smaller",
		file: "transport.go", old: `cmp.Or(t.ReplayBuffer, defaultReplayBuffer)`, new: `cmp.Or(max(t.ReplayBuffer, defaultReplayBuffer))`,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestOrderOfReasons`,
	},
	{
		name: "A body that Prepare leaves in place is closed twice",
		file: "internal/replay/prepare.go", old: `if b.closed.Swap(true) {`, new: `if b.closed.Swap(true) && false {`,
		tests: `TestPrepare`,
	},
	{
		name: "A body that Prepare replaces stays open",
		file: "internal/replay/prepare.go", old: `errors.Join(err, b.original.Close())`, new: `errors.Join(err)`,
		tests: `TestPrepare`,
	},
	{
		name: "A body that Prepare makes before it fails stays open",
		file: "internal/replay/prepare.go", old: `Close(out.Body)`, new: `_ = out.Body`,
		tests: `TestPrepareThatFailsAfterReplacingABody`,
	},
	{
		name: "A body that Prepare takes away stays open",
		file: "internal/replay/prepare.go", old: `must be able to see Close(original)`, new: "must be able to see\n_ = original",
		tests: `TestPrepareThatTakesTheBodyAway`,
	},
	{
		name: "A body of a request is cut off when its retry is decided, not when it is sent",
		file: "transport.go", old: `r.remember(&past, &o, v, d)`, new: `p.body.Fence(); r.remember(&past, &o, v, d)`,
		tests: `TestRefusedRetryLeavesTheUploadAlone`,
	},
	{
		name: "A retry is sent while the attempt before reads on",
		file: "attempt.go", old: `p.body.Fence() // the attempt before`, new: `// the attempt before`,
		tests: `TestFenceKeepsAnOldAttemptOut`,
	},
	{
		name: "A reader of an attempt that is over gets bytes",
		file: "internal/replay/reader.go", old: `case r.attempt != o.attempt:`, new: `case false:`,
		tests: `TestFenceKeepsAnOldAttemptOut`,
	},
	{
		name: "Copies of a body that is not sent stay readable",
		file: "internal/replay/replay.go", old: `b.Fence() // with all copies`, new: `// with all copies`,
		tests: `TestPrepareThatEndsWithACopyOpen`,
	},
	{
		name: "A body that the base has closed is closed again",
		file: "attempt.go", old: `p.body.Sent()`, new: ``,
		tests: `TestRequestBodyIsClosedOnce|TestEveryExitClosesTheBody`,
	},
	{
		name: "A body of Prepare's making that failed counts as sound",
		file: "internal/replay/state.go", old: `return Failed }`, new: `return Fine }`,
		tests: `TestErrorOfABodyProvesNothing`,
	},
	{
		name: "A body that can't be watched counts as sound",
		file: "internal/replay/state.go", old: `return Unknown`, new: `return Fine`,
		tests: `TestDialErrorOfTheBody`,
	},
	{
		name: "A stream that failed counts as sound",
		file: "internal/replay/state.go", old: `return r.body.source.failure()`, new: `return nil`,
		tests: `TestErrorOfABodyProvesNothing|TestErrorOfTheCallersBodyIsReturnedAsItIs`,
	},
	{
		name: "A file that failed counts as sound",
		file: "internal/replay/file.go", old: `f.failed = err`, new: ``,
		tests: `TestErrorOfAFileProvesNothing`,
	},
	{
		name: "A copy of a body of Prepare's making that failed counts as sound",
		file: "internal/replay/state.go", old: `return &watchedBody{another, b.broken}, nil`, new: `return another, nil`,
		tests: `TestErrorOfACopyProvesNothing`,
	},
	{
		name: "A reopened body is not watched, so that a failed dial proves nothing",
		file: "internal/replay/getbody.go", old: `return watch(body), nil`, new: `return body, nil`,
		tests: `TestFailedDialIsProofAfterGetBody`,
	},
	{
		name: "A failed body counts as sound if its error looks like a failed dial, and one that can't be watched, too",
		file: "safety.go", old: `case o.sent != replay.Fine:`, new: `case o.sent == replay.Failed:`,
		tests: `TestDialErrorOfTheBody`,
	},
	{
		name: "An error of the caller's own body is wrapped",
		file: "finish.go", old: `|| o.sent == replay.Failed ||`, new: `||`,
		tests: `TestErrorOfTheCallersBodyIsReturnedAsItIs`,
	},
	{
		name: "A body that is sent once is kept for Prepare to its end",
		file: "attempt.go", old: `if r.attempts == 1 {`, new: `if false {`,
		tests: `TestBodyOfASingleAttemptIsNotKept`,
	},
	{
		name: "A body that is sent once is kept",
		file: "transport.go", old: `if body.Opaque() && (r.attempts > 1 || t.Prepare != nil) {`, new: `if body.Opaque() {`,
		tests: `TestBodyOfASingleAttemptIsNotKept`,
	},
	{
		name: "An upload is cut off before it is seen that its file has changed",
		file: "attempt.go", old: `if err := p.body.Check(); err != nil && !first {`, new: `if !first { p.body.Fence() }; if err := p.body.Check(); err != nil && !first {`,
		tests: `TestAnswerIsWholeAfterAFileChanged`,
	},
	{
		name: "A copy of a body that GetBody reopened may fail unseen",
		file: "internal/replay/replay.go", old: `if reopened, ok := b.held.(*watchedBody); ok { reopened.watchCopies(out) }`, new: ``,
		tests: `TestErrorOfACopyProvesNothingInARetry`,
	},
}
