package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const defaultReplayBuffer = 1 << 20 // see Transport.ReplayBuffer

// sourceGrace is how long a Read of the caller's body that is under way when
// an attempt failed may still take, before the body counts as blocked. It is
// the time net/http gives a write to finish before it drops a connection
// (maxWriteWaitBeforeConnReuse).
const sourceGrace = 50 * time.Millisecond

var (
	errBodyOver    = errors.New("retrip: read of a request body whose attempt is over")
	errTooLong     = errors.New("the request body is longer than Transport.ReplayBuffer, and Request.GetBody is not set")
	errFailed      = errors.New("the request body failed while it was read")
	errBlocked     = errors.New("the request body is still waiting for its source")
	errFileChanged = errors.New("the file that is the request body has changed since it was first sent")
)

// A replay stands in for a request body without GetBody, so that each attempt
// can read it from its beginning. A regular file is read at offsets, which
// needs no memory. Anything else is read through once, as fast as the attempts
// ask for it, and what was read is kept up to a limit.
//
// Nobody ever waits for the source but its reader: each Read of it has a
// goroutine of its own, so that a body can be closed, fenced and judged while
// its source blocks.
type replay struct {
	ctx   context.Context // the caller's: its end closes src
	src   io.ReadCloser
	limit int64
	known int64 // the length that the request declares, if it does

	file  *os.File // src, if it is a regular file
	info  fs.FileInfo
	start int64 // where the caller left it

	mu      sync.Mutex
	bodies  []*attemptBody // those of the attempt under way that are open; the first is the one it sends
	attempt int            // counts the attempts: bodies of earlier ones are over
	opened  bool           // its own body, which is the first
	held    bool           // no Read of src may begin until it is clear whether a retry follows
	final   bool           // no attempt will follow
	closed  chan struct{}  // made when src is being closed, and closed when it is

	reading bool          // a Read of src is under way
	end     error         // how src ended, or nil
	changed chan struct{} // closed at the next change of anything here, if someone waits

	chunks [][]byte // what src gave so far, while that is kept
	size   int64
	stream *attemptBody // who alone gets what is no longer kept, by way of:
	buffer []byte
	window []byte // the part of buffer that it has not read yet
}

// An attemptBody is one reader of a replay: the body of an attempt, or a copy
// that its base or Prepare got from GetBody.
type attemptBody struct {
	r       *replay
	attempt int
	stop    func() bool // of the watch over the attempt's context
	own     bool        // the attempt's own body, not a copy of it
	read    bool        // somebody has begun to read it
	closed  bool
	ended   bool // it has been told how the source ended
	nothing bool // its last Read of the source gave nothing, not even an end

	offset int64 // in a file
	chunk  int   // in what is kept: the chunks before this one are read,
	within int   // and this much of it
}

func newReplay(req *http.Request, limit int64) *replay {
	r := &replay{ctx: req.Context(), src: req.Body, limit: limit, known: req.ContentLength}
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

// opener returns a Request.GetBody for the coming attempt. It fails once that
// attempt is over.
func (r *replay) opener(ctx context.Context) func() (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	attempt := r.attempt
	return func() (io.ReadCloser, error) { return r.open(ctx, attempt) }
}

func (r *replay) open(ctx context.Context, attempt int) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if attempt != r.attempt {
		return nil, errBodyOver
	}
	if err := r.obstacle(); err != nil {
		return nil, err
	}
	b := &attemptBody{r: r, attempt: attempt, own: !r.opened}
	r.opened = true
	b.stop = context.AfterFunc(ctx, b.abort)
	// A copy that nobody has read when the next is opened is as good as
	// forgotten, and holds nothing: net/http replays a stream over a connection
	// that turns out to be unusable, and then opens another copy without closing
	// that one (http2shouldRetryRequest). If it is read after all, it is back.
	r.bodies = slices.DeleteFunc(r.bodies, func(other *attemptBody) bool { return !other.own && !other.read })
	r.bodies = append(r.bodies, b)
	return b, nil
}

// endCopies ends the copies that Prepare made and may have forgotten to close.
func (r *replay) endCopies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.bodies) > 1 {
		r.bodies[1].leave()
	}
}

// hold reports why the body can't be sent again, or nil, and stops its source
// from being read on until fence or finish. If the answer hangs on a Read under
// way, it also returns what will be closed at the next change.
func (r *replay) hold() (pending <-chan struct{}, obstacle error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if obstacle = r.obstacle(); obstacle != nil {
		return nil, obstacle
	}
	r.held = true
	if r.reading {
		return r.nextChange(), errBlocked
	}
	return nil, nil
}

func (r *replay) obstacle() error {
	switch {
	case r.end != nil && r.end != io.EOF:
		return errFailed
	case r.stream != nil:
		return errTooLong
	case r.closed != nil:
		return errBodyOver
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

// fence ends an attempt: its bodies can't be read any more, whatever its base
// has not noticed yet.
func (r *replay) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt++
	for _, b := range r.bodies {
		b.stop()
	}
	r.bodies, r.held, r.opened = nil, false, false
	r.signal()
}

// finish says that no attempt will follow. The source is closed as soon as the
// attempt that has it now is done with it; if that is at once, finish returns
// what will be closed then.
func (r *replay) finish() (closing <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.final, r.held = true, false
	r.signal()
	if len(r.bodies) == 0 {
		return r.closeSource()
	}
	return nil
}

// closeSource closes src once, on the side: a Close may wait for the Read that
// it ends, or read on by itself, as that of a server's request body does.
func (r *replay) closeSource() <-chan struct{} {
	if r.closed == nil {
		closed := make(chan struct{})
		r.closed, r.chunks = closed, nil
		go func() {
			defer close(closed)
			_ = r.src.Close() // nobody is left to tell
		}()
	}
	return r.closed
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

// Read reads the file, or first what is kept and then the source.
func (b *attemptBody) Read(p []byte) (int, error) {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !b.read && !b.closed && b.attempt == r.attempt {
		b.read = true
		if !slices.Contains(r.bodies, b) {
			r.bodies = append(r.bodies, b)
		}
	}
	for {
		switch {
		case b.closed || b.attempt != r.attempt:
			return 0, errBodyOver
		case len(p) == 0:
			return 0, nil
		case r.file != nil:
			return b.readFile(p)
		case b.ended:
			return 0, r.end
		case r.closed != nil:
			return 0, errBodyOver // never a clean end: what was kept is gone
		case r.stream != nil && r.stream != b:
			return 0, errTooLong // it has gone past
		case r.stream == b && len(r.window) > 0:
			n := copy(p, r.window)
			r.window = r.window[n:]
			return n, nil
		case len(b.unread()) > 0:
			n := copy(p, b.unread())
			b.within += n
			return n, nil
		case r.end != nil:
			if raised, ok := r.end.(*sourcePanic); ok {
				panic(raised.value)
			}
			b.ended = true
			b.depart()
			return 0, r.end
		case b.nothing:
			b.nothing = false
			return 0, nil
		case !r.held && !r.reading:
			if err := b.startReading(len(p)); err != nil {
				return 0, err
			}
			fallthrough
		default:
			changed := r.nextChange()
			r.mu.Unlock()
			<-changed
			r.mu.Lock()
		}
	}
}

func (b *attemptBody) readFile(p []byte) (int, error) {
	r, at := b.r, b.r.start+b.offset
	r.mu.Unlock()
	n, err := r.file.ReadAt(p, at)
	r.mu.Lock()
	b.offset += int64(n)
	switch {
	case err == nil:
	case err != io.EOF:
		r.end = err
	case n > 0:
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

// maxChunk bounds one piece of what is kept, and one Read of the source.
const maxChunk = 64 << 10

// startReading lets a goroutine read on in the source, no more than b wants,
// who has read all that is kept. Beyond the limit nothing is kept; to go there
// is the right of the body that is being sent. A copy may only look whether the
// source ends at the limit, and what it finds there is kept.
func (b *attemptBody) startReading(want int) error {
	r := b.r
	others := len(r.bodies) > 1
	keep := r.stream == nil && (!r.final || others) && (r.size < r.limit || r.size == r.limit && b != r.bodies[0])
	switch {
	case r.closed != nil:
		return errBodyOver
	case keep:
	case b != r.bodies[0]:
		return errTooLong
	case len(r.buffer) < min(want, maxChunk):
		r.buffer = make([]byte, min(max(want, 4<<10), maxChunk))
	}
	into := r.buffer[:min(len(r.buffer), want)]
	if keep {
		into = r.tail(want)
	}
	r.reading = true
	go r.readSource(into, keep, b)
	return nil
}

// tail is where the next bytes that are kept go. Chunks grow with the body, but
// not beyond what it can still have.
func (r *replay) tail(want int) []byte {
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last]) == cap(r.chunks[last]) {
		size := max(1<<10, min(want, 4<<10))
		if last >= 0 {
			size = min(2*cap(r.chunks[last]), maxChunk)
		}
		room := r.limit - r.size
		if r.known > 0 && r.size <= r.known { // 0 with a body is unknown, as -1 is
			room = min(room, r.known-r.size)
		}
		r.chunks = append(r.chunks, make([]byte, 0, min(int64(size), max(room, 1)))) // 1 to see the end
		last++
	}
	c := r.chunks[last]
	return c[len(c):min(cap(c), len(c)+want)]
}

// readSource is the goroutine that reads the source once.
func (r *replay) readSource(into []byte, keep bool, b *attemptBody) {
	n, err := readChecked(r.src, into)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.end = false, err
	b.nothing = n == 0 && err == nil
	switch last := len(r.chunks) - 1; {
	case n == 0:
	case keep && last >= 0: // none are left if the source has been closed
		r.chunks[last] = r.chunks[last][:len(r.chunks[last])+n]
		r.size += int64(n)
	case !keep:
		r.stream, r.chunks, r.window = b, nil, into[:n]
	}
	r.signal()
}

// sourcePanic carries a panic of the source to whoever reads the body, where
// the base or its caller may expect it.
type sourcePanic struct{ value any }

func (e *sourcePanic) Error() string { return fmt.Sprintf("the request body panicked: %v", e.value) }

func readChecked(src io.Reader, p []byte) (n int, err error) {
	defer func() {
		if value := recover(); value != nil {
			n, err = 0, &sourcePanic{value}
		}
	}()
	n, err = src.Read(p)
	if n < 0 || n > len(p) {
		return 0, fmt.Errorf("retrip: the request body's Read returned %d for a buffer of %d bytes", n, len(p))
	}
	return n, err
}

// Close ends the reading at once. It closes the source only if this was the
// last attempt's last body.
func (b *attemptBody) Close() error {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.leave()
	return nil
}

// abort runs when the attempt's context ends.
func (b *attemptBody) abort() {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.leave()
	if b.r.ctx.Err() != nil {
		b.r.closeSource()
	}
}

func (b *attemptBody) leave() {
	r := b.r
	if b.closed || b.attempt != r.attempt {
		return
	}
	b.closed = true
	b.stop()
	b.depart()
	r.signal()
}

// depart takes b off the list of those who may still need the source.
func (b *attemptBody) depart() {
	r := b.r
	r.bodies = slices.DeleteFunc(r.bodies, func(other *attemptBody) bool { return other == b })
	if r.final && len(r.bodies) == 0 {
		r.closeSource()
	}
}
