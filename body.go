package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

// defaultReplayBuffer is how much is kept of a body that can't be reopened.
// Our choice: it holds the requests of nearly every API, and a thousand of
// them at once are still only a gigabyte.
const defaultReplayBuffer = 1 << 20

// sourceGrace is how long a Read of the caller's body that is under way when
// an attempt failed may still take, before the body counts as blocked. It is
// the time net/http gives a write to finish before it drops a connection
// (maxWriteWaitBeforeConnReuse).
const sourceGrace = 50 * time.Millisecond

var (
	errBodyOver = errors.New("retrip: read of a request body whose attempt is over")
	errNoReplay = errors.New("retrip: the request body can't be sent again: it is longer than " +
		"Transport.ReplayBuffer, failed, or is still being read (set Request.GetBody)")
	errFileChanged = errors.New("retrip: the file that is the request body has changed since it was first sent")
)

// hasBody reports whether a request carries one at all.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// A replay stands in for a request body without GetBody, so that attempts can
// read it one after the other, each from its beginning. A regular file is read
// at offsets, which needs no memory. Anything else is read through once, as
// fast as the attempts ask for it, and what was read is kept up to a limit.
//
// At any time one attempt may read; opening the next fences the one before,
// whose base may not have noticed yet that it is over.
type replay struct {
	ctx context.Context // the caller's: its end closes src
	src io.ReadCloser

	file  *os.File // src, if it is a regular file
	info  fs.FileInfo
	start int64 // where the caller left it

	limit int64

	mu      sync.Mutex
	live    *attemptBody  // the one that may read
	final   bool          // no attempt will follow
	closed  bool          // src has been closed
	reading bool          // a Read of src is under way
	held    bool          // no further one may begin until it is clear whether a retry follows
	end     error         // how src ended, or nil
	changed chan struct{} // closed at the next change of reading, held or live, if someone waits

	chunks  [][]byte // what src gave so far
	size    int64
	dropped bool // it was more than limit, and is gone
}

// An attemptBody is the request body of one attempt.
type attemptBody struct {
	r      *replay
	stop   func() bool // of the watch over the attempt's context
	closed bool        // guarded by r.mu

	offset int64 // in a file
	chunk  int   // in what is kept: the chunks before this one are read,
	within int   // and this much of it
}

func newReplay(req *http.Request, limit int64) *replay {
	r := &replay{ctx: req.Context(), src: req.Body, limit: limit}
	// Only an os.File itself: a type that embeds one may read it differently.
	if f, ok := req.Body.(*os.File); ok && f != nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				r.file, r.info, r.start = f, info, at
			}
		}
	}
	return r
}

// open returns the body for the next attempt and fences the one before.
func (r *replay) open(ctx context.Context) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live != nil {
		if err := r.obstacle(); err != nil {
			return nil, err
		}
		r.live.end()
	}
	b := &attemptBody{r: r}
	b.stop = context.AfterFunc(ctx, b.abort)
	r.live, r.held = b, false
	r.signal()
	return b, nil
}

// opener is open as a Request.GetBody.
func (r *replay) opener(ctx context.Context) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return r.open(ctx) }
}

// replayable reports why the body can't be opened once more, or nil, and stops
// the attempt from reading on until fence or finish. If the answer hangs on a
// Read under way, it returns a channel to wait for before asking again.
func (r *replay) replayable() (pending <-chan struct{}, obstacle error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if obstacle = r.obstacle(); obstacle != nil {
		return nil, obstacle
	}
	r.held = r.file == nil
	if r.reading {
		return r.nextChange(), errNoReplay
	}
	return nil, nil
}

// fence ends the reading of an attempt that will be retried.
func (r *replay) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.end()
}

func (r *replay) obstacle() error {
	switch {
	case r.closed, r.dropped, r.end != nil && r.end != io.EOF:
		return errNoReplay
	case r.file == nil:
		return nil
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != r.info.Size() || !info.ModTime().Equal(r.info.ModTime()) {
		return errFileChanged
	}
	return nil
}

// finish says that no attempt will follow. The source is closed as soon as
// the attempt that has it now is done with it.
func (r *replay) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.final, r.held = true, false
	r.signal()
	if r.live == nil || r.live.closed {
		r.closeSource()
	}
}

// closeSource closes src once. A Close may wait for the Read it interrupts, so
// then it gets a goroutine, which ends when the Read does.
func (r *replay) closeSource() (err error) {
	if r.closed {
		return nil
	}
	r.closed = true
	r.chunks = nil
	if r.reading {
		go func() { _ = r.src.Close() }() // nobody is left to tell
		return nil
	}
	return r.src.Close()
}

// signal wakes those who wait for a change.
func (r *replay) signal() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *replay) nextChange() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// keep appends bytes of the source to what is kept. The limit holds for the
// attempt that reads at the end; a fenced attempt's late bytes belong to the
// next one and are kept in any case.
func (r *replay) keep(p []byte, late bool) {
	if r.dropped || !late && (r.final || r.size+int64(len(p)) > r.limit) {
		r.dropped, r.chunks = true, nil
		return
	}
	r.size += int64(len(p))
	for len(p) > 0 {
		last := len(r.chunks) - 1
		if last < 0 || len(r.chunks[last]) == cap(r.chunks[last]) {
			size := 1 << 10
			if last >= 0 {
				size = min(2*cap(r.chunks[last]), 64<<10)
			}
			r.chunks = append(r.chunks, make([]byte, 0, max(size, min(len(p), 64<<10))))
			last++
		}
		c := r.chunks[last]
		n := min(len(p), cap(c)-len(c))
		r.chunks[last] = append(c, p[:n]...)
		p = p[n:]
	}
}

// Read reads the file, or first what is kept and then the source.
func (b *attemptBody) Read(p []byte) (int, error) {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case b.closed || r.live != b:
			return 0, errBodyOver
		case r.file != nil:
			return b.readFile(p)
		case len(p) == 0:
			return 0, nil
		case len(b.unread()) > 0:
			n := copy(p, b.unread())
			b.within += n
			return n, nil
		case r.end != nil:
			return 0, r.end
		case r.held, r.reading: // the latter by an attempt that is over, whose bytes come first
			changed := r.nextChange()
			r.mu.Unlock()
			<-changed
			r.mu.Lock()
		default:
			return b.readSource(p)
		}
	}
}

func (b *attemptBody) readFile(p []byte) (int, error) {
	at := b.r.start + b.offset
	b.r.mu.Unlock()
	n, err := b.r.file.ReadAt(p, at)
	b.r.mu.Lock()
	b.offset += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// unread returns what is kept of the source in one piece and not yet read. A
// chunk that is full is followed by another; one that is not may still grow.
func (b *attemptBody) unread() []byte {
	for b.chunk < len(b.r.chunks) {
		c := b.r.chunks[b.chunk]
		if b.within < len(c) {
			return c[b.within:]
		}
		if len(c) < cap(c) {
			break
		}
		b.chunk, b.within = b.chunk+1, 0
	}
	return nil
}

func (b *attemptBody) readSource(p []byte) (int, error) {
	r := b.r
	r.reading = true
	r.mu.Unlock()
	n, err := r.src.Read(p)
	r.mu.Lock()
	r.reading = false
	defer r.signal()
	if n < 0 || n > len(p) {
		n, err = 0, fmt.Errorf("retrip: the request body's Read returned %d for a buffer of %d bytes", n, len(p))
	}
	late := b.closed || r.live != b
	r.end = err
	r.keep(p[:n], late)
	if late {
		return 0, errBodyOver
	}
	if last := len(r.chunks) - 1; last >= 0 { // what it just read need not be read again
		b.chunk, b.within = last, len(r.chunks[last])
	}
	return n, err
}

// Close ends the attempt's reading, at once. It closes the source only if no
// attempt will follow.
func (b *attemptBody) Close() error {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.end()
	if b.r.final && b.r.live == b {
		return b.r.closeSource()
	}
	return nil
}

func (b *attemptBody) end() {
	b.closed = true
	b.stop()
	b.r.signal()
}

// abort runs when the attempt's context ends. A Read of the source that is
// under way would hold its base, and with it RoundTrip: closing the source is
// the only way to end it.
func (b *attemptBody) abort() {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	b.closed = true
	r.signal()
	if r.live == b && (r.reading || r.ctx.Err() != nil) {
		_ = r.closeSource() // the context's error is the one to tell
	}
}

// A sizedBody is a body from GetBody of a request that declares its length. It
// says clearly what net/http would say in passing: that GetBody is wrong.
type sizedBody struct {
	io.ReadCloser
	want, left int64
}

type bodyLengthError struct{ want, got int64 }

func (e *bodyLengthError) Error() string {
	if e.got > e.want {
		return fmt.Sprintf("retrip: Request.GetBody returned more than the %d bytes of Request.ContentLength: "+
			"it must return the same body each time", e.want)
	}
	return fmt.Sprintf("retrip: Request.GetBody returned %d bytes where Request.ContentLength says %d: "+
		"it must return the same body each time", e.got, e.want)
}

func (b *sizedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return n - int(min(-b.left, int64(n))), &bodyLengthError{b.want, b.want - b.left}
	case err == io.EOF && b.left > 0:
		return n, &bodyLengthError{b.want, b.want - b.left}
	}
	return n, err
}

// reopen opens the body of a request that has a GetBody.
func reopen(req *http.Request) (io.ReadCloser, error) {
	body, err := req.GetBody()
	switch {
	case err != nil:
		return nil, fmt.Errorf("retrip: Request.GetBody failed: %w", err)
	case body == nil:
		return nil, errors.New("retrip: Request.GetBody returned a nil body and no error")
	case req.ContentLength > 0:
		return &sizedBody{body, req.ContentLength, req.ContentLength}, nil
	default:
		return body, nil
	}
}

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close() // the request failed already, for a better reason
	}
}
