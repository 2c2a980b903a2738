package replay

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// maxChunk bounds one piece of what is kept, and one Read of the source. Our
// choice: above the 32 KiB that io.Copy reads at once.
const maxChunk = 64 << 10

// errSourceQuit is how a source ends whose Read does not return.
var errSourceQuit = errors.New("retrip: the request body's Read ended its goroutine (runtime.Goexit)")

// A stream is an opaque body that is read once. What its source gave is kept in
// chunks, up to a limit; one reader alone may go beyond it.
type stream struct {
	opaqueBody
	limit int64
	known int64 // the length that the request declares, if it does

	reading bool        // a Read of the source is under way
	begun   atomic.Bool // or about to be, until this is true
	ended   error       // how the source ended, or nil

	chunks [][]byte // what the source gave so far, while that is kept
	size   int64
	sole   *reader // the one that reads what is no longer kept, by way of:
	buffer []byte
	window []byte // the part of buffer that it has not read yet
}

// read gives r what is kept, and reads on in the source if r has read all of that.
func (s *stream) read(r *reader, p []byte) (n int, ok bool, err error) {
	switch {
	case s.sole != nil && s.sole != r:
		return 0, true, ErrTooLong // it has gone past
	case s.sole == r && len(s.window) > 0:
		n = copy(p, s.window)
		s.window = s.window[n:]
		return n, true, nil
	case len(s.unread(r)) > 0:
		n = copy(p, s.unread(r))
		r.within += n
		return n, true, nil
	case s.ended != nil:
		if raised, ok := s.ended.(*sourcePanic); ok {
			panic(raised.value)
		}
		return 0, true, r.leave(s.ended)
	case r.nothing:
		r.nothing = false
		return 0, true, nil
	case !s.held && !s.reading:
		err = s.start(r, len(p))
		return 0, err != nil, err
	default:
		s.await()
		return 0, false, nil
	}
}

// unread returns what is kept in one piece that r has not read. A chunk that is
// full is followed by another; one that is not may still grow.
func (s *stream) unread(r *reader) []byte {
	for ; r.chunk < len(s.chunks); r.chunk, r.within = r.chunk+1, 0 {
		c := s.chunks[r.chunk]
		if r.within < len(c) {
			return c[r.within:]
		}
		if len(c) < cap(c) {
			break
		}
		if s.sole == r {
			s.chunks[r.chunk] = nil
		}
	}
	return nil
}

// start reads on in the source, no more than r wants: at once if that can't
// block, and otherwise in a goroutine. Beyond the limit nothing is kept, and only
// the body that is being sent may go there. A copy may only look whether the
// source ends at the limit, and what it finds there is kept.
func (s *stream) start(r *reader, want int) error {
	others := len(s.open) > 1 || s.wrapped
	sent := s.wrapped || r == s.open[0]
	keep := s.sole == nil && (!s.final || others) && (s.size < s.limit || s.size == s.limit && !sent)
	var into []byte
	switch {
	case keep:
		into = s.tail(want)
	case !sent:
		return ErrTooLong
	default:
		if len(s.buffer) < min(want, maxChunk) {
			s.buffer = make([]byte, min(max(want, 4<<10), maxChunk))
		}
		into = s.buffer[:min(len(s.buffer), want)]
	}
	s.reading = true
	s.begun.Store(false)
	if !s.inMemory {
		go s.fill(into, keep, r)
		return nil
	}
	s.mu.Unlock()
	s.fill(into, keep, r)
	s.mu.Lock()
	return nil
}

// tail is where the next bytes that are kept go. Chunks grow with the body, but
// not beyond what it can still have and one byte more, in which its end is seen.
func (s *stream) tail(want int) []byte {
	last := len(s.chunks) - 1
	if last < 0 || len(s.chunks[last]) == cap(s.chunks[last]) {
		size := max(1<<10, min(want, 4<<10))
		if last >= 0 {
			size = min(2*cap(s.chunks[last]), maxChunk)
		}
		room := max(s.limit-s.size, 1)
		if left := s.known - s.size; s.known > 0 && 0 <= left && left < room { // 0 with a body is unknown, as -1 is
			room = left + 1
		}
		s.chunks = append(s.chunks, make([]byte, 0, min(int64(size), room)))
		last++
	}
	c := s.chunks[last]
	return c[len(c):min(cap(c), len(c)+want)]
}

// fill reads the source once, without the lock, and takes note of what it gave.
func (s *stream) fill(into []byte, keep bool, r *reader) {
	n, err := 0, errSourceQuit // unless Read returns
	defer func() {
		if raised := recover(); raised != nil {
			err = &sourcePanic{raised}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reading, s.ended = false, err
		r.nothing = n == 0 && err == nil
		switch last := len(s.chunks) - 1; {
		case n == 0:
		case keep && last >= 0: // none are left if the source has been closed
			s.chunks[last] = s.chunks[last][:len(s.chunks[last])+n]
			s.size += int64(n)
		case !keep:
			s.sole, s.chunks, s.window = r, nil, into[:n]
		}
		s.signal()
	}()
	s.begun.Store(true)
	n, err = s.src.Read(into)
	if n < 0 || n > len(into) {
		n, err = 0, fmt.Errorf("retrip: the request body's Read returned %d for a buffer of %d bytes", n, len(into))
	}
}

// sourcePanic carries a panic of the source to whoever reads the body, where the
// base or its caller may expect it.
type sourcePanic struct{ value any }

func (e *sourcePanic) Error() string { return fmt.Sprintf("the request body panicked: %v", e.value) }

func (s *stream) check() error {
	switch {
	case s.ended != nil && s.ended != io.EOF:
		return ErrFailed
	case s.sole != nil:
		return ErrTooLong
	}
	return nil
}

func (s *stream) pending() (reading, mayBlock bool) {
	return s.reading, s.begun.Load() && !s.inMemory
}

func (s *stream) free(r *reader) {
	switch {
	case r == nil:
		s.chunks = nil
	case s.sole == nil: // what it has read is not needed again
		s.sole = r
		clear(s.chunks[:r.chunk])
	}
}
