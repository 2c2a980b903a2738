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
	"time"

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
				req := testkit.RequestTo(t, "GET", "http://example.com/", nil)
				resp, err := base.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, tt.whole, arrivedWhole(req, resp))
				upload := newRequest(t, "PUT", strings.NewReader("body"))
				require.False(t, arrivedWhole(upload, resp), "net/http may still write it, and waits for that")
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

// A body that is not net/http's is read aside unless it can't block.
func TestOtherBodiesAreReadAsideUnlessTheyLieInMemory(t *testing.T) {
	whole := func(body io.ReadCloser, length int64) bool {
		return arrivedWhole(&http.Request{}, &http.Response{Body: body, ContentLength: length})
	}
	told := struct {
		*bytes.Reader
		io.Closer
	}{bytes.NewReader(make([]byte, 5)), nil}
	require.True(t, whole(io.NopCloser(strings.NewReader("12345")), 5))
	require.False(t, whole(io.NopCloser(strings.NewReader("12345")), -1), "its length is not known")
	require.False(t, whole(told, 5))
	require.False(t, whole(http.NoBody, 5))
	require.False(t, whole(lyingBody{}, 5))
	require.False(t, whole(&lyingBody{}, 5))
}

// A lateEnd has all of its bytes at once, and a method that says so, but its end
// comes only when it is closed.
type lateEnd struct {
	*strings.Reader
	closed chan struct{}
}

func (b *lateEnd) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.closed
	}
	return n, err
}

func (b *lateEnd) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{b}) }

func (b *lateEnd) Close() error {
	close(b.closed)
	return nil
}

// However much of a body is there, its end may come late: that holds neither the
// look for a code nor a retry.
func TestBodyWhoseEndComesLate(t *testing.T) {
	for contentType, bound := range map[string]time.Duration{"text/html": discardTime, "application/json": peekTime + discardTime} {
		synctest.Test(t, func(t *testing.T) {
			base := step(func(*http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: 503, Header: http.Header{"Content-Type": {contentType}},
					Body: &lateEnd{strings.NewReader("12345"), make(chan struct{})}, ContentLength: 5,
				}, nil
			})
			begun := time.Now()
			resp, err := (&Transport{Strategy: noWait(), Base: base}).RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(begun), 3*bound, contentType)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// answering is a transport whose connections are served by serve, one at a time.
func answering(serve func(net.Conn, *http.Request) bool) *http.Transport {
	return &http.Transport{MaxConnsPerHost: 1, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for reader := bufio.NewReader(theirs); ; {
				if req, err := http.ReadRequest(reader); err != nil || !serve(theirs, req) {
					return
				}
			}
		}()
		return ours, nil
	}}
}

func plainRequest(t *testing.T, method string, body io.Reader) *http.Request {
	req := newRequest(t, method, body)
	req.URL.Scheme = "http"
	return req
}

const unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n12345"

// While a retry waits, for its backoff or for the limiter, other requests can use the
// connection of the answer before it.
func TestAnswerFreesItsConnectionDuringTheWait(t *testing.T) {
	slow, limited := noWait(), noWait()
	slow.Backoff, slow.ThrottleBackoff = Constant{Wait: time.Minute}, nil
	limited.ThrottleBackoff, limited.Limiter = nil, NewRequestLimiter()
	for name, s := range map[string]*Strategy{"backoff": slow, "limiter": limited} {
		synctest.Test(t, func(t *testing.T) {
			base := answering(func(conn net.Conn, req *http.Request) bool {
				answer := strings.Replace(unavailable, "503", "429", 1)
				if req.Host == "other.example" {
					answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
				}
				_, err := io.WriteString(conn, answer)
				return err == nil
			})
			defer base.CloseIdleConnections()
			s.MaxAttempts = 2
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = (&Transport{Strategy: s, Base: base}).RoundTrip(plainRequest(t, "GET", nil))
			}()
			synctest.Wait()
			begun := time.Now()
			other := plainRequest(t, "GET", nil)
			other.Host = "other.example"
			resp, err := base.RoundTrip(other)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Zero(t, time.Since(begun), name)
			<-done
			require.NotZero(t, time.Since(begun), "the retry waited")
		})
	}
}

// A response that says it is empty, but has not ended, is closed on the side.
func TestCloseOfAnEmptyAnswerHoldsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: slowClose{}}, nil
		}, status(200))
		_, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.Equal(t, milliseconds(0), base.Waits())
		time.Sleep(time.Hour) // in the bubble's time: the Close ends
	})
}
