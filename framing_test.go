package retrip

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/faultserver"
	"github.com/retrip-go/retrip/internal/testkit"
)

// framings are ways to say what a request carries.
var framings = map[string]func(*http.Request){
	"no body":                func(*http.Request) {},
	"NoBody":                 func(r *http.Request) { r.Body = http.NoBody },
	"empty, unknown length":  func(r *http.Request) { r.Body = opaque("") },
	"empty, length -1":       func(r *http.Request) { r.Body, r.ContentLength = opaque(""), -1 },
	"opaque, unknown length": func(r *http.Request) { r.Body = opaque("hello") },
	"opaque, known length":   func(r *http.Request) { r.Body, r.ContentLength = opaque("hello"), 5 },
	"GetBody":                func(r *http.Request) { testkit.MemoryBody(nil, r, []byte("hello")) },
	"chunked": func(r *http.Request) {
		testkit.MemoryBody(nil, r, []byte("hello"))
		r.TransferEncoding = []string{"chunked"}
	},
	"close": func(r *http.Request) { r.Close = true },
	"trailer": func(r *http.Request) {
		r.Body, r.ContentLength, r.Trailer = opaque("hello"), -1, http.Header{"Sum": {"42"}}
	},
}

// On the wire a request looks as it does without us, byte by byte, the first
// time and the second.
func TestFramingIsTheSame(t *testing.T) {
	testkit.NoLeaks(t)
	for name, set := range framings {

		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				wire := func(most int) []string {
					var mu sync.Mutex
					var lines []string
					server := faultserver.Start(faultserver.Serve(func(c *faultserver.Conn, in *faultserver.Incoming) bool {
						body, _ := io.ReadAll(in.Body)
						mu.Lock()
						lines = append(lines, fmt.Sprint(in.Method, in.URL, in.Header, in.ContentLength, in.TransferEncoding, string(body)))
						mu.Unlock()
						_, err := io.WriteString(c, faultserver.Response(503, "no", "Connection: close"))
						return err != nil && in.Close
					}))
					defer server.Close()
					base := &http.Transport{DialContext: server.Dial}
					defer base.CloseIdleConnections()
					req := testkit.RequestTo(t, method, server.URL, nil)
					req.Host = "example.com"
					req.Header.Set("Idempotency-Key", "one")
					set(req)
					var rt http.RoundTripper = base
					if most > 0 {
						rt = &Transport{Base: base, Strategy: noWait(attempts(most))}
					}
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					return lines
				}
				// net/http gives the first Read of a body of unknown length 200 ms, to
				// find out whether it is empty (probeRequestBody in transfer.go). On a
				// busy machine it may take longer, with us or without.
				var plain, once, twice []string
				for range 5 {
					plain, once, twice = wire(0), wire(1), wire(2)
					if slices.Equal(plain, once) && slices.Equal(slices.Concat(plain, plain), twice) {
						break
					}
				}
				require.Equal(t, plain, once)
				require.Equal(t, slices.Concat(plain, plain), twice)
			})
		}
	}
}

// Over HTTP/2, too, a request is framed as it is without us, the first time and
// the second: the same frames, with the same flags and as many bytes of the body.
func TestFramingIsTheSameOverHTTP2(t *testing.T) {
	testkit.NoLeaks(t)
	for name, set := range framings {

		for _, method := range []string{"GET", "PUT", "POST"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				wire := func(times, most int) []string {
					var seen []string
					url, base := testkit.Serve(t, "h2c", func(w http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						seen = append(seen, fmt.Sprint(r.Method, r.Header, r.ContentLength, r.TransferEncoding, string(body), r.Trailer))
						w.WriteHeader(503)
					})
					defer base.CloseIdleConnections()
					record := new(frameRecord)
					base.DialContext = record.dial
					var rt http.RoundTripper = base
					if most > 0 {
						rt = &Transport{Base: base, Strategy: noWait(attempts(most))}
					}
					for range times {
						req := testkit.RequestTo(t, method, url, nil)
						req.Header.Set("Idempotency-Key", "one")
						req.Host = "example.com"
						set(req)
						resp, err := rt.RoundTrip(req)
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
					}
					return append(seen, record.frames()...)
				}
				plain, once := wire(1, 0), wire(1, 1)
				require.Equal(t, plain, once)
				require.Equal(t, wire(2, 0), wire(1, 2))
			})
		}
	}
}

// A frameRecord keeps what is written to connections over HTTP/2.
type frameRecord struct {
	mu   sync.Mutex
	sent []byte
}

type recordedConn struct {
	net.Conn
	record *frameRecord
}

func (r *frameRecord) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return recordedConn{conn, r}, err
}

func (c recordedConn) Write(p []byte) (int, error) {
	c.record.mu.Lock()
	c.record.sent = append(c.record.sent, p...)
	c.record.mu.Unlock()
	return c.Conn.Write(p)
}

// frames are those that carry requests: HEADERS, DATA and RST_STREAM.
func (r *frameRecord) frames() (frames []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	for rest := r.sent[preface:]; len(rest) >= 9; {
		size := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
		if kind := rest[3]; kind <= 1 || kind == 3 {
			frame := fmt.Sprintf("type %d, flags %#x, stream %d", kind, rest[4], binary.BigEndian.Uint32(rest[5:]))
			if kind == 0 { // the length of headers hangs on their order, which is that of a map
				frame += fmt.Sprintf(", %d bytes", size)
			}
			frames = append(frames, frame)
		}
		rest = rest[min(9+size, len(rest)):]
	}
	return frames
}
