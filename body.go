package retrip

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const defaultReplayBuffer = 1 << 20 // see Transport.ReplayBuffer

// sourceGrace is how long a Read of the caller's body that is under way when
// an attempt failed may still take, before the body counts as blocked. It is
// the time net/http gives a write to finish before it drops a connection
// (maxWriteWaitBeforeConnReuse).
//
// It passes in steps, after each of which everything that is ready to run gets
// its turn: a Read that needs only the processor is not taken for a blocked one,
// however busy the machine is.
const (
	sourceGrace = graceSteps * graceStep
	graceSteps  = 10
	graceStep   = 5 * time.Millisecond
)

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
// Nobody ever waits for the source but its reader: each Read of it that could
// block has a goroutine of its own, so that a body can be closed, fenced and
// judged while its source blocks.
type replay struct {
	ctx   context.Context // the caller's: its end closes src
	src   io.ReadCloser
	limit int64
	known int64 // the length that the request declares, if it does

	inMemory bool // no Read or Close of src can block

	file  *os.File // src, if it is a regular file
	info  fs.FileInfo
	start int64 // where the caller left it

	mu      sync.Mutex
	bodies  []*attemptBody // those of the attempt under way that are open; the first is the one it sends
	attempt int            // counts the attempts: bodies of earlier ones are over
	opened  bool           // its own body, which is the first
	wrapped bool           // what it sends is of Prepare's making, perhaps of any of them
	held    bool           // no Read of src may begin until it is clear whether a retry follows
	final   bool           // no attempt will follow
	closed  chan struct{}  // made when src is being closed, and closed when it is

	reading bool          // a Read of src is under way
	begun   atomic.Bool   // or about to be, until this is true
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
	ctx     context.Context // of its attempt
	stop    func() bool     // of the watch over ctx, while b is one of r.bodies
	own     bool            // the attempt's own body, not a copy of it
	read    bool            // somebody has begun to read it
	closed  bool
	ended   bool // it has been told how the source ended
	nothing bool // its last Read of the source gave nothing, not even an end

	offset int64 // in a file
	chunk  int   // in what is kept: the chunks before this one are read,
	within int   // and this much of it
}

func newReplay(req *http.Request, limit int64) *replay {
	r := &replay{ctx: req.Context(), src: req.Body, limit: limit, known: req.ContentLength, inMemory: isInMemory(req.Body)}
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
	b := &attemptBody{r: r, ctx: ctx, attempt: attempt, own: !r.opened}
	r.opened = true
	// A copy that nobody has read when the next is opened is as good as
	// forgotten, and holds nothing: net/http replays a stream over a connection
	// that turns out to be unusable, and then opens another copy without closing
	// that one (http2shouldRetryRequest).
	r.bodies = slices.DeleteFunc(r.bodies, (*attemptBody).forgotten)
	b.join()
	return b, nil
}

// choose returns the body that the attempt sends, now that Prepare has put body
// into the request. A copy takes the place of the attempt's own; copies that
// were begun and perhaps forgotten are ended. A body of Prepare's making may
// read any of them whenever it likes, until it is closed.
func (r *replay) choose(own *attemptBody, body io.ReadCloser) *attemptBody {
	r.mu.Lock()
	defer r.mu.Unlock()
	if body == nil || body == http.NoBody {
		r.leaveAll()
		return own
	}
	if body != io.ReadCloser(own) {
		copied, ok := body.(*attemptBody)
		if !ok || copied.r != r || copied.attempt != r.attempt {
			r.wrapped = true
			return own
		}
		own.leave()
		own, copied.own = copied, true
		if !own.closed && !own.ended && !slices.Contains(r.bodies, own) {
			own.join()
		}
	}
	for _, b := range slices.Clone(r.bodies) { // leave takes it off
		if !b.own {
			b.leave()
		}
	}
	return own
}

// A lender is closed along with a body of Prepare's making that may read those
// of the attempt, and ends them all.
type lender struct{ *attemptBody }

func (l lender) Close() error {
	r := l.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.attempt == r.attempt {
		r.wrapped = false
		r.leaveAll()
		if r.done() {
			r.closeSource()
		}
	}
	return nil
}

func (r *replay) leaveAll() {
	for _, b := range slices.Clone(r.bodies) { // leave takes it off
		b.leave()
	}
}

// done reports whether nobody will need the source again.
func (r *replay) done() bool { return r.final && len(r.bodies) == 0 && !r.wrapped }

// failed reports whether the source failed.
func (b *attemptBody) failed() bool {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	return b.r.end != nil && b.r.end != io.EOF
}

// forgotten takes off a copy that nobody has read. If it is read after all, it is
// back.
func (b *attemptBody) forgotten() bool {
	if b.own || b.read {
		return false
	}
	b.stop()
	return true
}

// hold reports why the body can't be sent again, or nil, and stops its source
// from being read on until fence or finish. A Read under way gets its grace,
// which the end of the caller's context or cancel cuts short.
func (r *replay) hold(cancel <-chan struct{}) error {
	pending, obstacle := r.tryHold()
	if pending == nil {
		return obstacle
	}
	step := time.NewTimer(graceStep)
	defer step.Stop()
	for left := graceSteps; pending != nil && left > 0; {
		select {
		case <-pending:
		case <-r.ctx.Done():
			return obstacle
		case <-cancel:
			return obstacle
		case <-step.C:
			runtime.Gosched() // lets a late Read run
			if r.begun.Load() && !r.inMemory {
				left--
			}
			step.Reset(graceStep)
		}
		pending, obstacle = r.tryHold()
	}
	return obstacle
}

// tryHold also returns, if the answer hangs on a Read under way, what will be
// closed at the next change.
func (r *replay) tryHold() (pending <-chan struct{}, obstacle error) {
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
		return over(r.ctx)
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

// over is why a body can't be read any more: the end of ctx, if that came first
// or may have been the reason.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errBodyOver
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
	r.bodies, r.held, r.opened, r.wrapped = nil, false, false, false
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
	switch {
	case r.done():
		return r.closeSource()
	case len(r.bodies) == 1 && !r.wrapped && r.file == nil && r.stream == nil && r.closed == nil:
		r.stream = r.bodies[0] // nobody else needs what it has read
		clear(r.chunks[:r.stream.chunk])
	}
	return nil
}

// closeSource closes src once, on the side: a Close may wait for the Read that
// it ends, or read on by itself, as that of a server's request body does.
func (r *replay) closeSource() <-chan struct{} {
	if r.closed != nil {
		return r.closed
	}
	closed := make(chan struct{})
	r.closed, r.chunks = closed, nil
	closing := func() {
		defer close(closed)
		defer func() { _ = recover() }() // in a goroutine of ours, nobody could catch it
		_ = r.src.Close()                // nobody is left to tell
	}
	if r.inMemory {
		closing()
	} else {
		go closing()
	}
	return closed
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
