package main

// bodies are faults in reading a request's body once and sending it again.
var bodies = []mutant{
	{
		name: "A file is sent again from its beginning, not from where the caller left it",
		file: "body.go", old: `r.file, r.info, r.start = f, info, at`, new: `r.file, r.info, r.start = f, info, at-at`,
		tests: `TestBodyIsSentAgainWhole`,
	},
	{
		name: "A file that became shorter or longer is sent again",
		file: "body.go", old: `info.Size() != r.info.Size() || !info.ModTime()`, new: `!info.ModTime()`,
		tests: `TestFileThatChangedInOneWay`,
	},
	{
		name: "A file that was written anew is sent again",
		file: "body.go", old: `info.Size() != r.info.Size() || !info.ModTime().Equal(r.info.ModTime())`, new: `info.Size() != r.info.Size()`,
		tests: `TestFileThatChangedInOneWay`,
	},
	{
		name: "A copy of the body can be opened when its attempt is over",
		file: "body.go", old: `if attempt != r.attempt { return nil, errBodyOver }`, new: ``,
		tests: `TestStaleGetBody`,
	},
	{
		name: "A body that failed midway is sent again",
		file: "body.go", old: `case r.end != nil && r.end != io.EOF:`, new: `case r.end != nil && r.end != io.EOF && false:`,
		tests: `TestBodyThatFailsMidway`,
	},
	{
		name: "A body that is longer than what is kept is sent again",
		file: "body.go", old: `case r.stream != nil: return errTooLong`, new: `case false:`,
		tests: `TestBodyBeyondTheBufferIsSentOnce`,
	},
	{
		name: "The caller's body stays open at the end",
		file: "body.go", old: `case r.done(): return r.closeSource() case len(`, new: "case r.done():\nreturn nil\ncase len(",
		tests: `TestRequestBodyIsClosedOnce|TestEveryExitClosesTheBody`,
	},
	{
		name: "What was kept for a retry stays in memory after the last attempt",
		file: "body.go", old: `clear(r.chunks[:r.stream.chunk])`, new: ``,
		tests: `TestCaptureIsFreedWhileTheSourceIsIdle`,
	},
	{
		name: "What the last attempt has read of the body stays in memory",
		file: "bodyread.go", old: `b.r.chunks[b.chunk] = nil`, new: `_ = b`,
		tests: `TestCaptureIsFreedAsTheLastAttemptReadsIt`,
	},
	{
		name: "A body whose Close panics ends the program",
		file: "body.go", old: `defer func() { _ = recover() }()`, new: ``,
		tests: `TestSourceWhoseClosePanics`,
	},
	{
		name: "A copy that was forgotten holds the body open",
		file: "body.go", old: `r.bodies = slices.DeleteFunc(r.bodies, (*attemptBody).forgotten)`, new: ``,
		tests: `TestForgottenCopy|TestBaseForgetsACopy`,
	},
	{
		name: "A copy that Prepare has begun to read goes on reading",
		file: "body.go", old: `if !b.own { b.leave() }`, new: `_ = b`,
		tests: `TestPrepare|TestForgottenCopy`,
	},
	{
		name: "A body of Prepare's making does not close the caller's",
		file: "body.go", old: `r.wrapped = false r.leaveAll()`, new: `r.wrapped = false`,
		tests: `TestPrepareThatWrapsABodyWithoutItsClose`,
	},
	{
		name: "A body is read on while it is decided whether it is sent again",
		file: "bodyread.go", old: `case !r.held && !r.reading:`, new: `case !r.reading:`,
		tests: `TestLateReadLosesNothing|TestFenceKeepsAnOldAttemptOut|TestBlockedSourceIsNotReplayable`,
	},
	{
		name: "Two readers read the caller's body at the same time",
		file: "bodyread.go", old: `case !r.held && !r.reading:`, new: `case !r.held:`,
		tests: `TestCopiesAreIndependent|TestLateReadLosesNothing|TestConcurrentOpaqueBodies`,
	},
	{
		name: "A body that was cut short ends like a whole one",
		file: "bodyread.go", old: `case r.closed != nil: return 0, errBodyOver`, new: `case r.closed != nil: return 0, io.EOF`,
		tests: `TestCopyReadTooLateHasNoCleanEnd`,
	},
	{
		name: "A body one byte longer than what is kept is sent again",
		file: "bodyread.go", old: `(r.size < r.limit || r.size == r.limit && !sent)`, new: `(r.size <= r.limit || r.size == r.limit && !sent)`,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestBodyIsSentAgainWhole`,
	},
	{
		name: "A body of exactly the length that is kept is not sent again",
		file: "bodyread.go", old: `(r.size < r.limit || r.size == r.limit && !sent)`, new: `r.size < r.limit-1`,
		tests: `TestBodyThatJustFitsTheBuffer`,
	},
	{
		name: "More of a body is kept than ReplayBuffer says",
		file: "bodyread.go", old: `r.size += int64(n)`, new: ``,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestLongOpaqueBodyTakesNoMemory`,
	},
	{
		name: "A short body of a declared length takes the memory of a long one",
		file: "bodyread.go", old: `room = left + 1`, new: `_ = left`,
		tests: `TestShortBodyTakesLittleMemory`,
	},
	{
		name: "A reader that returns more than there was room for is believed",
		file: "bodyread.go", old: `if n < 0 || n > len(p) {`, new: `if n < 0 {`,
		tests: `TestReaderThatLies`,
	},
	{
		name: "A panic of the body's Read is an error",
		file: "bodyread.go", old: `panic(raised.value)`, new: `return 0, raised`,
		tests: `TestBodyThatPanics`,
	},
	{
		name: "A body whose Read ends its goroutine hangs its reader",
		file: "bodyread.go", old: `defer func() { r.read(into, n, err, keep, b) }() n, err = readChecked(r.src, into)`,
		new:   `n, err = readChecked(r.src, into); r.read(into, n, err, keep, b)`,
		tests: `TestSourceThatEndsItsGoroutine`,
	},
	{
		name: "A source that blocks is not closed when the caller gives up",
		file: "bodyread.go", old: `if b.r.ctx.Err() != nil { b.r.closeSource() }`, new: ``,
		tests: `TestEndOfContext`,
	},
	{
		name: "A GetBody that returns more than declared is believed",
		file: "getbody.go", old: `case b.left < 0:`, new: `case false:`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A GetBody that returns less than declared is believed",
		file: "getbody.go", old: `case err == io.EOF && b.left > 0:`, new: `case false:`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A GetBody that returns nothing panics",
		file: "getbody.go", old: `case body == nil:`, new: `case false:`,
		tests: `TestGetBodyThatFails`,
	},
	{
		name: "A retry sends the body that the first attempt has read",
		file: "send.go", old: `if hasBody(req) { out.Body = c.body }`, new: `if hasBody(req) && c.replay != nil { out.Body = c.body }`,
		tests: `TestBodyIsSentAgainWhole`,
	},
	{
		name: "ReplayBuffer can't be made smaller",
		file: "transport.go", old: `cmp.Or(c.t.ReplayBuffer, defaultReplayBuffer)`, new: `cmp.Or(max(c.t.ReplayBuffer, defaultReplayBuffer))`,
		tests: `TestBodyBeyondTheBufferIsSentOnce|TestOrderOfReasons`,
	},
	{
		name: "A body that Prepare leaves in place is closed twice",
		file: "send.go", old: `if b.closed.Swap(true) {`, new: `if b.closed.Swap(true) && false {`,
		tests: `TestPrepare`,
	},
	{
		name: "A body that Prepare replaces stays open",
		file: "send.go", old: `errors.Join(b.ReadCloser.Close(), b.original.Close())`, new: `errors.Join(b.ReadCloser.Close())`,
		tests: `TestPrepare`,
	},
	{
		name: "A body that Prepare makes before it fails stays open",
		file: "send.go", old: `_ = out.Body.Close()`, new: `_ = out.Body`,
		tests: `TestPrepareThatFailsAfterReplacingABody`,
	},
	{
		name: "A body that Prepare takes away stays open",
		file: "send.go", old: `_ = ours.Close()`, new: `_ = ours`,
		tests: `TestPrepareThatTakesTheBodyAway`,
	},
}
