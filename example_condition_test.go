package retrip_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/retrip-go/retrip"
)

// A rule of one's own goes in front; the first opinion wins.
func ExampleOn() {
	s := quick()
	s.Classifiers = slices.Insert(s.Classifiers, 0,
		retrip.On(retrip.Transient, retrip.StatusIs(http.StatusNotFound)), // this API is eventually consistent
		retrip.On(retrip.Throttled, retrip.CodeIs("Throttling.User")),
	)
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: s}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}

// A function can look at the whole attempt.
func ExampleClassifierFunc() {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(retrip.ClassifierFunc(
		func(a retrip.Attempt) retrip.Class {
			if a.Response != nil && a.Response.Header.Get("X-Should-Retry") == "false" {
				return retrip.Permanent
			}
			return retrip.Unknown // no opinion
		})))
	fmt.Println(s.Classifiers[0].Classify(retrip.Attempt{
		Response: &http.Response{Header: http.Header{"X-Should-Retry": {"false"}}},
	}))
	// Output: permanent
}

// An error of one's own transport that is worth a retry, or is not.
func ExampleErrorIs() {
	errBusy := errors.New("the tunnel is busy")
	errClosed := errors.New("the tunnel is closed")
	s := retrip.Standard()
	s.Classifiers = append([]retrip.Classifier{
		retrip.On(retrip.Throttled, retrip.ErrorIs(errBusy)),
		retrip.On(retrip.Permanent, retrip.ErrorIs(errClosed)),
		retrip.On(retrip.Permanent, retrip.ErrorAs[*http.MaxBytesError]()),
	}, s.Classifiers...)
	fmt.Println(s.Classifiers[0].Classify(retrip.Attempt{Err: fmt.Errorf("sending: %w", errBusy)}))
	// Output: throttled
}

// A rule of several conditions.
func ExampleCondition() {
	limited := retrip.StatusIs(403, 429).And(retrip.HeaderIs("X-RateLimit-Remaining", "0").
		Or(retrip.FieldContains("message", "rate limit")))
	rule := retrip.On(retrip.Throttled, limited)
	fmt.Println(rule)
	fmt.Println(rule.Classify(retrip.Attempt{
		Response: &http.Response{StatusCode: 403}, Body: []byte(`{"message":"Secondary rate limit"}`),
	}))
	// Output:
	// throttled: status 403, 429 and (header X-RateLimit-Remaining: 0 or body message: …rate limit…)
	// throttled
}

// A condition of one's own can be combined like the others.
func ExampleConditionFunc() {
	plain := retrip.ConditionFunc("plain HTTP", func(a retrip.Attempt) bool { return a.Request.URL.Scheme == "http" })
	fmt.Println(retrip.On(retrip.Permanent, plain.And(retrip.StatusIs(503))))
	// Output: permanent: plain HTTP and status 503
}

// A service that documents its code as a refusal: a POST is sent again, too.
func ExampleUnprocessed() {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0,
		retrip.Unprocessed(retrip.On(retrip.Transient, retrip.CodeIs("QueueFull"))))
	fmt.Println(s.Classifiers[0])
	// Output: transient: code QueueFull (not processed)
}

// A list of rules of one's own: what none fits is a success below status 400,
// and permanent otherwise.
func ExampleTransportErrors() {
	s := retrip.Standard()
	s.Classifiers = []retrip.Classifier{
		retrip.On(retrip.Throttled, retrip.StatusIs(429)),
		retrip.On(retrip.Transient, retrip.StatusIs(502, 503, 504)),
		retrip.TransportErrors(),
	}
	fmt.Println(s.Classifiers[1])
	// Output: transient: status 502, 503, 504
}

// overloaded reads a status line's text, and only of failures.
type overloaded struct{}

func (overloaded) Classify(a retrip.Attempt) retrip.Class {
	if a.Response != nil && strings.HasSuffix(a.Response.Status, "Overloaded") {
		return retrip.Throttled
	}
	return retrip.Unknown
}

func (overloaded) FailuresOnly() bool { return true }

func ExampleFailureClassifier() {
	var rule retrip.FailureClassifier = overloaded{}
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(rule))
	fmt.Println(rule.Classify(retrip.Attempt{Response: &http.Response{StatusCode: 503, Status: "503 Overloaded"}}))
	// Output: throttled
}

// classOf is what a rule says of a status with headers ("Name: value") and a JSON
// body.
func classOf(rule retrip.Classifier, status int, body string, headers ...string) retrip.Class {
	resp := &http.Response{StatusCode: status, Header: http.Header{}}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		resp.Header.Add(name, value)
	}
	return rule.Classify(retrip.Attempt{Response: resp, Body: []byte(body)})
}

// Statuses that a gateway answers with while a server starts.
func ExampleStatusIs() {
	rule := retrip.On(retrip.Transient, retrip.StatusIs(404, 502))
	fmt.Println(classOf(rule, 404, ""), classOf(rule, 400, ""))
	// Output: transient unknown
}

// No status but those named ahead of it is worth a retry.
func ExampleStatusFrom() {
	s := retrip.Standard()
	s.Classifiers = []retrip.Classifier{
		retrip.On(retrip.Transient, retrip.StatusIs(503)),
		retrip.On(retrip.Permanent, retrip.StatusFrom(400)),
		retrip.TransportErrors(),
	}
	fmt.Println(classOf(s.Classifiers[1], 500, ""))
	// Output: permanent
}

// A server that is being maintained.
func ExampleHasHeader() {
	rule := retrip.On(retrip.Permanent, retrip.StatusIs(503).And(retrip.HasHeader("X-Maintenance-Mode")))
	fmt.Println(classOf(rule, 503, "", "X-Maintenance-Mode: until Monday"), classOf(rule, 503, ""))
	// Output: permanent unknown
}

// A header in which the server itself says whether to retry.
func ExampleHeaderIs() {
	rule := retrip.On(retrip.Permanent, retrip.HeaderIs("X-Should-Retry", "false", "no"))
	fmt.Println(classOf(rule, 500, "", "X-Should-Retry: No"))
	// Output: permanent
}

// An error code of a service. Events and logs show it, since a rule lists it.
func ExampleCodeIs() {
	s := quick()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Throttled, retrip.CodeIs("QuotaPerMinute")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"QuotaPerMinute"}`)
	}))
	defer server.Close()
	s.MaxAttempts, s.ThrottleBackoff = 2, nil
	transport := &retrip.Transport{Strategy: s, Observe: func(e retrip.Event) { fmt.Println(e.Class, e.Code) }}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// throttled QuotaPerMinute
	// throttled QuotaPerMinute
}

// A family of error codes.
func ExampleCodeContains() {
	rule := retrip.On(retrip.Throttled, retrip.CodeContains("Throttling."))
	fmt.Println(rule.Classify(retrip.Attempt{
		Response: &http.Response{StatusCode: 400}, Code: "Throttling.User",
	}))
	// Output: throttled
}

// A text in a JSON body.
func ExampleFieldIs() {
	rule := retrip.On(retrip.Permanent, retrip.StatusIs(429).And(retrip.FieldIs("error.type", "insufficient_quota")))
	fmt.Println(classOf(rule, 429, `{"error":{"type":"insufficient_quota"}}`))
	// Output: permanent
}

// A part of a text in a JSON body.
func ExampleFieldContains() {
	rule := retrip.On(retrip.Throttled, retrip.FieldContains("message", "rate limit", "too many"))
	fmt.Println(classOf(rule, 403, `{"message":"Too many requests from you"}`))
	// Output: throttled
}

// A failure that is worth a retry only if the server says when.
func ExampleHasHint() {
	retryAfter := retrip.HintHeader{Name: "Retry-After"}
	rule := retrip.On(retrip.Transient, retrip.StatusFrom(500).And(retrip.HasHint(retryAfter)))
	fmt.Println(classOf(rule, 500, "", "Retry-After: 5"), classOf(rule, 500, "", "Retry-After: soon"))
	// Output: transient unknown
}

// A type of error that the same request is bound to meet again.
func ExampleErrorAs() {
	rule := retrip.On(retrip.Permanent, retrip.ErrorAs[*http.MaxBytesError]())
	fmt.Println(rule.Classify(retrip.Attempt{Err: fmt.Errorf("sending: %w", &http.MaxBytesError{Limit: 10})}))
	// Output: permanent
}

// A certificate that can't be verified: our modes give up, some SDKs retry.
func ExampleAnyError() {
	attempt := retrip.Attempt{Err: &tls.CertificateVerificationError{Err: errors.New("expired")}}
	fmt.Println(retrip.TransportErrors().Classify(attempt), retrip.AnyError().Classify(attempt))
	// Output: permanent transient
}

// failedJob finds the failures that a service reports with status 200.
type failedJob struct{}

func (failedJob) Classify(a retrip.Attempt) retrip.Class {
	switch {
	case a.Response == nil || a.Response.Header.Get("X-Job") == "":
		return retrip.Unknown // no opinion: the rules behind it decide
	case a.Body == nil:
		return retrip.NeedsBody // and asks again when the body has come
	case bytes.Contains(a.Body, []byte(`"state":"failed"`)):
		return retrip.Transient
	}
	return retrip.Unknown
}

// A rule that looks into a body. The caller still gets the body whole.
func ExampleClassifier() {
	s := quick()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(failedJob{}))
	base := answer(200, `{"state":"failed"}`, "X-Job: 7")
	ctx, trace := retrip.WithTrace(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://jobs.example.com/7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: &retrip.Transport{Base: base, Strategy: s}}).Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(len(trace.Requests()[0]), "attempts:", string(body), err)
	// Output: 3 attempts: {"state":"failed"} <nil>
}

// A classifier may use all that an attempt has.
func ExampleAttempt() {
	rule := retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
		if a.Number == 1 && a.Response != nil && a.Response.StatusCode == http.StatusConflict {
			return retrip.Transient // the first time, another writer may just have been ahead
		}
		return retrip.Unknown
	})
	conflict := &http.Response{StatusCode: http.StatusConflict}
	fmt.Println(rule.Classify(retrip.Attempt{Number: 1, Response: conflict}))
	fmt.Println(rule.Classify(retrip.Attempt{Number: 2, Response: conflict}))
	// Output:
	// transient
	// unknown
}

// full is a queue's answer. The queue documents that it took nothing then.
type full struct{}

func (full) Classify(a retrip.Attempt) retrip.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusInsufficientStorage {
		return retrip.Transient
	}
	return retrip.Unknown
}

func (full) Unprocessed(retrip.Attempt) bool { return true }

// A POST is repeated, since the rule that decides proves that it was not processed.
func ExampleUnprocessedClassifier() {
	var rule retrip.UnprocessedClassifier = full{}
	s := quick()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.Classifier(rule))
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusInsufficientStorage)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &retrip.Transport{Strategy: s}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("job"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}

// What the outcome of an attempt means, in the words of logs and metrics.
func ExampleClass() {
	fmt.Println(retrip.Transient, retrip.Throttled, retrip.ClockSkewed, retrip.Permanent)
	// Output: transient throttled clock-skewed permanent
}
