package main

// classes are faults in what an outcome means.
var classes = []mutant{
	{
		name: "A 429 is a failure like any other",
		file: "classify.go", old: `case http.StatusTooManyRequests: return Throttled`, new: `case http.StatusTooManyRequests: return Transient`,
		tests: `TestStatuses`,
	},
	{
		name: "A method that the server does not implement is retried",
		file: "classify.go", old: `case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,`, new: `case http.StatusHTTPVersionNotSupported,`,
		tests: `TestStatuses`,
	},
	{
		name: "A 425 is not retried",
		file: "classify.go", old: `http.StatusTooEarly:`, new: `http.StatusTeapot:`,
		tests: `TestStatuses`,
	},
	{
		name: "A plain 500 is not retried",
		file: "classify.go", old: `case status >= 500:`, new: `case status > 500:`,
		tests: `TestStatuses`,
	},
	{
		name: "SlowDown is no throttling code",
		file: "classify.go", old: `"SlowDown", `, new: ``,
		tests: `TestVectorsErrorCodes`,
	},
	{
		name: "A code counts with any status, although its rule names one",
		file: "rules.go", old: `if a.Code == "" || r.status != 0 && a.Response.StatusCode != r.status {`, new: `if a.Code == "" {`,
		tests: `TestBotocoreTable|TestVectorsErrorCodes`,
	},
	{
		name: "A rule for a header speaks of successes, too",
		file: "rules.go", old: `if a.Response == nil || a.Response.StatusCode < 400 {`, new: `if a.Response == nil {`,
		tests: `TestOnHeader`,
	},
	{
		name: "A rule for a header takes upper case for another value",
		file: "rules.go", old: `strings.EqualFold(values[0], r.value)`, new: `values[0] == r.value`,
		tests: `TestOnHeader`,
	},
	{
		name: "A rule for any value of a header wants an empty one",
		file: "rules.go", old: `(r.value == "" || strings.EqualFold(values[0], r.value))`, new: `strings.EqualFold(values[0], r.value)`,
		tests: `TestOnHeader`,
	},
	{
		name: "A rule for a status below 400 is never asked",
		file: "rules.go", old: `return !slices.ContainsFunc(r.statuses, func(status int) bool { return status < 400 })`, new: `return true`,
		tests: `TestFailuresBelow400`,
	},
	{
		name: "A rule for an error does not see it inside another",
		file: "rules.go", old: `return errors.Is(err, target)`, new: `return err == target`,
		tests: `TestOneRuleMore|ExampleOnError|TestOddVerdicts`,
	},
	{
		name: "A bad certificate is tried again",
		file: "hopeless.go", old: `errors.As(err, &certificate),`, new: `errors.As(err, &certificate) && false,`,
		tests: `TestErrors|TestFaults`,
	},
	{
		name: "A certificate for another host is tried again",
		file: "hopeless.go", old: `errors.As(err, &hostname),`, new: `errors.As(err, &hostname) && false,`,
		tests: `TestErrors`,
	},
	{
		name: "A name server's failure for the moment is final",
		file: "hopeless.go", old: `errors.As(err, &dns) && dns.IsNotFound`, new: `errors.As(err, &dns)`,
		tests: `TestErrors`,
	},
	{
		name: "A host name that does not exist is tried again",
		file: "hopeless.go", old: `errors.As(err, &dns) && dns.IsNotFound`, new: `errors.As(err, &dns) && false`,
		tests: `TestErrors|TestNameThatDoesNotExist`,
	},
	{
		name: "TLS to a server that speaks none is tried again",
		file: "hopeless.go", old: `case errors.As(err, &notTLS), errors.Is(`, new: `case errors.As(err, &notTLS) && false, errors.Is(`,
		tests: `TestErrors|TestHopelessErrorsOfNetHTTP`,
	},
	{
		name: "A base that returns nothing is asked again",
		file: "hopeless.go", old: `errors.As(err, &contract) ||`, new: `errors.As(err, &contract) && false ||`,
		tests: `TestBaseThatBreaksItsContract`,
	},
	{
		name: "A body of another length than declared is sent again",
		file: "hopeless.go", old: `errors.As(err, &length) ||`, new: `errors.As(err, &length) && false ||`,
		tests: `TestGetBodyOfAnotherLength`,
	},
	{
		name: "A scheme that does not exist is tried again",
		file: "hopeless.go", old: `"unsupported protocol scheme",`, new: ``,
		tests: `TestHopelessErrorsOfNetHTTP`,
	},
	{
		name: "An answer that is not HTTP is tried again",
		file: "hopeless.go", old: `"malformed HTTP response",`, new: ``,
		tests: `TestHopelessErrorsOfNetHTTP|TestErrors`,
	},
	{
		name: "A time stamp refused by a clock that is behind is not retried",
		file: "hosts.go", old: `(measured - signed).Abs() > skewThreshold`, new: `measured-signed > skewThreshold`,
		tests: `TestVectorsClockSkewDecisions`,
	},
	{
		name: "A skew of exactly four minutes is believed",
		file: "hosts.go", old: `(measured - signed).Abs() > skewThreshold`, new: `(measured - signed).Abs() >= skewThreshold`,
		tests: `TestVectorsClockSkewDecisions`,
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
