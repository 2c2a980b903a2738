package retrip

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// discardTime is how long a response may be read for its connection's sake
// where the backoff is shorter. Our choice: the rest of a short error page
// takes less, and who waits for no backoff does not notice.
const discardTime = 10 * time.Millisecond

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
	a.Response = nil // or a panic later on would close it once more
	c.last.status, c.last.code = resp.StatusCode, c.code()
	if resp.Body == nil {
		return nil
	}
	ended := resp.ContentLength == 0
	if p, ok := resp.Body.(*peekedBody); ok {
		ended = p.ended()
	}
	// Over HTTP/2, Close waits for the request's body, if there is one.
	if resp.Body == http.NoBody || ended && !hasBody(a.Request) {
		_ = resp.Body.Close() // nobody will read it
		return nil
	}
	d := &discarding{body: resp.Body, done: make(chan struct{})}
	go d.drain()
	return d
}

func (d *discarding) drain() {
	defer close(d.done)
	defer d.close()
	defer func() { _ = recover() }()               // a body that panics has ended, too
	_, _ = io.CopyN(io.Discard, d.body, readAhead) // what was peeked comes first and counts
}

func (d *discarding) close() {
	defer func() { _ = recover() }() // in a goroutine of ours, nobody could catch it
	if d.closed.CompareAndSwap(false, true) {
		_ = d.body.Close() // nobody will read it
	}
}
