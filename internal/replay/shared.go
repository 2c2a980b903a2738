package replay

import (
	"context"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Grace is how long a Read of the source that is under way when an attempt
// failed may still take, before the body counts as blocked. It is the time
// net/http gives a write to finish before it drops a connection
// (maxWriteWaitBeforeConnReuse).
//
// It passes in steps, after each of which everything that is ready to run gets
// its turn: a Read that needs only the processor is not taken for a blocked one,
// however busy the machine is.
const (
	Grace      = graceSteps * graceStep
	graceSteps = 10
	graceStep  = 5 * time.Millisecond
)

// A shared is an opaque body. It knows which attempt may read it, and when its
// source can be closed.
type shared struct {
	ctx      context.Context // the request's: its end closes the source
	closer   io.Closer
	inMemory bool // no Read or Close of it can block
	source   source

	mu      sync.Mutex
	attempt int       // counts the attempts: readers of earlier ones get nothing
	open    []*reader // those of the attempt that may still need the source; the first is the one it sends
	wrapped bool      // what it sends is of Prepare's making, perhaps of any of them
	held    bool      // no Read of the source may begin until it is clear whether a retry follows
	final   bool      // no attempt will follow
	unwatch func() bool
	closed  chan struct{} // made when the source is being closed, and closed when it is
	changed chan struct{} // closed at the next change of anything here, if someone waits
}

// A source is where the bytes come from. Its methods need the lock.
type source interface {
	// read gives r what it wants next, after it is told that it is at the end or
	// past what it can have. If ok is false, something has changed: r must see
	// whether it may still read, and come again.
	read(r *reader, p []byte) (n int, ok bool, err error)
	// check returns why not all of it can be read again, or nil.
	check() error
	// pending reports whether a Read is under way, and whether it may be blocked.
	pending() (reading, mayBlock bool)
	// free gives up what is kept but for r, or altogether if r is nil.
	free(r *reader)
}

func newShared(req *http.Request, limit int64) *shared {
	s := &shared{ctx: req.Context(), closer: req.Body, inMemory: InMemory(req.Body), unwatch: func() bool { return true }}
	// Only an os.File itself: a type that embeds one may read it differently.
	if f, ok := req.Body.(*os.File); ok && f != nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				s.source = &file{shared: s, File: f, info: info, start: at}
				return s
			}
		}
	}
	s.source = &stream{shared: s, src: req.Body, limit: limit, known: req.ContentLength}
	return s
}

// begin opens the body of an attempt, whose context is ctx, and returns a
// GetBody for it, which fails once the attempt is over.
func (s *shared) begin(ctx context.Context) (own io.ReadCloser, getBody func() (io.ReadCloser, error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.obstacle(); err != nil {
		return nil, nil, err
	}
	attempt := s.attempt
	s.unwatch = context.AfterFunc(ctx, func() { s.abort(attempt) })
	r := &reader{shared: s, ctx: ctx, attempt: attempt, own: true}
	s.open = append(s.open, r)
	return r, func() (io.ReadCloser, error) { return s.copy(ctx, attempt) }, nil
}

func (s *shared) copy(ctx context.Context, attempt int) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if attempt != s.attempt {
		return nil, ErrOver
	}
	if err := s.obstacle(); err != nil {
		return nil, err
	}
	// A copy that nobody has read when the next is opened is as good as
	// forgotten, and holds nothing: net/http replays a stream over a connection
	// that turns out to be unusable, and then opens another copy without closing
	// that one (http2shouldRetryRequest). If it is read after all, it is back.
	s.open = slices.DeleteFunc(s.open, func(r *reader) bool { return !r.own && !r.begun })
	r := &reader{shared: s, ctx: ctx, attempt: attempt}
	s.open = append(s.open, r)
	return r, nil
}

// abort runs when the context of an attempt ends.
func (s *shared) abort(attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if attempt == s.attempt {
		s.leaveAll()
	}
	if s.ctx.Err() != nil {
		s.closeSource()
	}
}

func (s *shared) leaveAll() {
	for _, r := range slices.Clone(s.open) { // leave takes it off
		r.leave()
	}
}

func (s *shared) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.obstacle()
}

func (s *shared) obstacle() error {
	if s.closed != nil {
		return over(s.ctx)
	}
	return s.source.check()
}

// over is why a body can't be read any more: the end of ctx, if that came first
// or may have been the reason.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrOver
}

// hold waits for a Read under way until that ends, its grace is over, the
// request's context ends, or cancel is closed.
func (s *shared) hold(cancel <-chan struct{}) error {
	pending, mayBlock, obstacle := s.tryHold()
	if pending == nil {
		return obstacle
	}
	step := time.NewTimer(graceStep)
	defer step.Stop()
	for left := graceSteps; pending != nil && left > 0; {
		select {
		case <-pending:
		case <-s.ctx.Done():
			return obstacle
		case <-cancel:
			return obstacle
		case <-step.C:
			runtime.Gosched() // lets a late Read run
			if mayBlock {
				left--
			}
			step.Reset(graceStep)
		}
		pending, mayBlock, obstacle = s.tryHold()
	}
	return obstacle
}

// tryHold also returns, if the answer hangs on a Read under way, what will be
// closed at the next change, and whether that Read may be blocked.
func (s *shared) tryHold() (pending <-chan struct{}, mayBlock bool, obstacle error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obstacle = s.obstacle(); obstacle != nil {
		return nil, false, obstacle
	}
	s.held = true
	reading, mayBlock := s.source.pending()
	if reading {
		return s.nextChange(), mayBlock, ErrBlocked
	}
	return nil, false, nil
}

func (s *shared) fence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatch()
	s.attempt++
	s.open, s.held, s.wrapped = nil, false, false
	s.signal()
}

// finish returns what will be closed with the source, if that is being closed.
func (s *shared) finish() (closing <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final, s.held = true, false
	s.signal()
	switch {
	case s.done():
		return s.closeSource()
	case len(s.open) == 1 && !s.wrapped && s.closed == nil:
		s.source.free(s.open[0])
	}
	return nil
}

// done reports whether no reader will need the source again.
func (s *shared) done() bool { return s.final && len(s.open) == 0 && !s.wrapped }

// closeSource closes the source once, on the side: a Close may wait for the Read
// that it ends, or read on by itself, as that of a server's request body does.
func (s *shared) closeSource() <-chan struct{} {
	if s.closed != nil {
		return s.closed
	}
	s.unwatch()
	s.source.free(nil)
	closed := make(chan struct{})
	s.closed = closed
	closing := func() {
		defer close(closed)
		Close(s.closer)
	}
	if s.inMemory {
		closing()
	} else {
		go closing()
	}
	return closed
}

// signal wakes those who wait for a change.
func (s *shared) signal() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *shared) nextChange() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}
