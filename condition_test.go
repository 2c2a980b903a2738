package retrip_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

func TestConditions(t *testing.T) {
	json := http.Header{"Content-Type": {"application/json"}, "X-Limit": {"Reached", "other"}, "Empty": {""}, "Retry-After": {"5"}}
	throttled := retrip.Attempt{Response: &http.Response{StatusCode: 429, Header: json}, Code: "Throttling.User",
		Body: []byte(`{"error":{"code":"busy","text":"Too MANY requests","n":1,"nil":null}}`)}
	bare := retrip.Attempt{Response: &http.Response{StatusCode: 503}}
	failed := retrip.Attempt{Err: errors.Join(errors.New("other"), io.ErrUnexpectedEOF)}
	retryAfter := retrip.HintHeader{Name: "Retry-After"}
	for _, row := range []struct {
		condition              retrip.Condition
		throttled, bare, fails bool
	}{
		{retrip.StatusIs(408, 429), true, false, false},
		{retrip.StatusIs(), false, false, false},
		{retrip.StatusFrom(500), false, true, false},
		{retrip.HasHeader("x-limit"), true, false, false},
		{retrip.HasHeader("empty"), true, false, false},
		{retrip.HeaderIs("X-Limit", "x", "reached"), true, false, false},
		{retrip.HeaderIs("X-Limit", "other"), false, false, false}, // the second line
		{retrip.CodeIs("Throttling", "Throttling.User"), true, false, false},
		{retrip.CodeIs("throttling.user", ""), false, false, false},
		{retrip.CodeContains("User"), true, false, false},
		{retrip.CodeContains(""), true, false, false},
		{retrip.FieldIs("error.code", "x", "busy"), true, false, false},
		{retrip.FieldIs("error.n", "1"), false, false, false}, // a number is no text
		{retrip.FieldIs("error.nil", ""), false, false, false},
		{retrip.FieldIs("code", "busy"), false, false, false},
		{retrip.FieldContains("error.text", "x", "Many Req"), true, false, false},
		{retrip.HasHint(retryAfter), true, false, false},
		{retrip.ErrorIs(io.ErrUnexpectedEOF), false, false, true},
		{retrip.ErrorIs(io.EOF), false, false, false},
		{retrip.ErrorAs[interface {
			error
			Unwrap() []error
		}](), false, false, true},
		{retrip.ConditionFunc("always", func(retrip.Attempt) bool { return true }), true, true, true},
		{retrip.StatusIs(429).And(retrip.HasHeader("X-Limit")), true, false, false},
		{retrip.StatusIs(503).And(retrip.HasHeader("X-Limit")), false, false, false},
		{retrip.StatusIs(503).Or(retrip.HasHeader("X-Limit")), true, true, false},
		{retrip.StatusIs(503).Or(retrip.ErrorIs(io.ErrUnexpectedEOF)), false, true, true},
		{retrip.Condition{}, false, false, false},
		{retrip.Condition{}.Or(retrip.StatusIs(503)), false, true, false},
	} {
		rule := retrip.On(retrip.Transient, row.condition)
		for name, try := range map[string]struct {
			attempt retrip.Attempt
			want    bool
		}{"throttled": {throttled, row.throttled}, "bare": {bare, row.bare}, "failed": {failed, row.fails}} {
			require.Equal(t, try.want, rule.Classify(try.attempt) == retrip.Transient, "%v: %s", rule, name)
		}
	}
}

// Only a condition that names a status below 400 makes a rule look at a success.
func TestConditionsBelow400(t *testing.T) {
	pending := retrip.Attempt{Response: &http.Response{StatusCode: 202, Header: http.Header{"Job": {"pending"}}}}
	for _, row := range []struct {
		condition retrip.Condition
		want      bool
	}{
		{retrip.HeaderIs("Job", "pending"), false},
		{retrip.StatusFrom(400).Or(retrip.HasHeader("Job")), false},
		{retrip.StatusIs(202), true},
		{retrip.StatusFrom(200), true},
		{retrip.StatusIs(202).And(retrip.HeaderIs("Job", "pending")), true},
		{retrip.HeaderIs("Job", "done").And(retrip.StatusIs(202)), false},
	} {
		rule := retrip.On(retrip.Transient, row.condition)
		require.Equal(t, row.want, rule.Classify(pending) == retrip.Transient, rule)
		if !row.want {
			continue
		}
		require.False(t, rule.(retrip.FailureClassifier).FailuresOnly(), rule)
		base := script(answer(202, "", "Job: pending"))
		_, err := (&retrip.Transport{Strategy: immediately(asking(rule)), Base: base}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.Len(t, base.Sent(), 3, rule)
	}
}

func TestConditionsThatMakeNoSense(t *testing.T) {
	retryAfter, nameless := retrip.HintHeader{Name: "Retry-After"}, retrip.HintHeader{}
	busy := retrip.StatusIs(503)
	for want, classifier := range map[string]retrip.Classifier{
		"has no header name":        retrip.On(retrip.Permanent, busy.And(retrip.HasHeader(""))),
		"has no condition":          retrip.On(retrip.Permanent, retrip.Condition{}),
		"has no condition: use":     retrip.On(retrip.Permanent, busy.Or(retrip.ConditionFunc("", nil))),
		"has no path":               retrip.On(retrip.Permanent, retrip.FieldIs("", "x")),
		"has the class":             retrip.On(77, busy),
		"is nil":                    retrip.On(retrip.Permanent, retrip.HasHint(nil)),
		"no header name":            retrip.On(retrip.Permanent, retrip.HasHint(nameless)),
		"Classifiers[0] is nil":     retrip.Unprocessed(nil),
		"Classifiers[0] has no con": retrip.Unprocessed(retrip.On(retrip.Permanent, retrip.Condition{})),
	} {
		s := retrip.Standard()
		s.Classifiers = []retrip.Classifier{classifier}
		require.ErrorContains(t, (&retrip.Transport{Strategy: s}).Validate(), want)
	}
	for want, hint := range map[string]retrip.HintReader{
		"has no condition":       retrip.HintWhen(retrip.Condition{}, retryAfter),
		"has no header name":     retrip.HintWhen(busy, nameless),
		"Hints[0] is nil":        retrip.HintWhen(busy, nil),
		"Hints[0] has no path":   retrip.HintField(""),
		"has a MaxExcess of -1s": retrip.HintWhen(busy, retrip.HintHeader{Name: "A", MaxExcess: -time.Second}),
	} {
		s := retrip.Standard()
		s.Hints = []retrip.HintReader{hint}
		require.ErrorContains(t, (&retrip.Transport{Strategy: s}).Validate(), want)
	}
}

// A code that a rule lists is proof of throttling; another sign in the same
// condition is none. Unprocessed makes any rule one that proves.
func TestProofByRule(t *testing.T) {
	const code = "Busy"
	by503 := retrip.StatusIs(503)
	for name, row := range map[string]struct {
		rule retrip.Classifier
		sent int
	}{
		"no rule":              {retrip.On(retrip.Permanent, retrip.StatusIs(418)), 1},
		"status":               {retrip.On(retrip.Throttled, by503), 1},
		"code":                 {retrip.On(retrip.Throttled, retrip.CodeIs(code)), 3},
		"code, transient":      {retrip.On(retrip.Transient, retrip.CodeIs(code)), 1},
		"code, contains":       {retrip.On(retrip.Throttled, retrip.CodeContains(code)), 1},
		"status and code":      {retrip.On(retrip.Throttled, by503.And(retrip.CodeIs(code))), 3},
		"code and status":      {retrip.On(retrip.Throttled, retrip.CodeIs(code).And(by503)), 3},
		"status or code":       {retrip.On(retrip.Throttled, by503.Or(retrip.CodeIs(code))), 3},
		"status or other code": {retrip.On(retrip.Throttled, by503.Or(retrip.CodeIs("Other"))), 1},
		"status or code elsewhere": {
			retrip.On(retrip.Throttled, by503.Or(retrip.CodeIs(code).And(retrip.StatusIs(500)))), 1},
		"unprocessed status": {retrip.Unprocessed(retrip.On(retrip.Transient, by503)), 3},
		"unprocessed, elsewhere": {
			retrip.Unprocessed(retrip.On(retrip.Transient, retrip.StatusIs(500))), 1},
	} {
		base := script(answer(503, "", "X-Amzn-Errortype: "+code))
		transport := &retrip.Transport{Strategy: immediately(asking(row.rule)), Base: base}
		_, err := transport.RoundTrip(newRequest(t, "POST", strings.NewReader("order")))
		require.NoError(t, err)
		require.Len(t, base.Sent(), row.sent, name)
	}
}

// The error of a request body proves nothing, also if a rule takes it for proof.
func TestProofByRuleAndTheBody(t *testing.T) {
	failed := errors.New("refused")
	for name, row := range map[string]struct {
		body string
		sent int
	}{"not read": {"", 3}, "of the body": {"order", 1}} {
		sent := 0
		s := immediately()
		s.Classifiers = []retrip.Classifier{retrip.Unprocessed(retrip.On(retrip.Transient, retrip.ErrorIs(failed)))}
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) {
			sent++
			if row.body != "" {
				_, err := io.Copy(io.Discard, req.Body)
				return nil, err
			}
			return nil, failed
		})}
		req := newRequest(t, "POST", iotest.ErrReader(failed))
		if row.body != "" {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(failed)), nil }
		}
		_, err := transport.RoundTrip(req)
		require.ErrorIs(t, err, failed)
		require.Equal(t, row.sent, sent, name)
	}
}

// An event shows an error code if a rule lists it, whichever rule decided.
func TestEventsShowListedCodesOnly(t *testing.T) {
	own := retrip.On(retrip.Permanent, retrip.HasHeader("X-Amzn-Errortype"))
	for code, want := range map[string]string{"ThrottlingException": "ThrottlingException", "Listed": "Listed", "Secret": ""} {
		var shown []string
		listing := retrip.Unprocessed(retrip.On(retrip.Transient, retrip.CodeIs("Listed")))
		transport := &retrip.Transport{
			Strategy: immediately(asking(listing), asking(own)),
			Observe:  func(e retrip.Event) { shown = append(shown, e.Code) },
			Base:     script(answer(400, "", "X-Amzn-Errortype: "+code)),
		}
		_, err := transport.RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.Equal(t, []string{want}, shown)
	}
}
