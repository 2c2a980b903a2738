package retrip

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip/internal/errorcode"
)

const (
	// readAhead is the most that is read of a body that may never be asked for:
	// to find an error code in it, and to make its connection reusable. Our
	// choice: above any error document worth the name, and two round trips of a
	// fresh TCP connection.
	readAhead = 64 << 10
	// peekTime is how long an answer may keep us from its own status. Our
	// choice: within it, an answer in one piece has come.
	peekTime = 250 * time.Millisecond
)

// A peekedBody is a response body of which the beginning has been read, by a
// goroutine if that may take time. The reader of the peekedBody gets every byte,
// also those of a Read that was still waiting for the network when the peek ran
// out of time.
type peekedBody struct {
	from   *http.Response // whose body it is; net/http may still write its trailers
	own    *http.Response // the same, for the caller
	src    io.ReadCloser
	stop   atomic.Bool
	closed atomic.Bool
	done   <-chan struct{} // closed when the reading is through, which owns buf and err until then
	buf    []byte
	err    error // why there is nothing more after buf, or nil
}

// bodyPanic carries a panic of the body's Read to whoever reads the body.
type bodyPanic struct{ value any }

func (e *bodyPanic) Error() string { return fmt.Sprintf("the response body panicked: %v", e.value) }

// isDone is the done of what was read at once.
var isDone = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// peek reads the body of the response to req at once if it has come whole, and
// otherwise begins to. The response to go on with is own. It is a copy unless the body
// has ended: a Read that is still under way may write trailers into resp. The caller
// waits for done as long as it cares to, and then calls peeked.
func peek(req *http.Request, resp *http.Response) *peekedBody {
	p := &peekedBody{from: resp, own: resp, src: resp.Body, done: isDone}
	size := int64(512)
	if 0 < resp.ContentLength && resp.ContentLength < readAhead {
		size = resp.ContentLength + 1 // to see the end without growing
	}
	p.buf = make([]byte, 0, size)
	if arrivedWhole(req, resp) {
		p.fill()
	}
	if p.err == nil {
		p.own = new(http.Response)
		*p.own = *resp
		p.own.Trailer = maps.Clone(resp.Trailer)
		done := make(chan struct{})
		p.done = done
		go func() {
			defer close(done)
			p.fill()
		}()
	}
	p.own.Body = p
	return p
}

func (p *peekedBody) fill() {
	defer func() {
		if value := recover(); value != nil {
			p.err = &bodyPanic{value}
		}
	}()
	for p.err == nil && len(p.buf) < readAhead && !p.stop.Load() {
		if len(p.buf) == cap(p.buf) {
			p.buf = slices.Grow(p.buf, min(len(p.buf), readAhead-len(p.buf)))
		}
		room := p.buf[len(p.buf):min(cap(p.buf), readAhead)]
		var n int
		n, p.err = p.src.Read(room)
		p.buf = p.buf[:len(p.buf)+n]
	}
}

// peeked ends the reading ahead. It returns what was read if that has come to
// its end or its limit, and nothing if a Read is still under way.
func (p *peekedBody) peeked() []byte {
	p.stop.Store(true)
	if p.through() {
		return p.buf
	}
	return nil
}

// ended reports whether the body has been read to its end.
func (p *peekedBody) ended() bool { return p.through() && p.err != nil }

// through reports whether the goroutine is: then buf and err can be read.
func (p *peekedBody) through() bool {
	if p.done == isDone {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *peekedBody) Read(b []byte) (int, error) {
	if !p.closed.Load() { // or the source may never be through
		<-p.done
	}
	if p.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p.buf) > 0 {
		n := copy(b, p.buf)
		p.buf = p.buf[n:]
		return n, nil
	}
	if raised, ok := p.err.(*bodyPanic); ok {
		panic(raised.value)
	}
	n, err := 0, p.err
	if err == nil {
		n, err = p.src.Read(b)
	}
	if err == io.EOF {
		p.copyTrailers()
	}
	return n, err
}

// copyTrailers gives the caller's response the trailers that came after the body.
func (p *peekedBody) copyTrailers() {
	if p.own.Trailer == nil {
		p.own.Trailer = p.from.Trailer
		return
	}
	maps.Copy(p.own.Trailer, p.from.Trailer)
}

// Close closes the body, which also ends a Read that is still under way.
func (p *peekedBody) Close() error {
	p.stop.Store(true)
	if p.closed.Swap(true) {
		return nil
	}
	return p.src.Close()
}

// readError looks for an error code in the headers of a 4xx or 5xx, or else in
// the beginning of its body, which the caller still gets whole.
func readError(a *Attempt) {
	if a.Code = errorcode.InHeaders(a.Request.Method, a.Response); a.Code != "" {
		return
	}
	if format := errorcode.FormatOf(a.Response); format != errorcode.None {
		readBody(a, peekTime)
		a.Code = format.InBody(a.Body)
	}
}

// readBody fills in the attempt's Body, if it has one that comes in time; a
// negative time is as long as the caller waits.
func readBody(a *Attempt, within time.Duration) {
	a.Body = []byte{}
	resp := a.Response
	if a.Request.Method == http.MethodHead || resp.Body == nil || resp.Body == http.NoBody ||
		resp.StatusCode == http.StatusSwitchingProtocols { // whose body is the connection
		return
	}
	p := peek(a.Request, resp)
	a.Response = p.own
	if !p.through() {
		runtime.Gosched()                    // the rest may have come, so that no timer is needed
		_ = pause(a.Request, within, p.done) // if time is up, the rest of the answer decides
	}
	if body := plain(resp.Header, p.peeked()); body != nil {
		a.Body = body
	}
}

// plain undoes the content encoding of the beginning of a body, for ourselves
// only and within the same limit, however well it is compressed.
func plain(header http.Header, body []byte) []byte {
	if !strings.EqualFold(headerValue(header, "Content-Encoding"), "gzip") {
		return body
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(r, readAhead)) // of a broken stream, what came before the break
	return text
}
