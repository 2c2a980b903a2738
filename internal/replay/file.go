package replay

import (
	"io"
	"io/fs"
	"os"
)

// A file is an opaque body that is read at offsets, by each reader for itself.
type file struct {
	opaqueBody
	*os.File
	info   fs.FileInfo
	start  int64 // where the caller left it
	failed error
}

func (f *file) read(r *reader, p []byte) (n int, ok bool, err error) {
	if f.held {
		f.await()
		return 0, false, nil
	}
	at := f.start + r.offset
	f.mu.Unlock()
	n, err = f.ReadAt(p, at)
	f.mu.Lock()
	r.offset += int64(n)
	switch {
	case err == nil:
	case err != io.EOF:
		f.failed = err
	case n > 0:
		err = nil
	default:
		return 0, true, r.leave(err)
	}
	return n, true, err
}

func (f *file) check() error {
	if f.failed != nil {
		return ErrFailed
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != f.info.Size() || !info.ModTime().Equal(f.info.ModTime()) {
		return ErrFileChanged
	}
	return nil
}

func (f *file) failure() error { return f.failed }

func (f *file) pending() (reading, mayBlock bool) { return false, false }

func (f *file) free(*reader) {}
