package retrip

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrip-go/retrip/internal/testkit"
)

// readingBase reads each body to its end, in pieces of 32 KiB, and answers every
// nth attempt with 200 and the others with 503.
type readingBase struct {
	buffer   []byte
	nth, n   int
	ok, fail *http.Response
}

func (b *readingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		if _, err := req.Body.Read(b.buffer); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
	}
	_ = req.Body.Close()
	if b.n++; b.n%b.nth == 0 {
		return b.ok, nil
	}
	return b.fail, nil
}

// BenchmarkBody sends a body of each kind, without a retry and with one.
func BenchmarkBody(b *testing.B) {
	content := strings.Repeat("0123456789abcdef", 4<<10)
	name := filepath.Join(b.TempDir(), "body")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	for kind, open := range map[string]func() (io.ReadCloser, error){
		"GetBody": func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
		"memory":  func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
		"opaque": func() (io.ReadCloser, error) {
			return io.NopCloser(testkit.OnlyReader(strings.NewReader(content))), nil
		},
		"file": func() (io.ReadCloser, error) { return os.Open(name) },
	} {
		for attempts, title := range []string{1: "once", 2: "twice"} {
			if title == "" {
				continue
			}
			b.Run(kind+"/"+title, func(b *testing.B) {
				b.ReportAllocs()
				base := &readingBase{buffer: make([]byte, 32<<10), nth: attempts,
					ok: &http.Response{StatusCode: 200, Body: http.NoBody}, fail: &http.Response{StatusCode: 503, Body: http.NoBody}}
				transport := &Transport{Base: base, Strategy: noWait()}
				req, _ := http.NewRequest("PUT", "http://example.com/path", nil)
				if kind == "GetBody" {
					req.GetBody = open
				}
				for b.Loop() {
					req.Body, _ = open()
					if resp, err := transport.RoundTrip(req); err != nil || resp.StatusCode != 200 {
						b.Fatal(resp, err)
					}
				}
			})
		}
	}
}
