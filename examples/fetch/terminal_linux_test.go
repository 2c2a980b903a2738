package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// terminal returns a terminal, and a function that closes it and returns what was
// written to it.
func terminal(t *testing.T) (tty *os.File, written func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine gives no pseudo-terminal: ", err)
	}
	var number, locked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine gives no pseudo-terminal: ", err)
	}
	var text strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&text, control) // ends with an error when tty is closed
	}()
	return tty, func() string {
		require.NoError(t, tty.Close())
		<-done
		require.NoError(t, control.Close())
		return strings.ReplaceAll(text.String(), "\r\n", "\n")
	}
}

// On a terminal, one line shows which attempt failed, and then how much has come.
func TestTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) }) // after the subtests
	const failed = "\rattempt 1: 503 Service Unavailable, transient, again in <wait> (backoff)"
	for _, test := range []struct {
		name   string
		stdout func(tty io.Writer) io.Writer
		output string
		want   []string // parts of the line
	}{
		{"to a file", nil, "out", []string{failed, "1.0 MiB\n"}},
		{"to a pipe", nil, "", []string{failed, "1.0 MiB\n"}},
		{"to the null device", func(io.Writer) io.Writer { return null }, "", []string{failed, "1.0 MiB\n"}},
		{"to the terminal itself", func(tty io.Writer) io.Writer { return tty }, "", []string{failed, "xxx"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answer(http.StatusServiceUnavailable, "busy"), answer(200, strings.Repeat("x", 1<<20)))
			tty, written := terminal(t)
			stdout := io.Discard
			if test.stdout != nil {
				stdout = test.stdout(tty)
			}
			args := []string{server.URL}
			if test.output != "" {
				args = []string{"-o", filepath.Join(t.TempDir(), test.output), server.URL}
			}
			require.Zero(t, run(t.Context(), args, strings.NewReader(""), stdout, tty))
			shown := normal(written())
			for _, part := range test.want {
				require.Contains(t, shown, part)
			}
			require.Equal(t, test.stdout == nil || test.name == "to the null device", strings.Contains(shown, "MiB"))
		})
	}
}

// What is no terminal sees no progress.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	server := serve(t, answer(http.StatusServiceUnavailable, "busy"), answer(200, "content"))
	file := filepath.Join(t.TempDir(), "out")
	require.Equal(t, result{}, fetch(t.Context(), "", "-o", file, server.URL))
}
