package retrip

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// An answer that came in one piece is recognised, or each error answer costs a
// goroutine. It is net/http's own types that tell: another release of Go may change
// them, and then this fails.
func TestAnswersInOnePieceAreRecognised(t *testing.T) {
	const head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
	for name, tt := range map[string]struct {
		pieces []string
		whole  bool
	}{
		"one piece":             {[]string{head + "Content-Length: 5\r\n\r\n12345"}, true},
		"without its last byte": {[]string{head + "Content-Length: 5\r\n\r\n1234", "5"}, false},
		"headers first":         {[]string{head + "Content-Length: 5\r\n\r\n", "12345"}, false},
		"chunked":               {[]string{head + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n"}, false},
		"until the end":         {[]string{head + "Connection: close\r\n\r\n12345"}, false},
		"empty":                 {[]string{head + "Content-Length: 0\r\n\r\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go speak(theirs, tt.pieces, goOn)
					return ours, nil
				}}
				defer base.CloseIdleConnections()
				resp, err := base.RoundTrip(testkit.RequestTo(t, "GET", "http://example.com/", nil))
				require.NoError(t, err)
				require.Equal(t, tt.whole, arrivedWhole(resp))
				close(goOn)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

// speak reads a request and sends the pieces of an answer, the first at once.
func speak(conn net.Conn, pieces []string, goOn <-chan struct{}) {
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return
	}
	for _, piece := range pieces {
		if _, err := io.WriteString(conn, piece); err != nil {
			return
		}
		<-goOn
	}
}

// The retry of a request whose answer came in one piece goes over the same
// connection, even if it does not wait.
func TestAnswersInOnePieceFreeTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials++
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				for reader := bufio.NewReader(theirs); ; {
					if _, err := http.ReadRequest(reader); err != nil {
						return
					}
					_, _ = io.WriteString(theirs, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n12345")
				}
			}()
			return ours, nil
		}}
		defer base.CloseIdleConnections()
		transport := &Transport{Strategy: noWait(), Base: base}
		resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", "http://example.com/", nil))
		require.NoError(t, err)
		page, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "12345", string(page), "the last answer is whole")
		require.Equal(t, 1, dials)
	})
}

// A lyingBody has fields with the names of net/http's, and of another type.
//
//lint:ignore U1000 only reflection could read them
type lyingBody struct{ body, src, R *strings.Reader }

func (lyingBody) Read([]byte) (int, error) { return 0, io.EOF }
func (lyingBody) Close() error             { return nil }

// Of a body that is not net/http's it is known only if it says how much is in it.
func TestOtherBodiesAreReadAsideUnlessTheyTell(t *testing.T) {
	whole := func(body io.ReadCloser, length int64) bool {
		return arrivedWhole(&http.Response{Body: body, ContentLength: length})
	}
	told := struct {
		*bytes.Reader
		io.Closer
	}{bytes.NewReader(make([]byte, 5)), nil}
	require.True(t, whole(told, 5))
	require.False(t, whole(told, 6), "there is more to come")
	require.False(t, whole(told, -1), "its length is not known")
	require.False(t, whole(io.NopCloser(strings.NewReader("12345")), 5))
	require.False(t, whole(http.NoBody, 5))
	require.False(t, whole(lyingBody{}, 5))
	require.False(t, whole(&lyingBody{}, 5))
}
