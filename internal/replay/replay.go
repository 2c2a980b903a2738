// Package replay sends a request body more than once.
//
// A request has no body, or one that Request.GetBody reopens, or one that can be
// read only once, here called opaque. Of an opaque body each attempt gets a
// reader of its own. A regular file is read at offsets, which needs no memory.
// Any other source is read through once, as fast as its readers ask for it, and
// what it gave is kept up to a limit.
//
// Invariants:
//   - An attempt's body has every byte of the request's body or ends with an
//     error. A body that is cut short never ends with io.EOF.
//   - At most one Read of the source is under way. It asks for no more than a
//     reader wants, and begins only while a reader wants it.
//   - The source is closed once: when no reader may need it any more, or when the
//     request's context ends.
//   - Only a reader that wants more waits for the source. A Read of it that may
//     block has a goroutine of its own, so that a body can be closed, fenced and
//     held meanwhile.
//   - After Fence, readers of earlier attempts get no byte, and take none from
//     later ones.
package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"
)

// Why a body can't be read, or not again.
var (
	ErrOver        = errors.New("retrip: this request body belongs to an attempt that has ended")
	ErrTooLong     = errors.New("the request body is longer than Transport.ReplayBuffer: raise it, or set Request.GetBody")
	ErrFailed      = errors.New("the request body failed while it was read")
	ErrBlocked     = errors.New("a Read of the request body is still waiting for its source")
	errNoGetBody   = errors.New("Request.GetBody was set at first and is nil now: leave it as it was")
	ErrFileChanged = errors.New("the file that is the request body has changed since it was first sent")
)

// closeGrace is how long Finish waits for the source's Close, which may block. Our
// choice: a Close that needs only the processor is done by then.
const closeGrace = 10 * time.Millisecond

// A Body is the body of a request, for all of its attempts.
type Body struct {
	*opaqueBody // nil if it need not or can't be kept
	req         *http.Request
	held        io.ReadCloser // opened for an attempt, and not yet the base's to close
	finished    bool          // a source whose Close blocks is waited for once
}

// Begin holds the request's body until Sent. The request may be nil.
func (b *Body) Begin(req *http.Request) {
	b.req = req
	if hasBody(req) {
		b.held = req.Body
	}
}

func hasBody(req *http.Request) bool {
	return req != nil && req.Body != nil && req.Body != http.NoBody
}

// Opaque reports whether the body can be read only once, unless Keep is called.
func (b *Body) Opaque() bool { return b.held != nil && b.req.GetBody == nil }

// Keep lets an opaque body be read more than once: of its source, up to limit
// bytes are kept. It does nothing to other bodies.
func (b *Body) Keep(limit int64) {
	if b.Opaque() {
		b.opaqueBody, b.held = newOpaqueBody(b.req, limit), nil
	}
}

// Kept reports whether attempts need a body of their own.
func (b *Body) Kept() bool { return b.opaqueBody != nil }

// Open puts the coming attempt's body into out, a copy of the request. ctx is
// the attempt's context.
func (b *Body) Open(ctx context.Context, out *http.Request) error {
	if b.opaqueBody != nil {
		own, getBody, err := b.begin(ctx)
		if err != nil {
			return err
		}
		b.held, out.GetBody = own, getBody
	}
	if b.held != nil {
		out.Body = b.held
	}
	if reopened, ok := b.held.(*watchedBody); ok {
		reopened.watchCopies(out)
	}
	return nil
}

// Sent says that the base has returned: it closes the attempt's body.
func (b *Body) Sent() { b.held = nil }

// Check returns why the body can't be sent again, or nil. It changes nothing.
func (b *Body) Check() error {
	switch {
	case b.opaqueBody != nil:
		return b.check()
	case hasBody(b.req) && b.req.GetBody == nil:
		return errNoGetBody
	}
	return nil
}

// Hold is Check, but also stops an opaque body's source from being read on until
// Fence or Finish. A Read of it that is under way gets a grace of Grace, which
// the caller's cancelling the request cuts short.
func (b *Body) Hold() error {
	if b.opaqueBody == nil {
		return b.Check()
	}
	return b.hold(cancelled(b.req))
}

// Reopen calls GetBody for the next attempt, if the request has a body and that
// is not kept.
func (b *Body) Reopen() (err error) {
	if b.opaqueBody == nil && hasBody(b.req) {
		b.held, err = reopen(b.req)
	}
	return err
}

// Finish says that no attempt will follow, and closes what no base closes. An
// opaque body's source is closed as soon as the last attempt is done with it; if
// that is at once, Finish waits for it a moment.
func (b *Body) Finish() {
	if b.held != nil || b.opaqueBody != nil && !b.finished {
		b.finish()
	}
}

func (b *Body) finish() {
	b.finished = true
	if b.held != nil {
		Close(b.held)
		b.held = nil
		b.Fence() // with all copies
	}
	if b.opaqueBody == nil {
		return
	}
	closing := b.Last()
	if closing == nil {
		return
	}
	runtime.Gosched() // a Close that does not block is done after that
	select {
	case <-closing:
		return
	default:
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-closing:
	case <-timer.C:
	case <-b.req.Context().Done():
	case <-cancelled(b.req):
	}
}

// Close closes a body that is not read any more. There is a better reason to
// fail than its error or panic.
func Close(body io.Closer) {
	defer func() { _ = recover() }()
	if body != nil {
		_ = body.Close()
	}
}

func cancelled(req *http.Request) <-chan struct{} {
	//lint:ignore SA1019 deprecated for callers, not for transports
	return req.Cancel
}
