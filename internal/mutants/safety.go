package main

// safety are faults that send a request twice which must not be, or not again
// although it may be.
var safety = []mutant{
	{
		name: "A POST counts as idempotent",
		file: "safety.go", old: `http.MethodPut, http.MethodDelete, "QUERY":`, new: `http.MethodPut, http.MethodPost, http.MethodDelete, "QUERY":`,
		tests: `TestSafety`,
	},
	{
		name: "A PATCH counts as idempotent",
		file: "safety.go", old: `http.MethodPut, http.MethodDelete, "QUERY":`, new: `http.MethodPut, http.MethodPatch, http.MethodDelete, "QUERY":`,
		tests: `TestSafety`,
	},
	{
		name: "A QUERY does not count as idempotent",
		file: "safety.go", old: `http.MethodDelete, "QUERY":`, new: `http.MethodDelete:`,
		tests: `TestSafety`,
	},
	{
		name: "A request with an empty method is not a GET",
		file: "safety.go", old: `case "", http.MethodGet,`, new: `case http.MethodGet,`,
		tests: `TestSafety`,
	},
	{
		name: "X-Idempotency-Key is no promise",
		file: "safety.go", old: `"Idempotency-Key", "X-Idempotency-Key", "Amz-Sdk-Invocation-Id"`, new: `"Idempotency-Key", "Amz-Sdk-Invocation-Id"`,
		tests: `TestSafety`,
	},
	{
		name: "A 503 counts as proof that nothing was processed",
		file: "safety.go", old: `case http.StatusTooEarly, http.StatusTooManyRequests:`,
		new:   `case http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:`,
		tests: `TestSafety`,
	},
	{
		name: "A 425 does not prove that nothing was processed",
		file: "safety.go", old: `case http.StatusTooEarly, http.StatusTooManyRequests:`, new: `case http.StatusTooManyRequests:`,
		tests: `TestSafety`,
	},
	{
		name:  "A 503 that a rule calls throttling proves that nothing was processed",
		file:  "safety.go",
		old:   `return v.proves || v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4`,
		new:   `return v.proves || v.class == ClockSkewed || v.class == Throttled`,
		tests: `TestThrottledByStatus`,
	},
	{
		name: "A 403 that a rule calls throttling proves nothing",
		file: "safety.go", old: `return v.proves || v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4`, new: `return v.proves || v.class == ClockSkewed`,
		tests: `TestThrottledByStatus`,
	},
	{
		name:  "A throttling code with a 5xx proves nothing",
		file:  "safety.go",
		old:   `return v.proves || v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4`,
		new:   `return v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4`,
		tests: `TestSafety|TestThrottledByStatus`,
	},
	{
		name:  "A refused time stamp does not prove that nothing was processed",
		file:  "safety.go",
		old:   `return v.proves || v.class == ClockSkewed || v.class == Throttled && o.Response.StatusCode/100 == 4`,
		new:   `return v.proves || v.class == Throttled && o.Response.StatusCode/100 == 4`,
		tests: `TestSkewedPostWasNotProcessed`,
	},
	{
		name: "A dial error that the body's own source met proves that nothing was sent",
		file: "safety.go", old: `case o.sent != replay.Fine:`, new: `case false:`,
		tests: `TestDialErrorOfTheBody|TestErrorOfABodyProvesNothing`,
	},
	{
		name: "A POST from memory is not repeated after a dial error",
		file: "internal/replay/state.go", old: `out.GetBody != nil && !InMemory(out.Body)`, new: `out.GetBody != nil`,
		tests: `TestSafety|TestRefusedConnection`,
	},
	{
		name: "A connection that is lost while the answer is awaited proves that nothing was processed",
		file: "safety.go", old: `(op.Op == "dial" || op.Op == "proxyconnect")`, new: `(op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "read")`,
		tests: `TestSafety|TestFaults`,
	},
	{
		name: "A proxy that can't be reached does not prove that nothing was sent",
		file: "safety.go", old: `(op.Op == "dial" || op.Op == "proxyconnect")`, new: `op.Op == "dial"`,
		tests: `TestSafety`,
	},
	{
		name: "Any error of an HTTP/2 stream proves that nothing was processed",
		file: "safety.go", old: `stream.Code == refusedStream`, new: `stream.Code <= refusedStream`,
		tests: `TestErrors`,
	},
	{
		name: "A refused HTTP/2 stream proves nothing",
		file: "safety.go", old: `stream.Code == refusedStream`, new: `stream.Code == refusedStream+1`,
		tests: `TestSafety`,
	},
	{
		name: "Any TLS alert proves that the handshake failed",
		file: "safety.go", old: `return handshakeAlerts[alertOf(op)] != 0`, new: `return alertOf(op) > 0`,
		tests: `TestErrors`,
	},
	{
		name: "A timeout of the TLS handshake proves nothing",
		file: "safety.go", old: `err.Error() == "net/http: TLS handshake timeout"`, new: `err.Error() == "TLS handshake timeout"`,
		tests: `TestErrors`,
	},
	{
		name: "Any timeout counts as one of the TLS handshake",
		file: "safety.go", old: `t.Timeout() && err.Error() == "net/http: TLS handshake timeout"`, new: `t.Timeout()`,
		tests: `TestSafety|TestErrors`,
	},
	{
		name: "A request whose key is not in canonical form gets another",
		file: "idempotency.go", old: `repeatable(req) || hasKey(req.Header) ||`, new: `repeatable(req) ||`,
		tests: `TestIdempotencyKeyOnlyWhereItBelongs`,
	},
	{
		name: "Any host gets an idempotency key",
		file: "idempotency.go", old: `|| !slices.Contains(t.Hosts, HostKey(req)) {`, new: `{`,
		tests: `TestIdempotencyKeyOnlyWhereItBelongs|TestIdempotencyKeyIsNotRedirected`,
	},
	{
		name: "An idempotency key is written into the caller's request",
		file: "idempotency.go", old: `out.Header = req.Header.Clone()`, new: `out.Header = req.Header`,
		tests: `TestIdempotencyKey`,
	},
	{
		name: "The answer to a request with a key names a copy of it",
		file: "idempotency.go", old: `resp.Request = req`, new: `_ = req`,
		tests: `TestIdempotencyKey`,
	},
	{
		name: "A body is left open where no host is named for a key",
		file: "idempotency.go", old: `replay.Close(req.Body)`, new: `_ = req.Body`,
		tests: `TestIdempotencyKey|TestEveryExitClosesTheBody`,
	},
	{
		name: "All keys are the same",
		file: "idempotency.go", old: `rand.Text()`, new: `rand.Text()[:0]+"key"`,
		tests: `TestIdempotencyKey`,
	},
}
