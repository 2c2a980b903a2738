package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"
)

// run is the caller.
func (r *modelRequest) run() {
	time.Sleep(r.start)
	ctx, cancel := r.newContext()
	defer cancel()
	if r.declared {
		ctx = WithIdempotent(ctx)
	}
	if r.ownMax {
		ctx = WithMaxAttempts(ctx, r.max)
	}
	var trace *Trace
	if !r.script.observed {
		ctx, trace = WithTrace(ctx)
	}
	r.ctx, r.began = ctx, time.Now()
	req := r.build(ctx)
	before, header := *req, req.Header.Clone()
	r.at(stepBefore)

	r.roundTrip(req)

	r.returned, r.ended = time.Now(), ctx.Err() != nil
	close(r.back)
	if trace != nil {
		for i, trip := range trace.Requests() {
			if i == 0 {
				r.events = trip
			} else {
				r.inner = append(r.inner, trip...)
			}
		}
	}
	after := *req
	before.GetBody, after.GetBody = nil, nil // functions can't be compared
	if !reflect.DeepEqual(before.Header, header) || before.Body != after.Body || before.URL != after.URL || before.Method != after.Method ||
		before.ContentLength != after.ContentLength || before.Host != after.Host || req.Context() != ctx {
		r.wrong("the caller's request was changed")
	}
	if r.resp != nil {
		r.readAnswer()
	}
}

// roundTrip notes what RoundTrip returns, or what it panics with.
func (r *modelRequest) roundTrip(req *http.Request) {
	defer func() { r.panicked = recover() }()
	r.resp, r.err = r.script.transport.RoundTrip(req)
}

// build makes the request. Only with GetBody can its body be opened again.
func (r *modelRequest) build(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, nil)
	if err != nil {
		panic(err)
	}
	if r.keyed {
		req.Header.Set("Idempotency-Key", strconv.Itoa(r.id))
	}
	switch r.kind {
	case bodyNone:
		return req
	case bodyFile:
		req.Body = r.openFile()
	default:
		req.Body = r.open()
	}
	if r.reopens() {
		req.GetBody = func() (io.ReadCloser, error) {
			r.at(stepGetBody)
			return r.open(), nil
		}
	}
	if req.ContentLength = -1; r.known {
		req.ContentLength = int64(len(r.content))
	}
	return req
}

// openFile opens the file at the place where the content begins. A file that
// changes is the request's own; what changes is its time.
func (r *modelRequest) openFile() *os.File {
	name := r.file
	if r.touched > 0 {
		name = fmt.Sprintf("%s%d", r.file, r.id)
		must(os.WriteFile(name, modelBytes[:modelFileSize], 0o600))
		time.AfterFunc(r.touched, func() { must(os.Chtimes(name, time.Time{}, time.Unix(1e9, 0))) })
	}
	file, err := os.Open(name)
	must(err)
	_, err = file.Seek(int64(modelFileSize-len(r.content)), io.SeekStart)
	must(err)
	r.osFile = file
	return file
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// open makes a source of the body.
func (r *modelRequest) open() io.ReadCloser {
	s := &modelSource{r: r, closed: make(chan struct{})}
	if r.kind == bodyDuplex {
		s.pipe = r.fillPipe()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
	return s
}

// modelPatience is longer than any request takes.
const modelPatience = 30 * time.Minute

// fillPipe writes half of the body at once and the rest when the answer is
// there, or a while later.
func (r *modelRequest) fillPipe() *io.PipeReader {
	reader, writer := io.Pipe()
	go func() {
		// A body that is never closed shows in the oracle, not here.
		defer time.AfterFunc(modelPatience, func() { _ = reader.Close() }).Stop()
		if _, err := writer.Write(r.content[:r.stop]); err != nil {
			return
		}
		select {
		case <-r.back:
		case <-time.After(time.Second):
		}
		_, _ = writer.Write(r.content[r.stop:])
		_ = writer.Close()
	}()
	return reader
}

// A modelSource is a request body as a caller may have it. It must not be read
// twice at a time: position has no lock, so that the race detector sees it.
type modelSource struct {
	r        *modelRequest
	pipe     *io.PipeReader
	position int
	closed   chan struct{}
	closes   atomic.Int32
}

var (
	errModelSource = errors.New("the source failed")
	errModelClosed = errors.New("the source is closed")
	errModelDial   = &net.OpError{Op: "dial", Net: "tcp", Err: errReset} // of the source's own connection
)

func (s *modelSource) Read(p []byte) (int, error) {
	r := s.r
	r.at(stepRead)
	select {
	case <-s.closed:
		return 0, errModelClosed
	default:
	}
	if s.pipe != nil {
		n, err := s.pipe.Read(p)
		s.position += n
		return n, err
	}
	time.Sleep(r.pace)
	end := len(r.content)
	switch r.kind {
	case bodyGetBodyFails, bodyFails, bodyBlocked, bodyDeaf:
		end = r.stop
	}
	if s.position < end {
		n := copy(p, r.content[s.position:min(end, s.position+r.chunk)])
		s.position += n
		if s.position == len(r.content) && r.chunk%2 == 0 {
			return n, io.EOF // with the last bytes, as a Reader may
		}
		return n, nil
	}
	switch r.kind {
	case bodyGetBodyFails:
		return 0, errModelDial
	case bodyFails:
		return 0, []error{errModelSource, errModelDial}[r.id%2]
	case bodyBlocked:
		select {
		case <-s.closed:
		case <-time.After(modelPatience): // see fillPipe
		}
		return 0, errModelClosed
	case bodyDeaf:
		time.Sleep(10 * time.Minute)
		return copy(p, "too late"), nil
	}
	return 0, io.EOF
}

func (s *modelSource) Close() error {
	if s.closes.Add(1) == 1 {
		close(s.closed)
	}
	if s.pipe != nil {
		return s.pipe.Close()
	}
	return nil
}

// readAnswer reads what RoundTrip returned, as far as it goes, and then once
// more.
func (r *modelRequest) readAnswer() {
	if r.resp.Request == nil || r.resp.Request.Context() != r.ctx {
		r.wrong("Response.Request is not the caller's")
	}
	if len(r.deliveries) == 0 {
		r.wrong("a response from nowhere")
		return
	}
	body := r.resp.Body
	d := r.deliveries[len(r.deliveries)-1]
	if !r.impolite && d.answer != nil {
		r.readAll(body, d.answer)
	}
	_ = body.Close()
	if n, err := body.Read(make([]byte, 100)); d.answer != nil && (n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose)) {
		r.wrong("after Close, Read gives %d bytes, %v", n, err)
	}
}

// readAll reads the answer to its end, or for a second.
func (r *modelRequest) readAll(body io.Reader, answer *modelAnswer) {
	time.Sleep(r.dawdle)
	// Only now, since the end of a context ends the reading.
	closed := make(chan struct{})
	timer := time.AfterFunc(time.Second, func() { defer close(closed); answer.end() })
	got := 0
	for buffer := make([]byte, r.chunk); got < 100<<10; {
		n, err := body.Read(buffer)
		if !answer.has(buffer[:n], got) {
			r.wrong("the answer has other bytes at %d", got)
		}
		got += n
		if err == io.EOF && got != len(answer.content) {
			r.wrong("the answer ends after %d bytes", got)
		}
		f := &answer.d.fault
		if err != nil && err != io.EOF && r.ctx.Err() == nil && !f.stalls && !f.breaks && !f.endless {
			r.wrong("the answer fails: %v", err)
		}
		if err != nil {
			break
		}
	}
	if !timer.Stop() {
		<-closed
	}
}
