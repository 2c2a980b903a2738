package testkit

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Body counts its closes and what is read of it, and fails reads after the
// first close.
type Body struct {
	io.ReadCloser
	closes atomic.Int64
	read   atomic.Int64
}

// Close closes what the Body wraps.
func (b *Body) Close() error {
	b.closes.Add(1)
	return b.ReadCloser.Close()
}

// Closes returns how often the Body was closed.
func (b *Body) Closes() int { return int(b.closes.Load()) }

func (b *Body) Read(p []byte) (int, error) {
	if b.Closes() > 0 {
		return 0, errors.New("read after close")
	}
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// BytesRead returns how much was read.
func (b *Body) BytesRead() int64 { return b.read.Load() }

// Source is a Body over a reader, of which it shows nothing but Read.
func Source(r io.Reader) *Body { return &Body{ReadCloser: io.NopCloser(OnlyReader(r))} }

// Opaque is a body that net/http can't reopen.
func Opaque(content string) *Body { return Source(strings.NewReader(content)) }

// OnlyReader hides what else a reader can do.
func OnlyReader(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

// A ReaderFunc is a reader of a function.
type ReaderFunc func([]byte) (int, error)

// Read calls the function.
func (f ReaderFunc) Read(p []byte) (int, error) { return f(p) }

// Endless gives bytes without end.
var Endless = ReaderFunc(func(p []byte) (int, error) { return len(p), nil })

// Reopener is a GetBody that keeps the bodies it has opened.
type Reopener struct {
	Content string
	Opened  []*Body
}

// Open opens another body.
func (r *Reopener) Open() (io.ReadCloser, error) {
	r.Opened = append(r.Opened, Opaque(r.Content))
	return r.Opened[len(r.Opened)-1], nil
}

// OpenFile opens a new file and moves to an offset.
func OpenFile(t testing.TB, content string, at int64) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return Reopen(t, name, at)
}

// Reopen opens a file and moves to an offset.
func Reopen(t testing.TB, name string, at int64) *os.File {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	_, err = f.Seek(at, io.SeekStart)
	require.NoError(t, err)
	return f
}

// Closed reports whether a file is closed.
func Closed(f *os.File) bool {
	_, err := f.Stat()
	return errors.Is(err, os.ErrClosed)
}
