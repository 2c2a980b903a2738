package retrip

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// What FuzzTransport expects of a request, whatever the settings were.

// inspect calls what only looks. None of it may panic.
func (z *fuzzer) inspect() {
	t := z.transport
	_, _ = t.Stats(), t.Vars()
	for k := range t.Keys() {
		_ = k
	}
	t.CloseIdleConnections()
	if z.strategy != nil {
		_ = z.strategy.Clone().String()
	}
}

// check checks the contract.
func (r *fuzzRequest) check(invalid error) {
	t, err := r.z.t, r.err
	if r.panicked != nil {
		r.checkPanic()
		return
	}
	if (r.resp == nil) == (err == nil) {
		t.Errorf("a response %v and an error %v", r.resp, err)
	}
	if r.resp != nil && r.resp.Request != r.req {
		t.Errorf("Response.Request is another")
	}
	if z := r.z; z.refused && r.calls > 0 {
		t.Errorf("sent although Prepare failed")
	}
	if r.calls > max(r.max, 0) {
		t.Errorf("%d attempts of at most %d", r.calls, r.max)
	}
	if ctxErr := r.ctx.Err(); r.ended && err != nil && !r.broken && invalid == nil &&
		!errors.Is(err, ctxErr) && !errors.Is(err, context.Cause(r.ctx)) {
		t.Errorf("the context has ended with %v, and the error is %v", ctxErr, err)
	}
	if lived := time.Duration(r.endedIn.Load()); r.took > lived {
		t.Errorf("RoundTrip takes %v, and the context has ended after %v", r.took, lived)
	}
	r.checkValidity(invalid)
	r.checkBodies()
	if r.calls > 0 || err != nil {
		r.checkQuota()
	}
}

// checkPanic checks what is left when the base has panicked.
func (r *fuzzRequest) checkPanic() {
	z := r.z
	if r.panicked != any(r) {
		z.t.Errorf("RoundTrip panics: %v", r.panicked)
	}
	for i, body := range r.sources {
		if n := body.Closes(); n > 1 || n == 0 {
			z.t.Errorf("source %d of %d was closed %d times", i, len(r.sources), n)
		}
	}
	if len(z.gives) > 0 {
		z.t.Errorf("the base panicked, and the quota was given %v for what may have been sent", z.gives)
	}
}

var fuzzKeyName = regexp.MustCompile(`PerKey\("[^"]*"\)`)

// checkValidity checks that Validate and RoundTrip agree on what makes sense.
func (r *fuzzRequest) checkValidity(invalid error) {
	t, text := r.z.t, fmt.Sprint(r.err)
	if invalid != nil && r.own != nil && !strings.Contains(invalid.Error(), "retrip: Transport.Base") {
		return // the context brings a strategy that may do
	}
	switch {
	case invalid == nil && !r.broken:
		if r.calls == 0 && r.ctx.Err() == nil && strings.Contains(text, ": use ") {
			t.Errorf("Validate finds nothing, and RoundTrip %v", r.err)
		}
		return
	case r.calls > 0:
		t.Errorf("sent in spite of %v, or a request that makes no sense", invalid)
	case r.err == nil || !strings.Contains(text, "retrip"):
		t.Errorf("the error does not tell whose it is: %v", r.err)
	case invalid != nil && r.req != nil && !r.broken:
		same := func(s string) string { return fuzzKeyName.ReplaceAllString(s, "PerKey") }
		if !strings.Contains(same(invalid.Error()), same(text)) { // which may leave out PerKey's part
			t.Errorf("Validate says %v, and RoundTrip %v", invalid, r.err)
		}
	}
}

// checkBodies checks that every body was closed once.
func (r *fuzzRequest) checkBodies() {
	for i, body := range r.sources {
		if n := body.Closes(); n != 1 {
			r.z.t.Errorf("source %d of %d was closed %d times", i, len(r.sources), n)
		}
	}
	if r.resp != nil && r.resp.Body != nil && string(r.got) != r.texts[len(r.texts)-1] {
		r.z.t.Errorf("the answer has %d bytes, not %d", len(r.got), len(r.texts[len(r.texts)-1]))
	}
	for i, body := range r.answers {
		if n := body.Closes(); n != 1 {
			r.z.t.Errorf("answer %d of %d was closed %d times", i, len(r.answers), n)
		}
	}
}

// succeeded reports whether the trace tells of a success.
func (r *fuzzRequest) succeeded() bool {
	if r.trace == nil || len(r.trace.Requests()) == 0 {
		return false
	}
	events := r.trace.Requests()[0]
	return len(events) > 0 && events[len(events)-1].Class == Success
}

// checkQuota checks what came back: a success gives what its attempt took, at
// least 1, a retry that was not sent what it took, and nothing else does.
func (r *fuzzRequest) checkQuota() {
	z := r.z
	s := z.strategy
	if r.own != nil {
		s = r.own
	}
	if s == nil {
		return
	}
	if _, noted := s.Quota.(*fuzzQuota); !noted {
		return
	}
	unsent := z.takes > max(r.calls-1, 0)
	switch n := len(z.gives); {
	case n > 1:
		z.t.Errorf("the quota gets %v", z.gives)
	case unsent && z.cost > 0 && (n == 0 || z.gives[0] != z.cost):
		z.t.Errorf("a retry that was not sent took %d, and gave %v", z.cost, z.gives)
	case r.succeeded() && (n == 0 || z.gives[0] != max(z.cost, 1)):
		z.t.Errorf("a success that took %d gives %v", z.cost, z.gives)
	case !unsent && n == 1 && r.resp == nil:
		z.t.Errorf("a failure gives %v", z.gives)
	case !unsent && n == 1 && z.gives[0] != max(z.cost, 1):
		z.t.Errorf("a success that took %d gives %v", z.cost, z.gives)
	}
}
