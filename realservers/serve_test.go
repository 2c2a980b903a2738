//go:build nginx || haproxy

package realservers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server is nginx or HAProxy at work, until the test ends.
type server struct {
	t     *testing.T
	stdin io.WriteCloser
}

// serve starts the named server. $dir and the names in vars are replaced in
// the configuration; addrs are where the server will listen.
func serve(t *testing.T, name, configuration string, vars map[string]string, addrs ...string) *server {
	t.Helper()
	dir := t.TempDir()
	vars["dir"] = dir
	configuration = os.Expand(configuration, func(name string) string {
		if value, ours := vars[name]; ours {
			return value
		}
		return "$" + name // a variable of the server's own
	})
	file := map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(configuration), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pair.pem"), certificate(t).pem, 0o600))

	var output bytes.Buffer
	cmd := exec.Command("./serve.sh", name, dir)
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		err := cmd.Wait() // also until nobody holds its output any more: all of its processes are gone
		if t.Failed() {
			logged, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("%s ended with %v and said:\n%s%s", name, err, output.String(), tail(string(logged), 4000))
		}
	})
	for _, addr := range addrs {
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}, 2*time.Minute, 20*time.Millisecond, "%s does not listen on %s", name, addr) // it may have to be installed first
	}
	return &server{t, stdin}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (s *server) reload() {
	if _, err := fmt.Fprintln(s.stdin, "reload"); err != nil {
		s.t.Error(err)
	}
}

// countDials counts the connections that b opens.
func countDials(b http.RoundTripper) *atomic.Int64 {
	var n atomic.Int64
	b.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return &n
}

// reloadEvery reloads the server again and again until stop is called.
func (s *server) reloadEvery(d time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(d):
				s.reload()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// freeAddr is an address to listen on. Its port is not one of those that the
// system gives to outgoing connections, which might take it meanwhile.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// host is the address in a server's URL.
func host(url string) string { return strings.TrimPrefix(url, "http://") }
