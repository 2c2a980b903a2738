// Package otelretrip tells OpenTelemetry what a retrip.Transport does.
//
//	transport, err := otelretrip.Wrap(&retrip.Transport{}, otelretrip.Options{})
//	if err != nil {
//		return err
//	}
//	client := &http.Client{Transport: transport}
//
// Wrap gives one span per request with an event per attempt, a client span per
// attempt below it, the trace context in each attempt's headers, and metrics.
// NewMetrics gives the metrics alone. If otelhttp makes the spans of attempts,
// put ResendCount below it and set Options.AttemptsElsewhere:
//
//	t := &retrip.Transport{Base: otelhttp.NewTransport(otelretrip.ResendCount(http.DefaultTransport))}
//	transport, err := otelretrip.Wrap(t, otelretrip.Options{AttemptsElsewhere: true})
//
// # Metrics
//
// Each has server.address and server.port; the further attributes are in
// parentheses.
//
//	http.client.request.duration  s   attempts, up to their response headers; of the semantic
//	                                  conventions (http.request.method,
//	                                  http.response.status_code, error.type)
//	retrip.attempts                   attempts sent (retrip.class)
//	retrip.retries                    attempts sent that were not the first of their request
//	retrip.give_ups                   requests that ended without a success (retrip.reason)
//	retrip.request.duration       s   requests, with all attempts and waits (retrip.outcome)
//	retrip.request.attempts           attempts it took per request (retrip.outcome)
//	retrip.wait                   s   waits before retries (retrip.wait.from)
//	retrip.admission.delay        s   waits for the limiter, where there was one
//	retrip.quota.tokens               what the quota has, for retries
//	retrip.quota.doubt                failures that a gate counts against the server
//	retrip.quota.shut                 1 while they stop retries, otherwise 0
//	retrip.limiter.rate               attempts per second that the limiter allows, once it limits
//	retrip.limiter.waiting            attempts in the limiter's queue
//
// retrip.class and retrip.reason are in the words of retrip.Class and
// retrip.Reason. retrip.wait.from is "backoff", "limiter" or "server". error.type
// is a status from 400 on or what retrip.Event.ErrorKind says. retrip.outcome is
// how the request ended:
//
//	success    at the first attempt
//	recovered  after a retry
//	failed     with an error, or a response that stands for one
//	timeout    the caller's deadline passed
//	rejected   with a 4xx that a retry cannot help: the request is wrong
//	cancelled  by the caller
//
// The gauges are of a server if a key is; the lowest quota, the lowest rate and
// the sum of the waiting if several keys are of one server (Transport.Key).
// They have no server where the state is all requests' (Transport.Strategy).
//
// # What is never told
//
// No user, path, query, header, body or text of an error, and no error code
// that no classifier lists. A path is told only by Options.URLFull. otelhttp
// has rules of its own: it puts URLs and the texts of errors into its spans.
package otelretrip
