package retrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A modelDelivery is one call of the base.
type modelDelivery struct {
	r       *modelRequest
	number  int
	fault   modelFault
	req     *http.Request
	body    io.ReadCloser
	content []byte // what the body must be
	began   time.Time
	ended   time.Time
	answer  *modelAnswer
	err     error // what the base returned,
	byFault bool  // which is what its fault says

	reached  chan struct{} // closed when so many bytes are read that an early fault happens
	done     chan struct{} // closed when the reader is through
	bodyErr  error         // why, if the body did not end
	whole    bool
	read     int
	answered atomic.Bool
	breaking sync.Once
	broken   chan struct{} // closed when the connection is
	stopped  atomic.Bool
	closing  sync.Once
}

func (d *modelDelivery) String() string {
	f := &d.fault
	return fmt.Sprintf("%d: %s (early %v after %d, think %v, h2 %v, reads on %v, afterward %d after %v), returned after %v: %v",
		d.number, f.name, f.early, f.after, f.think, f.http2, f.readsOn, f.afterward, f.linger, d.ended.Sub(d.began), d.err)
}

// proven reports whether it is proven that the attempt was not processed.
func (d *modelDelivery) proven() bool { return d.fault.proof && (d.err == nil || d.byFault) }

// gotResponse reports whether the base returned one, and nothing else.
func (d *modelDelivery) gotResponse() bool {
	return d.err == nil && d.fault.status != 0 && !d.fault.panics && !d.fault.neither
}

// class is what the outcome means.
func (d *modelDelivery) class() Class {
	if d.err != nil {
		return Transient
	}
	return d.fault.class
}

// RoundTrip is the base.
func (s *modelScript) RoundTrip(req *http.Request) (*http.Response, error) {
	r := modelRequestOf(req)
	if req.URL.Path == modelTokenPath {
		return r.serveToken(req), nil
	}
	d := &modelDelivery{
		r: r, number: int(r.attempts.Add(1)), req: req, body: req.Body, began: time.Now(),
		reached: make(chan struct{}), done: make(chan struct{}), broken: make(chan struct{}),
	}
	d.fault = r.faults[(d.number-1)%len(r.faults)]
	r.mu.Lock()
	if n := len(r.deliveries); n > 0 && r.deliveries[n-1].ended.IsZero() {
		defer r.wrong("attempt %d begins before the one before has ended", d.number)
	}
	r.deliveries = append(r.deliveries, d)
	r.mu.Unlock()
	r.at(stepSend)
	d.checkRequest()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		d.ended = time.Now()
	}()
	resp, err := d.play()
	d.err = err
	r.at(stepReturn)
	return resp, err
}

// checkRequest checks the request that the base gets.
func (d *modelDelivery) checkRequest() {
	r, s := d.r, d.r.script
	if s.prepare != prepareNothing && s.stack == nil && d.req.Header.Get("Prepared") != strconv.Itoa(d.number) {
		r.wrong("attempt %d is not prepared", d.number)
	}
	if r.refusedBy != nil {
		r.wrong("attempt %d is sent although Prepare failed", d.number)
	}
	// An inner Transport opens the body before its wait, and can't see a change.
	if s.stack == nil && r.touched > 0 && d.number > 1 && d.began.Sub(r.began) > r.touched {
		r.wrong("attempt %d is sent although the file has changed", d.number)
	}
	content, body := r.sent()
	if hasBody(d.req) != body {
		r.wrong("attempt %d has body %v", d.number, d.req.Body)
	}
	d.content = content
	// Over HTTP/1, net/http waits for a Read of the body under way. Where it reads
	// the caller's own source, the Transport can't change that, so the model
	// doesn't wait for a source that takes long.
	if hasBody(d.req) && !r.wrapped() {
		d.fault.http2 = d.fault.http2 || r.kind >= bodySlower
	}
}

// A modelPanic is what a base panics with.
type modelPanic struct{ request int }

// play lets the fault happen.
func (d *modelDelivery) play() (*http.Response, error) {
	f, ctx := &d.fault, d.req.Context()
	if f.panics && f.early {
		close(d.done)
		panic(modelPanic{d.r.id})
	}
	if hasBody(d.req) && !f.dial {
		go d.readBody()
	} else {
		d.closeBody()
		close(d.done)
	}
	context.AfterFunc(ctx, d.breakOff)
	d.waitFor(ctx)
	if ctx.Err() != nil && (!f.careless || f.hang || d.r.ctx.Err() != nil) {
		if f.ownError {
			return nil, d.fail(errModelOwn)
		}
		return nil, d.fail(context.Cause(ctx))
	}
	select {
	case <-d.done:
		if d.bodyErr != nil {
			return nil, d.fail(d.bodyErr)
		}
	default:
	}
	switch {
	case f.panics:
		_ = d.fail(nil)
		panic(modelPanic{d.r.id})
	case f.both:
		return d.respond(), f.err
	case f.neither:
		return nil, d.fail(nil)
	case f.err != nil:
		d.byFault = true
		return nil, d.fail(f.err)
	}
	return d.respond(), nil
}

// waitFor waits until the fault happens.
func (d *modelDelivery) waitFor(ctx context.Context) {
	f := &d.fault
	var moment <-chan time.Time
	reached := d.reached
	switch {
	case f.hang:
		<-ctx.Done()
	case f.early:
		timer := time.NewTimer(20 * time.Millisecond)
		defer timer.Stop()
		moment = timer.C
	default:
		reached = nil
	}
	select {
	case <-d.done:
	case <-reached:
	case <-moment:
	case <-ctx.Done():
	}
	if f.think > 0 {
		timer := time.NewTimer(f.think)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

var (
	errModelStopped = errors.New("the connection is broken")
	errModelOwn     = errors.New("an error of the base's own")
)

// fail ends the attempt. HTTP/1 waits for its reader, HTTP/2 does not.
func (d *modelDelivery) fail(err error) error {
	if !d.fault.http2 || !d.fault.readsOn {
		d.breakOff()
	}
	if !d.fault.http2 {
		<-d.done
	}
	d.askAgain()
	return err
}

func (d *modelDelivery) breakOff() {
	d.stopped.Store(true)
	d.breaking.Do(func() { close(d.broken) })
	if d.fault.http2 {
		go d.closeBody()
	}
}

// isReplayed reports whether a body is a reader of package replay.
func isReplayed(body io.ReadCloser) bool {
	return body != nil && reflect.TypeOf(body).String() == "*replay.reader"
}

// closeBody closes the body, once if it is the caller's own.
func (d *modelDelivery) closeBody() {
	if isReplayed(d.body) {
		_ = d.body.Close()
	} else if d.body != nil {
		d.closing.Do(func() { _ = d.body.Close() })
	}
}

// respond makes the answer. The body may be read on behind its back.
func (d *modelDelivery) respond() *http.Response {
	f := &d.fault
	d.answered.Store(true)
	switch f.afterward {
	case 1:
		time.AfterFunc(f.linger, func() { d.stopped.Store(true) })
	case 2:
		time.AfterFunc(f.linger, d.closeBody)
	}
	d.askAgain()
	resp := &http.Response{StatusCode: f.status, Header: http.Header{}, Request: d.req, ContentLength: -1}
	if name, value, ok := strings.Cut(f.header, ": "); ok {
		resp.Header.Set(name, value)
	}
	if len(f.content) == 0 && !f.endless && !f.stalls && !f.breaks {
		resp.Body, resp.ContentLength = http.NoBody, 0
		return resp
	}
	d.answer = &modelAnswer{d: d, content: f.content, ended: make(chan struct{})}
	resp.Body = d.answer
	return resp
}

// askAgain calls GetBody when the attempt may long be over.
func (d *modelDelivery) askAgain() {
	if open := d.req.GetBody; open != nil && d.fault.stale > 0 && d.r.wrapped() {
		time.AfterFunc(d.fault.stale, func() {
			if body, err := open(); err == nil {
				_ = body.Close()
			}
		})
	}
}

// readBody is net/http's writing goroutine.
func (d *modelDelivery) readBody() {
	defer close(d.done)
	defer d.closeBody()
	if d.fault.after == 0 {
		close(d.reached)
	}
	lingered := false
	for buffer := make([]byte, d.fault.chunk); ; {
		if d.stopped.Load() {
			d.bodyErr = errModelStopped
			return
		}
		over := int(d.r.attempts.Load()) > d.number
		n, err := d.body.Read(buffer)
		if !d.checkRead(buffer[:n], err, over) {
			return
		}
		if err != nil {
			if err != io.EOF {
				d.bodyErr = err
			}
			return
		}
		if d.fault.pace > 0 {
			select {
			case <-time.After(d.fault.pace):
			case <-d.broken:
			}
		}
		if d.answered.Load() && !lingered {
			lingered = true
			time.Sleep(d.fault.linger)
		}
	}
}

// checkRead checks what a Read of the body gave, and reports whether it makes
// sense to go on. over tells that the attempt was over before.
func (d *modelDelivery) checkRead(got []byte, err error, over bool) bool {
	r, n := d.r, len(got)
	if n > 0 && isReplayed(d.body) && over && r.script.stack == nil {
		r.wrong("attempt %d reads the body after it was over", d.number)
	}
	if d.read+n > len(d.content) || !bytes.Equal(got, d.content[d.read:d.read+n]) {
		if !d.fault.http2 || r.kind != bodyDeaf { // whose late bytes are no body
			r.wrong("attempt %d has other bytes at %d", d.number, d.read)
		}
		return false
	}
	if d.read < d.fault.after && d.read+n >= d.fault.after {
		close(d.reached)
	}
	d.read += n
	if err == io.EOF {
		if d.whole = d.read == len(d.content); !d.whole {
			r.wrong("the body of attempt %d ends after %d bytes", d.number, d.read)
		}
	}
	return true
}

// A modelAnswer is a response body.
type modelAnswer struct {
	d       *modelDelivery
	content []byte
	at      int
	read    atomic.Int64
	ending  sync.Once
	ended   chan struct{}
	closes  atomic.Int32
}

// has reports whether b is what the answer has at a position.
func (a *modelAnswer) has(b []byte, at int) bool {
	if a.d.fault.endless {
		return bytes.Equal(b, modelBytes[at:at+len(b)])
	}
	return at+len(b) <= len(a.content) && bytes.Equal(b, a.content[at:at+len(b)])
}

func (a *modelAnswer) Read(p []byte) (n int, err error) {
	f := &a.d.fault
	a.d.r.at(stepAnswer)
	select {
	case <-a.ended:
		if a.closes.Load() > 0 {
			return 0, http.ErrBodyReadAfterClose
		}
		return 0, errModelClosed
	default:
	}
	if err := a.d.req.Context().Err(); err != nil {
		return 0, err
	}
	defer func() { a.read.Add(int64(n)) }()
	switch {
	case f.endless:
		if a.at+1500 > len(modelBytes) {
			return 0, errModelStopped // that is far enough
		}
		n = copy(p, modelBytes[a.at:a.at+1500])
		a.at += n
		return n, nil
	case a.at < len(a.content):
		n = copy(p, a.content[a.at:])
		a.at += n
		return n, nil
	case f.stalls:
		select {
		case <-a.ended:
			return 0, errModelClosed
		case <-a.d.req.Context().Done():
			return 0, context.Cause(a.d.req.Context())
		}
	case f.breaks:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// Close also breaks off a request body that is still being read.
func (a *modelAnswer) Close() error {
	a.closes.Add(1)
	a.end()
	return nil
}

func (a *modelAnswer) end() {
	a.ending.Do(func() { close(a.ended) })
	a.d.breakOff()
}
