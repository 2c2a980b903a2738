package retrip

import (
	"net/http"
	"time"
)

// discardTime is how long a response may be read for its connection's sake
// where the backoff is shorter. Our choice: the rest of a short error page
// takes less, and a request without a backoff does not notice.
const discardTime = 10 * time.Millisecond

// A kept response is the one that a retry follows. While the retry waits, it is
// read ahead, so that its connection can serve the next attempt. It is let go
// when that attempt is sent: if it can't be, the caller gets the response.
type keptResponse struct {
	resp    *http.Response
	reading *peekedBody // nil if nothing is left to read
}

// keep begins to read the attempt's response, if it had one, and notes what an
// error will tell of it.
func (c *call) keep() {
	a := &c.attempt
	c.last = failure{err: a.Err}
	resp := a.Response
	if resp == nil {
		return
	}
	a.Response = nil
	c.last.status, c.last.code = resp.StatusCode, c.code()
	c.kept = keptResponse{resp: resp}
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength == 0 {
		return
	}
	p, ok := resp.Body.(*peekedBody)
	if ok && p.ended() {
		return
	}
	c.kept.reading = peek(resp) // what was peeked before comes first and counts
}

// letGo closes the response that was kept. Closing may wait for the network,
// and over HTTP/2 for the request's body, so unless the response has ended it
// is done on the side.
func (c *call) letGo() {
	k := c.kept
	c.kept = keptResponse{}
	if k.resp == nil || k.resp.Body == nil {
		return
	}
	if (k.reading == nil || k.reading.ended()) && !hasBody(c.attempt.Request) {
		_ = k.resp.Body.Close() // nobody will read it
		return
	}
	go closeQuietly(k.resp.Body)
}

func closeQuietly(body interface{ Close() error }) {
	defer func() { _ = recover() }() // in a goroutine of ours, nobody could catch it
	_ = body.Close()
}
