package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

const noServer = `there is neither a redis-server nor a valkey-server here.
Install one (on Debian: apt-get install redis-server), or give the address of one: -redis host:port`

// startRedis starts a server on a loopback port, with nothing kept on disk.
func startRedis() (addr string, stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		program, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return "", nil, errors.New(noServer)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "")
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(20 * time.Millisecond) { // it starts in real time
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return addr, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("%s does not start", program)
}
