package retrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Read reads the file, or first what is kept and then the source.
func (b *attemptBody) Read(p []byte) (int, error) {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !b.read && !b.closed && b.attempt == r.attempt {
		b.read = true
		if !slices.Contains(r.bodies, b) {
			b.join()
		}
	}
	for {
		switch {
		case b.attempt != r.attempt:
			return 0, errBodyOver
		case b.closed:
			return 0, over(b.ctx)
		case len(p) == 0:
			return 0, nil
		case b.ended:
			return 0, r.end
		case r.file != nil:
			return b.readFile(p)
		case r.closed != nil:
			return 0, over(b.ctx) // never a clean end: what was kept is gone
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
	default:
		r.end, b.ended = err, true
		b.depart()
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
		if b.r.stream == b {
			b.r.chunks[b.chunk] = nil
		}
		b.chunk, b.within = b.chunk+1, 0
	}
	return nil
}

// maxChunk bounds one piece of what is kept, and one Read of the source.
const maxChunk = 64 << 10

// startReading lets a goroutine read on in the source, no more than b wants,
// who has read all that is kept; a source that can't block is read at once.
// Beyond the limit nothing is kept; to go there is the right of the body that is
// being sent. A copy may only look whether the source ends at the limit, and
// what it finds there is kept.
func (b *attemptBody) startReading(want int) error {
	r := b.r
	others := len(r.bodies) > 1 || r.wrapped
	sent := r.wrapped || b == r.bodies[0]
	keep := r.stream == nil && (!r.final || others) && (r.size < r.limit || r.size == r.limit && !sent)
	switch {
	case r.closed != nil:
		return over(b.ctx)
	case keep:
	case !sent:
		return errTooLong
	case len(r.buffer) < min(want, maxChunk):
		r.buffer = make([]byte, min(max(want, 4<<10), maxChunk))
	}
	into := r.buffer[:min(len(r.buffer), want)]
	if keep {
		into = r.tail(want)
	}
	r.reading = true
	r.begun.Store(false)
	if !r.inMemory {
		go r.readSource(into, keep, b)
		return nil
	}
	r.mu.Unlock()
	r.readSource(into, keep, b)
	r.mu.Lock()
	return nil
}

// tail is where the next bytes that are kept go. Chunks grow with the body, but
// not beyond what it can still have and one byte more, in which its end is seen.
func (r *replay) tail(want int) []byte {
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last]) == cap(r.chunks[last]) {
		size := max(1<<10, min(want, 4<<10))
		if last >= 0 {
			size = min(2*cap(r.chunks[last]), maxChunk)
		}
		room := max(r.limit-r.size, 1)
		if left := r.known - r.size; r.known > 0 && 0 <= left && left < room { // 0 with a body is unknown, as -1 is
			room = left + 1
		}
		r.chunks = append(r.chunks, make([]byte, 0, min(int64(size), room)))
		last++
	}
	c := r.chunks[last]
	return c[len(c):min(cap(c), len(c)+want)]
}

var errSourceQuit = errors.New("retrip: the request body's Read ended its goroutine")

// readSource reads the source once, in a goroutine if that may block.
func (r *replay) readSource(into []byte, keep bool, b *attemptBody) {
	n, err := 0, errSourceQuit // unless Read returns
	defer func() { r.read(into, n, err, keep, b) }()
	r.begun.Store(true)
	n, err = readChecked(r.src, into)
}

// read takes note of what a Read of the source gave.
func (r *replay) read(into []byte, n int, err error, keep bool, b *attemptBody) {
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
	b.depart()
	r.signal()
}

// join puts b on the list of those who may still need the source.
func (b *attemptBody) join() {
	b.stop = context.AfterFunc(b.ctx, b.abort)
	b.r.bodies = append(b.r.bodies, b)
}

// depart takes b off that list.
func (b *attemptBody) depart() {
	r := b.r
	b.stop()
	r.bodies = slices.DeleteFunc(r.bodies, func(other *attemptBody) bool { return other == b })
	if r.done() {
		r.closeSource()
	}
}
