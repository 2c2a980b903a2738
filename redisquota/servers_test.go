package redisquota_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// dial returns a client of a server as programs have it.
func dial(t testing.TB, option rueidis.ClientOption) *redisquota.LazyRueidis {
	t.Helper()
	client := redisquota.DialRueidis(option)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func check(t testing.TB, fleet *redisquota.Fleet) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return fleet.Check(ctx)
}

// Without Redis's help a process decides by its own gate, and says why.
func requireAlone(t *testing.T, fleet *redisquota.Fleet, says string) {
	t.Helper()
	quota := fleet.Quota("alone")
	f := failure()
	quota.Failed(f)
	require.True(t, quota.Take(t.Context(), f))
	require.Eventually(t, func() bool { return fleet.Stats().Errors > 0 }, 5*time.Second, 5*time.Millisecond)
	require.ErrorContains(t, fleet.Stats().LastError, says)
}

// requireVerdict waits until a quota knows what the fleet knows.
func requireVerdict(t *testing.T, fleet *redisquota.Fleet) {
	t.Helper()
	quota := fleet.Quota("verdict")
	begun := time.Now()
	if !within(20*time.Second, func() bool {
		quota.Answered(retrip.Success, 0) // a shut gate reports no failures
		quota.Failed(failure())
		age := quota.Stats().Age
		return age >= 0 && age < time.Since(begun)
	}) {
		t.Fatal("no verdict; last error ", fleet.Stats().LastError)
	}
}

// within tries until a condition holds or the time is up.
func within(d time.Duration, holds func() bool) bool {
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

var aclLine = regexp.MustCompile("(?m)^ {4}(ACL SETUSER .*)$")

// aclLines are the README's, for a server and what a cluster needs beside it.
func aclLines(t *testing.T) (lines [][]string) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, line := range aclLine.FindAllStringSubmatch(string(readme), -1) {
		lines = append(lines, strings.Fields(line[1]))
	}
	require.Len(t, lines, 2)
	return lines
}

// The README's line gives a user all that is needed, and no more: without any of its
// commands, an error says so.
func TestACL(t *testing.T) {
	words := aclLines(t)[0]
	withServers(t, func(t *testing.T, program string) {
		s := serve(t, program)
		admin := s.client()
		try := func(words []string) error {
			do(t, admin, "ACL", "DELUSER", words[2])
			do(t, admin, words...)
			do(t, admin, "SCRIPT", "FLUSH")
			option := s.options()
			option.Username, option.Password = words[2], strings.TrimPrefix(words[4], ">")
			option.Dialer.KeepAlive = 20 * time.Millisecond // pings, which the user may not
			fleet := newFleet(t, dial(t, option), redisquota.Options{Prefix: "production"})
			err := check(t, fleet)
			if err == nil {
				time.Sleep(50 * time.Millisecond) // a ping or two
				return check(t, fleet)
			}
			requireAlone(t, fleet, "README")
			return err
		}
		require.NoError(t, try(words))
		for i, word := range words {
			if strings.HasPrefix(word, "+") {
				without := append(append([]string{}, words[:i]...), words[i+1:]...)
				require.ErrorContains(t, try(without), "see the line in the module's README", "without %s", word)
			}
		}
		other := append([]string{}, words...)
		other[5] = "~staging:*"
		require.ErrorContains(t, try(other), "Options.Prefix")
	})
}

// What a server refuses is said with its remedy, and requests go on.
func TestServerRefuses(t *testing.T) {
	type row struct {
		args   []string
		option func(*rueidis.ClientOption)
		set    func(*testing.T, *server)
		says   string
	}
	rows := map[string]row{
		"no password": {args: []string{"--requirepass", "secret"}, says: "set it in the client's options"},
		"wrong password": {args: []string{"--requirepass", "secret"}, says: "user name or password is wrong",
			option: func(o *rueidis.ClientOption) { o.Password = "guess" }},
		"replica": {args: []string{"--replicaof", "127.0.0.1 1"}, says: "the address of the primary"},
		"no memory": {says: "set maxmemory-policy", set: func(t *testing.T, s *server) {
			do(t, s.client(), "CONFIG", "SET", "maxmemory", "1")
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			withServers(t, func(t *testing.T, program string) {
				s := serve(t, program, row.args...)
				if row.set != nil {
					row.set(t, s)
				}
				option := s.options()
				if row.option != nil {
					row.option(&option)
				}
				fleet := newFleet(t, dial(t, option), redisquota.Options{})
				require.ErrorContains(t, check(t, fleet), row.says)
				requireAlone(t, fleet, row.says)
				require.True(t, fleet.Stats().Blind)
			})
		})
	}
}

// A server that evicts keys forgets dependencies, and works.
func TestServerEvicts(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		s := serve(t, program, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
		fleet := newFleet(t, dial(t, s.options()), redisquota.Options{})
		admin := s.client()
		text := strings.Repeat("x", 10_000)
		for i := range 1000 {
			do(t, admin, "SET", strconv.Itoa(i), text)
			if i%10 == 0 {
				require.NoError(t, check(t, fleet))
			}
		}
	})
}

// A fleet gets over what happens to its server, without being started anew.
func TestServerComesBack(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, s *server, fleet *redisquota.Fleet){
		"SCRIPT FLUSH": func(t *testing.T, s *server, fleet *redisquota.Fleet) {
			do(t, s.client(), "SCRIPT", "FLUSH")
			requireVerdict(t, fleet)
			require.Zero(t, fleet.Stats().Errors)
		},
		"FLUSHALL": func(t *testing.T, s *server, fleet *redisquota.Fleet) {
			do(t, s.client(), "FLUSHALL")
			requireVerdict(t, fleet)
			require.Zero(t, fleet.Stats().Errors)
		},
		"CLIENT KILL": func(t *testing.T, s *server, _ *redisquota.Fleet) {
			do(t, s.client(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
		"hung": func(t *testing.T, s *server, fleet *redisquota.Fleet) {
			s.signal(syscall.SIGSTOP)
			requireQuick(t, fleet)
			requireAlone(t, fleet, context.DeadlineExceeded.Error())
			s.signal(syscall.SIGCONT)
		},
		"killed": func(t *testing.T, s *server, fleet *redisquota.Fleet) {
			s.kill()
			requireQuick(t, fleet)
			requireAlone(t, fleet, "")
			s.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withServers(t, func(t *testing.T, program string) {
				s := serve(t, program)
				fleet := newFleet(t, dial(t, s.options()), redisquota.Options{Interval: 50 * time.Millisecond})
				requireVerdict(t, fleet)
				happens(t, s, fleet)
				requireVerdict(t, fleet)
			})
		})
	}
}

// requireQuick says that retries wait little without Redis. One that a busy machine
// delays is no fault.
func requireQuick(t *testing.T, fleet *redisquota.Fleet) {
	t.Helper()
	late := 0
	for range 100 {
		f := failure()
		quota := fleet.Quota("quick")
		quota.Failed(f)
		begun := time.Now()
		quota.Take(t.Context(), f)
		if time.Since(begun) > 25*time.Millisecond {
			late++
		}
	}
	require.LessOrEqual(t, late, 5)
}

// Redis may be down at the start.
func TestServerDownAtStart(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		s := prepare(t, program)
		fleet := newFleet(t, dial(t, s.options()), redisquota.Options{Interval: 50 * time.Millisecond})
		require.ErrorContains(t, check(t, fleet), "refused")
		requireQuick(t, fleet)
		s.start()
		requireVerdict(t, fleet)
	})
}

func TestTLS(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		s := prepare(t, program)
		certificate, key, roots := selfSigned(t)
		s.args = []string{
			"--port", "0", "--tls-port", strconv.Itoa(s.port), "--tls-auth-clients", "no",
			"--tls-cert-file", s.write("cert.pem", certificate), "--tls-key-file", s.write("key.pem", key),
			"--tls-ca-cert-file", s.write("ca.pem", certificate),
		}
		s.start()
		option := s.options()
		option.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "redis.example", MinVersion: tls.VersionTLS12}
		require.NoError(t, check(t, newFleet(t, dial(t, option), redisquota.Options{})))
		option.TLSConfig = &tls.Config{ServerName: "redis.example", MinVersion: tls.VersionTLS12}
		unknown := check(t, newFleet(t, dial(t, option), redisquota.Options{}))
		require.ErrorContains(t, unknown, "certificate")
	})
}

// selfSigned returns a certificate of redis.example and its key, as PEM.
func selfSigned(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"redis.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	certificate = encode("CERTIFICATE", der)
	roots = x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(certificate)))
	return certificate, encode("PRIVATE KEY", private), roots
}

// failing is a Client of a server that always says the same.
type failing string

func (f failing) Eval(context.Context, string, string, ...string) ([]int64, error) {
	return nil, errors.New(string(f))
}

// What servers say that tests can't start has its remedy, too.
func TestErrorsSayWhatToDo(t *testing.T) {
	for says, remedy := range map[string]string{
		"ERR unknown command 'EVALSHA'": "use Redis 6.2 or later",
		"ERR Error running script (call to f_0): @user_script:51: Write commands not allowed after non deterministic commands": "use Redis 6.2 or later",
		"CLUSTERDOWN The cluster is down":                      "until it is back",
		"MOVED 1234 127.0.0.1:7000":                            "use a cluster client",
		"MISCONF Redis is configured to save RDB snapshots":    "see its log",
		"LOADING Redis is loading the dataset in memory":       "is starting",
		"NOAUTH Authentication required.":                      "set it in the client's options",
		"-NOPERM this user has no permissions":                 "README",
		"dial tcp 127.0.0.1:6379: connect: connection refused": "connection refused",
	} {
		err := check(t, newFleet(t, failing(says), redisquota.Options{}))
		require.ErrorContains(t, err, remedy)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "redisquota: ")
	}
}

var readmeCommand = regexp.MustCompile("(?m)^ {4}((?:printf|for) .*)$")

// The README's commands show which key is whose, and the state of all.
func TestReadmeCommands(t *testing.T) {
	withServers(t, func(t *testing.T, program string) {
		cli := strings.Replace(program, "server", "cli", 1)
		if _, err := exec.LookPath(cli); err != nil {
			t.Skip(err)
		}
		s := serve(t, program)
		fleet := newFleet(t, dial(t, s.options()), redisquota.Options{Prefix: "production", Interval: 50 * time.Millisecond})
		quota := fleet.Quota("api.example")
		quota.Answered(retrip.Success, 0)
		quota.Failed(failure())
		require.True(t, within(10*time.Second, func() bool { return quota.Stats().FleetDoubt == 1 }))
		readme, err := os.ReadFile("README.md")
		require.NoError(t, err)
		lines := readmeCommand.FindAllStringSubmatch(string(readme), -1)
		require.Len(t, lines, 2)
		var said []string
		for _, line := range lines {
			script := fmt.Sprintf("redis-cli() { command %s -p %d \"$@\"; }\n%s", cli, s.port, line[1])
			out, err := exec.Command("bash", "-c", script).CombinedOutput()
			require.NoError(t, err, "%s", out)
			said = append(said, strings.TrimSpace(string(out)))
		}
		require.Equal(t, "production:1:{"+said[0]+"}", quota.Stats().RedisKey)
		require.Equal(t, quota.Stats().RedisKey+" 4 2", said[1])
	})
}
