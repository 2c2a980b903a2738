package retrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// discardTime is how long a response may be read for its connection's sake
// where the backoff is shorter. Our choice: the rest of a short error page
// takes less, and who waits for no backoff does not notice.
const discardTime = 10 * time.Millisecond

var errRequestCancel = errors.New("retrip: Request.Cancel was closed")

// A discarding response is read on, up to a limit, so that its connection can
// serve the next attempt.
type discarding struct {
	body   io.ReadCloser
	done   chan struct{} // closed when the body is read and closed
	closed atomic.Bool
}

// discard gets rid of the attempt's response, if it had one, and keeps what an
// error will tell of it. It returns nil if nothing is left to read.
func (c *call) discard() *discarding {
	a := &c.attempt
	c.last = failure{err: a.Err}
	resp := a.Response
	if resp == nil {
		return nil
	}
	c.last.status, c.last.code = resp.StatusCode, c.code()
	if resp.Body == nil {
		return nil
	}
	budget := int64(readAhead)
	ended := resp.Body == http.NoBody || resp.ContentLength == 0
	if p, ok := resp.Body.(*peekedBody); ok {
		budget, ended = budget-p.taken(), p.ended()
	}
	if ended {
		_ = resp.Body.Close() // nobody will read it
		return nil
	}
	d := &discarding{body: resp.Body, done: make(chan struct{})}
	go d.drain(budget)
	return d
}

func (d *discarding) drain(budget int64) {
	defer close(d.done)
	_, _ = io.CopyN(io.Discard, d.body, budget) // whatever ends it, the body is closed next
	d.close()
}

func (d *discarding) close() {
	if d.closed.CompareAndSwap(false, true) {
		_ = d.body.Close() // nobody will read it
	}
}

// wait sleeps until the retry is due. A response that is still being discarded
// then gets the rest of its time and is closed, on the side: closing may
// itself wait for the network.
func (c *call) wait(d *discarding) error {
	err := pause(c.attempt.Request, c.pause, nil)
	if d == nil {
		return err
	}
	if err == nil && c.pause < discardTime {
		err = pause(c.attempt.Request, discardTime-c.pause, d.done)
	}
	select {
	case <-d.done:
	default:
		go d.close()
	}
	return err
}

// pause is the one place that sleeps: for d, or without end if d is negative.
// It returns early if wake gets a value or is closed, and with an error if the
// caller cancels the request.
func pause(req *http.Request, d time.Duration, wake <-chan struct{}) error {
	if d == 0 {
		return cancellation(req)
	}
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-wake:
	case <-req.Context().Done():
	case <-cancelled(req):
	}
	return cancellation(req)
}

// cancellation is why the caller no longer wants the request, or nil.
func cancellation(req *http.Request) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	select {
	case <-cancelled(req):
		return errRequestCancel
	default:
		return nil
	}
}

// cancelled is the deprecated channel that http.Client.Timeout still uses over
// transports other than net/http's.
func cancelled(req *http.Request) <-chan struct{} {
	//lint:ignore SA1019 deprecated for callers, not for transports
	return req.Cancel
}
