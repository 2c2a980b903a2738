package replay

import (
	"context"
	"slices"
)

// A reader reads a shared body from its beginning: it is the body of an attempt,
// or a copy that the base or Prepare got from GetBody.
type reader struct {
	shared  *shared
	ctx     context.Context // of its attempt
	attempt int
	own     bool // the attempt's own body, not a copy of it
	begun   bool // somebody has begun to read it
	closed  bool
	end     error // how the source ended, once it was told
	at      position
}

// A position is how far a reader is.
type position struct {
	offset  int64 // in a file
	chunk   int   // in what is kept of a stream: the chunks before this one are read,
	within  int   // and this much of it
	nothing bool  // the last Read of the stream gave nothing, not even an end
}

// Read returns what the source has for r, or waits for it.
func (r *reader) Read(p []byte) (n int, err error) {
	s := r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.begun && !r.closed && r.attempt == s.attempt {
		r.begun = true
		if !slices.Contains(s.open, r) {
			s.open = append(s.open, r)
		}
	}
	for ok := false; !ok; {
		switch {
		case r.attempt != s.attempt:
			return 0, ErrOver
		case r.closed:
			return 0, over(r.ctx)
		case len(p) == 0:
			return 0, nil
		case r.end != nil:
			return 0, r.end
		case s.closed != nil:
			return 0, over(r.ctx) // never a clean end: what was kept is gone
		}
		n, ok, err = s.source.read(r, p)
	}
	return n, err
}

// Close ends the reading at once. It closes the source only if this was the last
// attempt's last reader.
func (r *reader) Close() error {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	r.leave()
	return nil
}

func (r *reader) leave() {
	if r.closed || r.attempt != r.shared.attempt {
		return
	}
	r.closed = true
	r.depart()
	r.shared.signal()
}

// finish ends the reading with what the source ended with.
func (r *reader) finish(end error) error {
	r.end = end
	r.depart()
	return end
}

// depart takes r off the list of those who may still need the source.
func (r *reader) depart() {
	s := r.shared
	s.open = slices.DeleteFunc(s.open, func(other *reader) bool { return other == r })
	if s.done() {
		s.closeSource()
	}
}
