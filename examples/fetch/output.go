package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// An output is where the response's body goes. A regular file is written beside
// its place and renamed at the end, so that a download that breaks off leaves the
// earlier file as it was.
type output struct {
	io.Writer
	file   *os.File // nil: standard output
	target string   // what file is to replace, or empty
}

// openOutput finds out before anything is sent whether -o can be written.
func openOutput(name string, stdout io.Writer) (*output, error) {
	if name == "" {
		return &output{Writer: stdout}, nil
	}
	out, err := openFile(name)
	if err != nil {
		return nil, fmt.Errorf("-o: %w: name a file that can be written, in a directory that can be written", err)
	}
	return out, nil
}

func openFile(name string) (*output, error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // keep the link
	}
	before, err := os.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if before != nil {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		if !before.Mode().IsRegular() { // a device or a pipe, which must not be replaced
			return &output{Writer: f, file: f}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	part := filepath.Join(filepath.Dir(name), ".fetch-"+strconv.FormatUint(rand.Uint64(), 36)+".part")
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	out := &output{Writer: f, file: f, target: name}
	if before != nil {
		if err := f.Chmod(before.Mode().Perm()); err != nil {
			out.discard()
			return nil, err
		}
	}
	return out, nil
}

// commit puts a complete file in its place.
func (o *output) commit() error {
	if o.file == nil {
		return nil
	}
	if err := o.file.Close(); err != nil || o.target == "" {
		return err
	}
	err := os.Rename(o.file.Name(), o.target)
	if err == nil {
		o.file, o.target = nil, ""
	}
	return err
}

// discard removes a file that was not committed.
func (o *output) discard() {
	if o.file != nil && o.target != "" {
		_ = o.file.Close() // what it says makes no difference
		_ = os.Remove(o.file.Name())
	}
}
