package redisquota_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a server with the test's process, however that ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
