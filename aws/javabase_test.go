package aws

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever sleeps in this file sleeps in a bubble's virtual time.

// The limits of the client that JavaV1 had, on a connection that keeps silent.
func TestJavaV1Base(t *testing.T) {
	base := JavaV1Base()
	require.Equal(t, 50, base.MaxConnsPerHost)
	require.Equal(t, 50, base.MaxIdleConnsPerHost)
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		base := JavaV1Base()
		base.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return silentConn{client, 50 * time.Second}, nil
		}
		go func() {
			r := bufio.NewReader(server)
			for range 2 {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				time.Sleep(49 * time.Second) // just not too long
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				time.Sleep(49 * time.Second)
				_, _ = io.WriteString(server, "ok")
			}
			_, _ = http.ReadRequest(r)
		}()
		fetch := func(method string) error {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://example.com/", nil)
			if err != nil {
				return err
			}
			resp, err := base.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
		require.NoError(t, fetch("GET"))
		require.NoError(t, fetch("GET"))
		start := time.Now()
		err := fetch("POST") // a GET would be replayed on a new connection
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, 50*time.Second, time.Since(start))
		_ = server.Close()
		base.CloseIdleConnections()
	})
}
