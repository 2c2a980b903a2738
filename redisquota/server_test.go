package redisquota_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// need names programs whose absence fails tests, which otherwise skip what needs them.
// What takes long needs to be asked for by it.
var need = flag.String("need", "", "servers that must be there: redis-server,valkey-server")

func needed(program string) bool { return slices.Contains(strings.Split(*need, ","), program) }

// withServersForLong is withServers for what takes long.
func withServersForLong(t *testing.T, test func(t *testing.T, program string)) {
	withServers(t, func(t *testing.T, program string) {
		if !needed(program) {
			t.Skipf("takes long: go test -need %s", program)
		}
		test(t, program)
	})
}

// programs are the servers that tests run.
var programs = []string{"redis-server", "valkey-server"}

// withServers runs a test for each kind of server.
func withServers(t *testing.T, test func(t *testing.T, program string)) {
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			if testing.Short() {
				t.Skip("-short starts no servers")
			}
			if _, err := exec.LookPath(program); err != nil {
				if needed(program) {
					t.Fatal(err)
				}
				t.Skipf("%s is not installed", program)
			}
			test(t, program)
		})
	}
}

// A server is a process of Redis or Valkey on a loopback port, which ends with the test.
type server struct {
	t       *testing.T
	program string
	dir     string
	port    int
	args    []string

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

// serve starts a server with options as in its configuration file: "--save", "".
func serve(t *testing.T, program string, args ...string) *server {
	t.Helper()
	s := prepare(t, program, args...)
	s.start()
	return s
}

// prepare makes a server that does not run yet.
func prepare(t *testing.T, program string, args ...string) *server {
	t.Helper()
	s := &server{t: t, program: program, dir: t.TempDir(), port: freePort(t), args: args}
	t.Cleanup(s.kill)
	return s
}

// freePort returns a loopback port that was free a moment ago, as was the port 10 000
// above it, on which nodes of a cluster talk.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		if port > 55_000 {
			continue
		}
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10_000)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// start runs the server, and waits until it accepts connections.
func (s *server) start() {
	s.t.Helper()
	args := []string{"--bind", "127.0.0.1", "--port", fmt.Sprint(s.port), "--dir", s.dir, "--save", "", "--appendonly", "no"}
	cmd := exec.Command(s.program, append(args, s.args...)...)
	s.run(cmd)
}

// run runs a command as the server, which dies with the test's process.
func (s *server) run(cmd *exec.Cmd) {
	s.t.Helper()
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	dieWithParent(cmd)
	require.NoError(s.t, cmd.Start())
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	require.Eventually(s.t, func() bool {
		conn, err := net.Dial("tcp", s.addr())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond, "%s does not start", s.program)
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

// kill ends the server, even a stopped one.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// options are those of a client that gives up soon.
func (s *server) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{s.addr()}, DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Second},
	}
}

// client returns a client for tests to look at the server.
func (s *server) client() rueidis.Client {
	s.t.Helper()
	option := s.options()
	option.ForceSingleClient = true
	client, err := rueidis.NewClient(option)
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	return client
}

// do runs a command that must succeed.
func do(t *testing.T, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	result := client.Do(ctx, client.B().Arbitrary(words...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(t, err, "%q", words)
	}
	return result
}

// write writes a file into the server's directory and returns its name.
func (s *server) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
