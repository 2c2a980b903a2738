package main

// classes are faults in what an outcome means.
var classes = []mutant{
	{
		name: "A 429 is a failure like any other",
		file: "classify.go", old: `On(Throttled, StatusIs(http.StatusTooManyRequests)),`, new: `On(Transient, StatusIs(http.StatusTooManyRequests)),`,
		tests: `TestStatuses`,
	},
	{
		name: "A method that the server does not implement is retried",
		file: "classify.go", old: `StatusIs(http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,`, new: `StatusIs(http.StatusHTTPVersionNotSupported,`,
		tests: `TestStatuses`,
	},
	{
		name: "A 425 is not retried",
		file: "classify.go", old: `StatusIs(http.StatusRequestTimeout, http.StatusTooEarly)`, new: `StatusIs(http.StatusRequestTimeout)`,
		tests: `TestStatuses`,
	},
	{
		name: "A plain 500 is not retried",
		file: "classify.go", old: `StatusFrom(500)`, new: `StatusFrom(501)`,
		tests: `TestStatuses`,
	},
	{
		name: "SlowDown is no throttling code",
		file: "internal/errorcode/errorcode.go", old: `"SlowDown", `, new: ``,
		tests:    `TestVectorsErrorCodes`,
		packages: []string{"./aws"},
	},
	{
		name: "A code counts with any status, although its rule names one",
		file: "condition.go", old: `if ok, byCode = c.match(&a); !ok {`, new: `if ok, byCode = c.match(&a); false {`,
		tests:    `TestConditions|TestBotocoreTable`,
		packages: []string{"./aws"},
	},
	{
		name: "A rule for a header speaks of successes, too",
		file: "classify.go", old: `if r.FailuresOnly() && a.Response != nil && a.Response.StatusCode < 400 { return Unknown }`, new: ``,
		tests: `TestOnAHeader|TestConditionsBelow400`,
	},
	{
		name: "A rule for a header takes upper case for another value",
		file: "condition.go", old: `strings.EqualFold(known, value)`, new: `known == value`,
		tests: `TestOnAHeader|TestConditions`,
	},
	{
		name: "A rule for any value of a header wants an empty one",
		file: "condition.go", old: `func(string) bool { return true }`, new: `func(value string) bool { return value == "" }`,
		tests: `TestOnAHeader|TestConditions`,
	},
	{
		name: "A rule for a status below 400 is never asked",
		file: "classify.go", old: `return !r.when.below400`, new: `return true`,
		tests: `TestFailuresBelow400|TestConditionsBelow400`,
	},
	{
		name: "A rule for an error does not see it inside another",
		file: "condition.go", old: `errors.Is(a.Err, target)`, new: `a.Err == target`,
		tests: `TestOneRuleMore|ExampleErrorIs|TestConditions|TestOddVerdicts`,
	},
	{
		name: "A bad certificate is tried again",
		file: "transporterrors.go", old: `errors.As(err, &certificate),`, new: `errors.As(err, &certificate) && false,`,
		tests: `TestErrors|TestFaults`,
	},
	{
		name: "A certificate for another host is tried again",
		file: "transporterrors.go", old: `errors.As(err, &hostname),`, new: `errors.As(err, &hostname) && false,`,
		tests: `TestErrors`,
	},
	{
		name: "A name server's failure for the moment is final",
		file: "transporterrors.go", old: `errors.As(err, &dns) && dns.IsNotFound`, new: `errors.As(err, &dns)`,
		tests: `TestErrors`,
	},
	{
		name: "A host name that does not exist is tried again",
		file: "transporterrors.go", old: `errors.As(err, &dns) && dns.IsNotFound`, new: `errors.As(err, &dns) && false`,
		tests: `TestErrors|TestNameThatDoesNotExist`,
	},
	{
		name: "TLS to a server that speaks none is tried again",
		file: "transporterrors.go", old: `case errors.As(err, &notTLS), errors.Is(`, new: `case errors.As(err, &notTLS) && false, errors.Is(`,
		tests: `TestErrors|TestHopelessErrorsOfNetHTTP`,
	},
	{
		name: "A base that returns nothing is asked again",
		file: "transporterrors.go", old: `errors.As(err, &contract) ||`, new: `errors.As(err, &contract) && false ||`,
		tests: `TestBaseThatBreaksItsContract`,
	},
	{
		name: "A body of another length than declared is sent again",
		file: "transporterrors.go", old: `errors.As(err, &length) ||`, new: `errors.As(err, &length) && false ||`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A scheme that does not exist is tried again",
		file: "transporterrors.go", old: `"unsupported protocol scheme",`, new: ``,
		tests: `TestHopelessErrorsOfNetHTTP`,
	},
	{
		name: "An answer that is not HTTP is tried again",
		file: "transporterrors.go", old: `"malformed HTTP response",`, new: ``,
		tests: `TestHopelessErrorsOfNetHTTP|TestErrors`,
	},
	{
		name: "A time stamp refused by a clock that is behind is not retried",
		file: "hosts.go", old: `(measured - signed).Abs() >= cmp.Or(least, skewThreshold+1)`, new: `measured-signed >= cmp.Or(least, skewThreshold+1)`,
		tests:    `TestVectorsClockSkewDecisions`,
		packages: []string{"./aws"},
	},
	{
		name: "A skew of exactly four minutes is believed",
		file: "hosts.go", old: `cmp.Or(least, skewThreshold+1)`, new: `cmp.Or(least, skewThreshold)`,
		tests:    `TestVectorsClockSkewDecisions`,
		packages: []string{"./aws"},
	},
	{
		name: "A strategy's own least skew is ignored",
		file: "decide.go", old: `explainsRefusal(o.signed, measured, r.policy.MinSkew)`, new: `explainsRefusal(o.signed, measured, 0)`,
		tests:    `TestLeastSkew`,
		packages: []string{"./aws"},
	},
	{
		name: "A Date without TLS sets the clock",
		file: "hosts.go", old: `a.Response.TLS == nil ||`, new: ``,
		tests: `TestMeasureSkew`,
	},
	{
		name: "The Date of a cached answer sets the clock",
		file: "hosts.go", old: `|| a.Response.Header.Get("Age") != ""`, new: ``,
		tests: `TestMeasureSkew`,
	},
	{
		name: "The server's Date is compared with the time of sending",
		file: "hosts.go", old: `a.Sent.Add(trip / 2)`, new: `a.Sent.Add(0 * trip)`,
		tests: `TestMeasureSkew`,
	},
}
