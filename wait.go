package retrip

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// wait sleeps until the retry is due, which counts from when the attempt ended:
// what a look into a slow body took is part of it. A response that is still being
// read then gets the rest of its time.
func (c *call) wait() error {
	left := c.delay
	if left > 0 {
		left = max(0, left-time.Since(c.attempt.Done))
	}
	err := pause(c.attempt.Request, left, nil)
	if reading := c.kept.reading; reading != nil {
		if err == nil && c.delay < discardTime {
			err = pause(c.attempt.Request, discardTime-c.delay, reading.done)
		}
		reading.stop.Store(true)
	}
	return err
}

var errRequestCancel = errors.New("retrip: Request.Cancel was closed")

// pause is the one place that sleeps: for d, or without end if d is negative.
// It returns early if wake gets a value or is closed, and with an error if the
// caller cancels the request.
func pause(req *http.Request, d time.Duration, wake <-chan struct{}) error {
	if d == 0 {
		return cancellation(req)
	}
	select { // a timer costs more than to look
	case <-wake:
		return cancellation(req)
	default:
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
	if cancel := cancelled(req); cancel != nil {
		select {
		case <-cancel:
			return errRequestCancel
		default:
		}
	}
	return nil
}

// cancelled is the deprecated channel that http.Client.Timeout still uses over
// transports other than net/http's.
func cancelled(req *http.Request) <-chan struct{} {
	//lint:ignore SA1019 deprecated for callers, not for transports
	return req.Cancel
}
