//go:build !plan9

package retrip

import "syscall"

// An errno is an error number of the system. Its text is one of a fixed list,
// so it holds nothing secret.
type errno = syscall.Errno
