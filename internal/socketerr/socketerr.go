//go:build !plan9

// Package socketerr names the errors of sockets that tests let a base return,
// for every system that Go has. Package syscall lacks them on Plan 9.
package socketerr

import "syscall"

const (
	BrokenPipe  = syscall.EPIPE
	ConnRefused = syscall.ECONNREFUSED
	ConnReset   = syscall.ECONNRESET
)
