package goredis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/retrip-go/retrip/examples/fleet/goredis"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

func Example() {
	server := miniredis.NewMiniRedis() // stands in for yours
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 []string{server.Addr()},
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		PoolSize:              2, // reports come one after another
	})
	defer client.Close()
	fleet, err := redisquota.New(goredis.New(client), redisquota.Options{Prefix: "production"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fleet.Close()
	fmt.Println(fleet.Check(context.Background()))
	// Output: <nil>
}

// A server that does not know the script any more gets it again, and its errors say
// what to do.
func TestScriptAndErrors(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	fleet, err := redisquota.New(goredis.New(client), redisquota.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = fleet.Close() })
	require.NoError(t, fleet.Check(t.Context()))
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	require.NoError(t, fleet.Check(t.Context()))
	server.SetError("NOPERM this user has no permissions")
	require.ErrorContains(t, fleet.Check(t.Context()), "README")
}

// A client that is told to obey the context does so, if the server hangs.
func TestServerHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err = goredis.New(client).Eval(ctx, redisquota.Script, "key", "0", "0", "0", "0", "1")
	require.Error(t, err)
	require.Less(t, time.Since(begun), time.Second)
}
