package socketerr

import "syscall"

// An error of the system is its text here.
const (
	BrokenPipe  = syscall.ErrorString("write to a closed connection")
	ConnRefused = syscall.ErrorString("connection refused")
	ConnReset   = syscall.ErrorString("connection reset")
)
