//go:build toxiproxy

package realservers

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// startRedis starts a server on a loopback port, which ends with the test.
func startRedis(t *testing.T) (addr string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = free.Addr().String()
	require.NoError(t, free.Close())
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
	return addr
}

// verdict waits until the quota has heard of the fleet since it was called.
func verdict(t *testing.T, quota *redisquota.Quota) {
	t.Helper()
	begun := time.Now()
	require.Eventually(t, func() bool {
		quota.Answered(retrip.Success, 0)
		age := quota.Stats().Age
		return age >= 0 && age < time.Since(begun)
	}, 20*time.Second, 20*time.Millisecond)
}

// Whatever the network between a process and Redis does, retries wait no longer than
// 20 ms for it, are allowed by the process's own gate, and the fleet is found again.
func TestRedisBehindToxiproxy(t *testing.T) {
	addr := startRedis(t)
	for name, toxic := range map[string]string{
		"latency of 5 ms":     `{"type": "latency", "attributes": {"latency": 5}}`,
		"latency of a second": `{"type": "latency", "attributes": {"latency": 1000}}`,
		"jitter":              `{"type": "latency", "attributes": {"latency": 20, "jitter": 20}}`,
		"black hole":          `{"type": "timeout", "attributes": {"timeout": 0}}`,
		"timeout":             `{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 100}}`,
		"reset":               `{"type": "reset_peer", "attributes": {"timeout": 0}}`,
		"ends early":          `{"type": "limit_data", "attributes": {"bytes": 20}}`,
		"byte by byte":        `{"type": "slicer", "attributes": {"average_size": 1, "delay": 100}}`,
		"down":                "",
	} {
		t.Run(name, func(t *testing.T) {
			control := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
			proxy := toxiproxy.NewProxy(control, t.Name(), "127.0.0.1:0", addr)
			require.NoError(t, proxy.Start())
			t.Cleanup(func() { proxy.Stop() })
			listen := proxy.Listen

			client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{listen}, ConnWriteTimeout: time.Second})
			t.Cleanup(func() { _ = client.Close() })
			fleet, err := redisquota.New(client, redisquota.Options{Interval: 50 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { _ = fleet.Close() })
			quota := fleet.Quota(fmt.Sprint("http://api.example/", name))
			verdict(t, quota)
			if toxic == "" {
				proxy.Stop()
			} else {
				_, err = proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
				require.NoError(t, err)
			}
			requireAllowedSoon(t, quota)
			if toxic == "" {
				require.NoError(t, proxy.Start())
			} else {
				proxy.Toxics.ResetToxics(t.Context())
			}
			verdict(t, quota)
		})
	}
}

// requireAllowedSoon has requests fail alone for a second: each is allowed a retry. On a
// busy machine, one in ten may be late.
func requireAllowedSoon(t *testing.T, quota *redisquota.Quota) {
	t.Helper()
	var took []time.Duration
	for range 50 {
		f := retrip.Failure{Class: retrip.Transient, Attempt: 1, MaxAttempts: 3, Done: time.Now()}
		quota.Failed(f)
		begun := time.Now()
		require.True(t, quota.Take(t.Context(), f))
		took = append(took, time.Since(begun))
		quota.Answered(retrip.Success, 0)
		time.Sleep(20 * time.Millisecond)
	}
	slices.Sort(took)
	t.Logf("%v at most, %v for nine of ten", took[len(took)-1], took[len(took)*9/10])
	require.LessOrEqual(t, took[len(took)*9/10], 25*time.Millisecond)
}
