package replay

import (
	"context"
	"slices"
)

// A reader reads an opaque body from its beginning: it is the body of an attempt,
// or a copy that the base or Prepare got from GetBody.
type reader struct {
	body    *opaqueBody
	ctx     context.Context // of its attempt
	attempt int
	own     bool  // the attempt's own body, not a copy of it
	begun   bool  // it has been read from
	end     error // ErrOver if it was closed, or how the source ended, once it was told

	offset  int64 // in a file
	chunk   int   // in what is kept of a stream: the chunks before this one are read,
	within  int   // and this much of it
	nothing bool  // the last Read of the stream gave nothing, not even an end
}

// Read returns what the source has for r, or waits for it.
func (r *reader) Read(p []byte) (n int, err error) {
	o := r.body
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.begun && r.end == nil && r.attempt == o.attempt {
		r.begun = true
		if !slices.Contains(o.open, r) {
			o.open = append(o.open, r)
		}
	}
	for ok := false; !ok; {
		end := r.end
		if end == nil && o.closed != nil {
			end = ErrOver // never a clean end: what was kept is gone
		}
		switch {
		case r.attempt != o.attempt:
			return 0, ErrOver
		case end == ErrOver:
			return 0, over(r.ctx)
		case end != nil || len(p) == 0:
			return 0, end
		}
		n, ok, err = o.source.read(r, p)
	}
	return n, err
}

// Close ends the reading at once. It closes the source only if this was the last
// attempt's last reader.
func (r *reader) Close() error {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	r.leave(ErrOver)
	return nil
}

// leave takes r off the list of readers that may still need the source, and returns
// the error of its further Reads.
func (r *reader) leave(end error) error {
	o := r.body
	if r.end != nil || r.attempt != o.attempt {
		return end
	}
	r.end = end
	o.open = slices.DeleteFunc(o.open, func(other *reader) bool { return other == r })
	o.signal()
	if o.done() {
		o.closeSource()
	}
	return end
}
