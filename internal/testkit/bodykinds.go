package testkit

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A BodyKind is a way to give a request a body.
type BodyKind struct {
	Name    string
	Content []byte
	Open    Opener
	Over    bool // and is longer than the TableBuffer
	// The user's own GetBody gives bodies whose Read may fail with any error,
	// also one that looks like the network's, so that no error is a proof.
	Suspect bool
}

// An Opener sets the body of a request, and returns what reports that all that
// was opened is closed, and once where it went through our hands.
type Opener func(*testing.T, *http.Request, []byte) (closed func() bool)

// TableBuffer is a ReplayBuffer between Small and Large.
const TableBuffer = 32 << 10

// Contents of two lengths.
var (
	Small = RandomBytes(16<<10, 1)
	Large = RandomBytes(256<<10, 2)
)

// RandomBytes are the same for the same seed.
func RandomBytes(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// BodyKinds are all kinds of bodies that retrip treats differently.
var BodyKinds = []BodyKind{
	{Name: "none", Open: NoBody},
	{Name: "GetBody", Content: Large, Open: MemoryBody},
	{Name: "own GetBody", Content: Large, Open: ReopenedBody, Suspect: true},
	{Name: "file", Content: Large, Open: FileBody(0)},
	{Name: "positioned file", Content: Large, Open: FileBody(12_345)},
	{Name: "small opaque", Content: Small, Open: OpaqueBody},
	{Name: "in memory without GetBody", Content: Small, Open: BareMemoryBody},
	{Name: "large opaque", Content: Large, Open: OpaqueBody, Over: true},
}

// NoBody leaves a request without a body.
func NoBody(*testing.T, *http.Request, []byte) func() bool { return func() bool { return true } }

// MemoryBody is what http.NewRequest makes of a bytes.Reader.
func MemoryBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool { return true }
}

// BareMemoryBody is what is left when a body is set by hand: opaque, though its
// source never blocks.
func BareMemoryBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	return func() bool { return true }
}

// ReopenedBody has a GetBody of the caller's own. The copies that net/http
// opens by itself are between the caller and it: it neither reads nor closes
// that of a stream which meets a connection that is no longer to be used
// (http2shouldRetryRequest in h2_bundle.go).
func ReopenedBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	var mu sync.Mutex
	var opened []*Body
	req.GetBody = func() (io.ReadCloser, error) {
		body := &Body{ReadCloser: io.NopCloser(bytes.NewReader(content))}
		direct, _, _, _ := runtime.Caller(1)
		watched, _, _, _ := runtime.Caller(2) // through a GetBody of ours
		if !inNetHTTP(direct) && !inNetHTTP(watched) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, body)
		}
		return body, nil
	}
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(content))
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, body := range opened {
			if body.Closes() == 0 { // net/http closes some twice, and that is its affair
				return false
			}
		}
		return true
	}
}

func inNetHTTP(pc uintptr) bool {
	return strings.HasPrefix(runtime.FuncForPC(pc).Name(), "net/http")
}

// FileBody is a file, from an offset.
func FileBody(at int) Opener {
	return func(t *testing.T, req *http.Request, content []byte) func() bool {
		return setFile(req, OpenFile(t, strings.Repeat("-", at)+string(content), int64(at)), content)
	}
}

// SameFile is FileBody for many requests with one large content.
func SameFile(t *testing.T, content []byte, at int) Opener {
	f := OpenFile(t, strings.Repeat("-", at)+string(content), 0)
	require.NoError(t, f.Close())
	return func(t *testing.T, req *http.Request, content []byte) func() bool {
		return setFile(req, Reopen(t, f.Name(), int64(at)), content)
	}
}

func setFile(req *http.Request, f *os.File, content []byte) func() bool {
	req.Body, req.ContentLength = f, int64(len(content))
	return func() bool { return Closed(f) }
}

// OpaqueBody is a stream of unknown length.
func OpaqueBody(_ *testing.T, req *http.Request, content []byte) func() bool {
	body := Source(bytes.NewReader(content))
	req.Body, req.ContentLength = body, -1
	return func() bool { return body.Closes() == 1 }
}
