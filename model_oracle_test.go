package retrip

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
)

// check compares what happened with what may happen.
func (s *modelScript) check() {
	var taken, given, innerTaken, innerGiven int64
	add := func(taken, given *int64, took, gave int64) { *taken, *given = *taken+took, *given+gave }
	for _, r := range s.requests {
		r.count()
		if !r.checkEvents() {
			continue
		}
		r.check()
		took, gave := r.account(r.events, s.mode)
		add(&taken, &given, took, gave)
		took, gave = r.account(r.inner, s.mode)
		add(&innerTaken, &innerGiven, took, gave)
	}
	if len(s.wrongs) > 0 {
		return
	}
	if s.ledger.gate != nil {
		s.checkGate()
	} else {
		s.checkLedger(s.ledger, taken, given)
	}
	if s.stack != nil {
		s.checkLedger(s.stack.ledger, innerTaken, innerGiven)
	}
	for _, p := range s.strategies {
		if l := p.Limiter; l != nil && (l.retries != queue{} || l.firsts != queue{} || l.tokens < 0 || l.tokens > max(l.burst, 0)) {
			s.wrongs = append(s.wrongs, fmt.Sprintf("the limiter is not at rest: %+v", l.State()))
		}
	}
}

// count adds the request to the tally.
func (r *modelRequest) count() {
	tally := r.script.tally
	tally["requests"]++
	tally["retries"] += max(len(r.deliveries)-1, 0)
	if r.script.stack != nil {
		tally["stacked over "+r.script.stack.layer.String()]++
	}
	if !r.endedAt.IsZero() {
		tally["ended at "+r.endAt.String()]++
	}
	switch {
	case r.panicked != nil:
		tally["end: panic"]++
	case len(r.events) > 0:
		last := r.events[len(r.events)-1]
		tally["end: "+last.Reason.String()]++
		if last.WaitFrom == "limiter" && last.Reason != 0 {
			tally["end: limiter, "+last.Reason.String()]++
		}
	}
}

// check checks one request.
func (r *modelRequest) check() {
	r.checkContextError()
	r.checkLate()
	r.checkClosed()
	if r.panicked != nil {
		if r.panicked != (modelPanic{r.id}) {
			r.wrong("RoundTrip panics with %v", r.panicked)
		}
		return
	}
	if (r.resp == nil) == (r.err == nil) {
		r.wrong("neither or both of a response and an error")
	}
	if r.script.stack != nil {
		r.checkStack(r.script.stack)
		return
	}
	last := r.events[len(r.events)-1]
	if !r.justified(last) {
		r.wrong("nothing justifies the end: %v", last.Reason)
	}
	r.checkAttempts()
	r.checkResult(last)
	r.checkGaps()
}

func (s *modelScript) checkLedger(l *modelLedger, taken, given int64) {
	if l.taken.Load() != taken || l.given.Load() != given {
		s.wrongs = append(s.wrongs, fmt.Sprintf("by the events, %d tokens were taken and %d given; in fact %d and %d",
			taken, given, l.taken.Load(), l.given.Load()))
	} else if have, want := l.Tokens(), modelTokens-int(taken)+int(given); !s.small && have != want {
		s.wrongs = append(s.wrongs, fmt.Sprintf("the bucket has %d tokens, not %d", have, want))
	}
}

// checkEvents checks their form: one for each attempt, and one that is final.
// An attempt whose base panics has none.
func (r *modelRequest) checkEvents() bool {
	sent, attempts := 0, len(r.deliveries)
	for i, e := range r.events {
		if !e.Sent.IsZero() {
			sent++
		}
		final := i == len(r.events)-1 && r.panicked == nil
		if e.Final != final || e.Attempt != sent || e.Final == (e.Reason == 0 && e.Class != Success) {
			r.wrong("event %d makes no sense", i)
			return false
		}
	}
	if r.panicked != nil {
		attempts--
	} else if len(r.events) == 0 {
		r.wrong("no events")
		return false
	}
	if sent != attempts && r.script.stack == nil {
		r.wrong("%d events for %d attempts", len(r.events), attempts)
		return false
	}
	return true
}

// checkContextError checks that an error after the end of the caller's context
// tells so, whatever noticed it first.
func (r *modelRequest) checkContextError() {
	if r.ended && r.err != nil && !errors.Is(r.err, r.ctx.Err()) && !errors.Is(r.err, context.Cause(r.ctx)) {
		r.wrong("the context has ended with %v, and the error is %v", r.ctx.Err(), r.err)
	}
}

// timedOut reports whether an event is of an attempt that took too long.
func timedOut(e Event) bool {
	_, ok := e.Err.(*AttemptTimeoutError)
	return ok
}

// checkAttempts checks that every retry was allowed and worth it.
func (r *modelRequest) checkAttempts() {
	if len(r.deliveries) > r.max {
		r.wrong("%d attempts, at most %d allowed", len(r.deliveries), r.max)
	}
	var directed time.Duration
	for i, d := range r.deliveries {
		e, class := r.events[i], d.class()
		if timedOut(e) {
			class = Transient
		}
		if e.Class != class && !r.ended {
			r.wrong("attempt %d is %v, not %v", d.number, e.Class, class)
		}
		if e.Final {
			break
		}
		if due := e.Done.Sub(r.began) + e.Wait; r.deadline > 0 && due > r.deadline {
			r.wrong("the wait after attempt %d outlives the deadline", d.number)
		}
		if e.WaitFrom == "Retry-After" {
			directed += e.Wait
		}
		if directed > maxServerWait {
			r.wrong("the server was obeyed for %v", directed)
		}
		if class != Transient && class != Throttled {
			r.wrong("attempt %d needed no retry", d.number)
		}
		if i == len(r.deliveries)-1 {
			break // the retry was not sent
		}
		if r.wrapped() && r.kind != bodyFile && !r.script.prepare.reads() && d.read > int(r.script.transport.ReplayBuffer) {
			r.wrong("%d bytes were kept of attempt %d's body", d.read, d.number)
		}
		if !r.safe() && (timedOut(e) || !d.proven()) {
			r.wrong("delivered again after attempt %d, which may have been processed", d.number)
		}
	}
}

// justified reports whether the request had to end so. It is all of the
// documentation's rules, read backwards.
func (r *modelRequest) justified(e Event) bool {
	d := new(modelDelivery)
	if n := len(r.deliveries); n > 0 {
		d = r.deliveries[n-1]
	}
	switch e.Reason {
	case 0:
		return d.err == nil && d.fault.class == Success && r.err == nil
	case AttemptsExhausted:
		return len(r.deliveries) == r.max
	case QuotaExhausted:
		if r.script.ledger.gate != nil {
			return r.gateRefused
		}
		return r.script.small && r.script.ledger.refused.Load() > 0
	case NotRetryable:
		return d.err == nil && d.fault.class == Permanent || r.ended
	case NotIdempotent: // an error may be that of the body, unless that is in memory
		mayBeBody := r.reopens() || r.kind == bodyFails || r.script.prepare.replaces() && r.kind != bodyNone || d.err == d.bodyErr
		return !r.safe() && (!d.fault.proof || timedOut(e) || d.err != nil && mayBeBody)
	case BodyNotReplayable:
		return r.wrapped() && (r.ended || r.unreplayable())
	case WaitOverCap:
		var asked time.Duration
		for _, d := range r.deliveries {
			asked = plus(asked, d.fault.hint)
		}
		return asked > maxServerWait || r.script.mode == ModeAdaptive && e.WaitFrom == "limiter"
	case WaitOverDeadline:
		return r.deadline > 0 && r.returned.Add(e.Wait).Sub(r.began) >= r.deadline
	case Cancelled:
		return r.ended
	case PrepareFailed:
		return r.refusedBy != nil && errors.Is(r.err, r.refusedBy)
	}
	return false
}

// unreplayable reports whether the body may have had to be given up.
func (r *modelRequest) unreplayable() bool {
	switch r.kind {
	case bodySlower, bodyDuplex, bodyFails, bodyBlocked, bodyDeaf:
		return true
	case bodyOver:
		return r.sources[0].position > int(r.script.transport.ReplayBuffer)
	case bodyFile:
		return r.touched > 0 && r.returned.Sub(r.began) >= r.touched
	}
	return false
}

// checkResult checks that the caller got the last attempt's outcome.
func (r *modelRequest) checkResult(last Event) {
	d := new(modelDelivery)
	if n := len(r.deliveries); n > 0 {
		d = r.deliveries[n-1]
	}
	got := d.gotResponse() && !timedOut(r.events[max(len(r.deliveries)-1, 0)])
	switch {
	case got && r.resp == nil && !last.Sent.IsZero():
		r.wrong("the last response is lost")
	case got && r.resp == nil && !r.ended && last.Reason != PrepareFailed:
		r.script.tally["response lost for "+last.Reason.String()]++
		r.wrong("the last response is lost for %v", last.Reason)
	case got && r.resp != nil && r.resp.StatusCode != d.fault.status:
		r.wrong("the response is not the last one")
	case !got && r.resp != nil:
		r.wrong("a response from nowhere")
	}
	var e *Error
	switch {
	case r.err == nil:
	case last.Sent.IsZero():
		if !errors.As(r.err, &e) || e.Reason != last.Reason || e.Attempts != len(r.deliveries) {
			r.wrong("the error does not tell why the request ended")
		}
	case d.err != nil && !r.ended && !timedOut(last) && !errors.Is(r.err, d.err):
		r.wrong("the last error is lost")
	}
}

// checkLate checks that nothing outlives the caller's context.
func (r *modelRequest) checkLate() {
	var grace time.Duration
	if !r.wrapped() || r.script.prepare == prepareSniff || r.script.prepare == prepareRewind {
		grace = r.pace // the base or Prepare reads the source itself, and waits for it
	}
	for _, limit := range []time.Duration{r.deadline, r.cancel, r.endedAt.Sub(r.began)} {
		if late := r.returned.Sub(r.began) - limit; limit > 0 && late > grace {
			r.wrong("%v late", late)
		}
	}
}

// checkGaps checks that no attempt is early or late.
func (r *modelRequest) checkGaps() {
	for i, d := range r.deliveries[:max(len(r.deliveries)-1, 0)] {
		next, wait, admit := r.deliveries[i+1].began, r.events[i].Wait, r.events[i+1].LimiterWait
		if len(r.prepared) > 0 {
			next = r.prepared[i+1]
		}
		gap := next.Sub(d.ended)
		if gap < wait || gap < d.fault.hint && d.err == nil && !timedOut(r.events[i]) {
			r.wrong("attempt %d comes after %v", i+2, gap)
		}
		longest := max(wait, discardTime) + admit
		if strings.Contains(d.fault.header, "json") {
			longest += peekTime
		}
		if r.wrapped() {
			longest += replay.Grace
		}
		if gap > longest {
			r.wrong("attempt %d comes only after %v", i+2, gap)
		}
	}
}

// checkClosed checks that every body was closed once, and no discarded one
// read for long.
func (r *modelRequest) checkClosed() {
	open := func(what string) {
		if r.panicked != nil {
			r.wrong("%s was not closed", what)
		} else {
			r.wrong("%s was not closed", what)
		}
	}
	for i, source := range r.sources {
		if n := source.closes.Load(); n == 0 {
			open(fmt.Sprintf("source %d", i))
		} else if n > 1 && r.panicked == nil { // a base that panics may have closed it or not
			r.wrong("source %d was closed %d times", i, n)
		}
	}
	if r.osFile != nil {
		if _, err := r.osFile.Stat(); !errors.Is(err, os.ErrClosed) {
			open("the file")
		}
	}
	for i, d := range r.deliveries {
		if d.answer == nil {
			continue
		}
		if n := d.answer.closes.Load(); n != 1 {
			r.wrong("the answer to attempt %d was closed %d times", d.number, n)
		}
		if n := d.answer.read.Load(); n > readAhead && (i < len(r.deliveries)-1 || r.resp == nil) {
			r.wrong("%d bytes were read of the answer to attempt %d", n, d.number)
		}
	}
}

// account tells what the events say was taken from the quota and given back.
func (r *modelRequest) account(events []Event, mode Mode) (taken, given int64) {
	var paid int64
	for _, e := range events {
		switch {
		case e.Sent.IsZero():
			given += paid // the retry was called off
		case e.Class == Success:
			given += max(paid, 1)
		}
		if paid = 0; !e.Final {
			paid = 5
			if e.Class == Throttled && mode == ModeLegacy {
				paid = 0
			}
		}
		taken += paid
	}
	return taken, given // what was paid is gone if the base panicked: it may have sent the request
}

// The model can't tell permits apart, so this asks for two in a row: the second
// request gets its permit at once only if the first gives its own back.
func TestModelPermitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play := status(429)
		s := Adaptive()
		s.MaxAttempts = 1
		transport := &Transport{
			Strategy: s,
			Base:     step(func(req *http.Request) (*http.Response, error) { return play(req) }),
		}
		send := func() error { _, err := get(t.Context(), transport); return err }
		calls := 0
		transport.Prepare = func(*http.Request, PrepareInfo) error {
			if calls++; calls == 2 {
				return errFuzzPrepare
			}
			return nil
		}
		require.NoError(t, send())
		time.Sleep(time.Minute) // until one permit is there, which is all that is kept
		require.ErrorIs(t, send(), ErrPrepareFailed)
		play = status(200)
		begun := time.Now()
		require.NoError(t, send())
		require.Zero(t, time.Since(begun))
	})
}
