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

// An opaqueBody is what a file and a stream have in common: which attempt may
// read it, and when its source is closed. Either has it as a part, so that a body
// is one allocation.
type opaqueBody struct {
	ctx      context.Context // the request's: its end closes the source
	src      io.ReadCloser
	inMemory bool // no Read or Close of src can block
	source   source

	mu      sync.Mutex
	attempt int       // counts the attempts: readers of earlier ones get nothing
	open    []*reader // those of the attempt that may still need the source, the one it sends first
	wrapped bool      // the attempt sends a body of Prepare's making, which may read any of them
	held    bool      // no Read of the source may begin until it is clear whether a retry follows
	final   bool      // no attempt will follow
	unwatch func() bool
	closed  chan struct{} // made when the source is being closed, and closed when it is
	changed chan struct{} // closed at the next change of anything here, if someone waits
}

// A source is where the bytes come from. Its methods need the lock.
type source interface {
	// read gives r what it wants next. If ok is false, something has changed: r
	// must see whether it may still read, and come again.
	read(r *reader, p []byte) (n int, ok bool, err error)
	// check returns why the source can't be read again from its beginning, or nil.
	check() error
	// pending reports whether a Read is under way, and whether it may be blocked.
	pending() (reading, mayBlock bool)
	// free drops what is kept for others than r, or all of it if r is nil.
	free(r *reader)
}

func newOpaqueBody(req *http.Request, limit int64) *opaqueBody {
	// Only an os.File itself: a type that embeds one may read it differently.
	if f, ok := req.Body.(*os.File); ok && f != nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				f := &file{opaqueBody: opaqueBody{ctx: req.Context(), src: f}, File: f, info: info, start: at}
				f.source = f
				return &f.opaqueBody
			}
		}
	}
	s := &stream{limit: limit, known: req.ContentLength}
	s.ctx, s.src, s.inMemory, s.source = req.Context(), req.Body, InMemory(req.Body), s
	return &s.opaqueBody
}

// begin opens the body of an attempt, whose context is ctx, and returns a
// GetBody for it, which fails once the attempt is over.
func (o *opaqueBody) begin(ctx context.Context) (own *reader, getBody func() (io.ReadCloser, error), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	attempt := o.attempt
	if own, err = o.add(ctx, attempt); err != nil {
		return nil, nil, err
	}
	own.own = true
	o.unwatch = context.AfterFunc(ctx, func() { o.end(attempt) })
	return own, func() (io.ReadCloser, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if attempt != o.attempt {
			return nil, ErrOver
		}
		return o.add(ctx, attempt)
	}, nil
}

func (o *opaqueBody) add(ctx context.Context, attempt int) (*reader, error) {
	if err := o.obstacle(); err != nil {
		return nil, err
	}
	// A copy that is not yet read when the next is opened is as good as
	// forgotten, and holds nothing: net/http replays a stream over a connection
	// that turns out to be unusable, and then opens another copy without closing
	// that one (http2shouldRetryRequest). If it is read after all, it is back.
	o.open = slices.DeleteFunc(o.open, func(r *reader) bool { return !r.own && !r.begun })
	r := &reader{body: o, ctx: ctx, attempt: attempt}
	o.open = append(o.open, r)
	return r, nil
}

// end ends the readers of an attempt, when its context ends or Prepare's own body
// is closed.
func (o *opaqueBody) end(attempt int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if attempt == o.attempt {
		o.wrapped = false
		for _, r := range slices.Clone(o.open) { // leave takes it off
			r.leave(ErrOver)
		}
	}
	if o.done() || o.ctx.Err() != nil {
		o.closeSource()
	}
}

func (o *opaqueBody) check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.obstacle()
}

func (o *opaqueBody) obstacle() error {
	if o.closed != nil {
		return over(o.ctx)
	}
	return o.source.check()
}

// over is why a body can't be read any more: the end of ctx, if that came first
// or may have been the reason.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrOver
}

// hold stops the source from being read on until Fence or Last. A Read under way
// gets its grace, which the end of the request's context or cancel cuts short.
func (o *opaqueBody) hold(cancel <-chan struct{}) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var step *time.Timer
	for left := graceSteps; ; {
		if err := o.obstacle(); err != nil {
			return err
		}
		o.held = true
		reading, mayBlock := o.source.pending()
		switch {
		case !reading:
			return nil
		case left == 0:
			return ErrBlocked
		case step == nil:
			step = time.NewTimer(graceStep)
			defer step.Stop()
		}
		changed := o.nextChange()
		o.mu.Unlock()
		select {
		case <-changed:
		case <-o.ctx.Done():
			left = 0
		case <-cancel:
			left = 0
		case <-step.C:
			runtime.Gosched() // lets a late Read run
			if mayBlock {
				left--
			}
			step.Reset(graceStep)
		}
		o.mu.Lock()
	}
}

// Fence ends an attempt: its bodies can't be read any more, whatever its base
// still does with them.
func (o *opaqueBody) Fence() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopWatch()
	o.attempt++
	o.open, o.held, o.wrapped = nil, false, false
	o.signal()
}

// Last says that the attempt that is open is the last. It returns what will be
// closed with the source, if that is being closed.
func (o *opaqueBody) Last() (closing <-chan struct{}) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.final, o.held = true, false
	o.signal()
	switch {
	case o.done():
		return o.closeSource()
	case len(o.open) == 1 && !o.wrapped && o.closed == nil:
		o.source.free(o.open[0])
	}
	return nil
}

// done reports whether no reader will need the source again.
func (o *opaqueBody) done() bool { return o.final && len(o.open) == 0 && !o.wrapped }

// closeSource closes the source once, on the side: a Close may wait for the Read
// that it ends, or read on by itself, as that of a server's request body does.
func (o *opaqueBody) closeSource() <-chan struct{} {
	if o.closed != nil {
		return o.closed
	}
	o.stopWatch()
	o.source.free(nil)
	closed := make(chan struct{})
	o.closed = closed
	closing := func() {
		defer close(closed)
		Close(o.src)
	}
	if o.inMemory {
		closing()
	} else {
		go closing()
	}
	return closed
}

func (o *opaqueBody) stopWatch() {
	if o.unwatch != nil {
		o.unwatch()
	}
}

// signal wakes the goroutines that wait for a change.
func (o *opaqueBody) signal() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// await waits for a change, without the lock meanwhile.
func (o *opaqueBody) await() {
	changed := o.nextChange()
	o.mu.Unlock()
	<-changed
	o.mu.Lock()
}

func (o *opaqueBody) nextChange() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}
