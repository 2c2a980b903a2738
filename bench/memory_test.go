package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
)

// BenchmarkMemory is a body of 64 MiB, answered 503 when it has been read and
// then 200 if it is sent again. peak-B is the most that was in use of the heap
// beyond what the caller holds, attempts how often the body was sent: who can
// keep little of it can't send it again.
func BenchmarkMemory(b *testing.B) {
	const size = 64 << 20
	file := filepath.Join(b.TempDir(), "body")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, size)
	for _, kind := range []struct {
		name string
		body func() (io.Reader, error)
	}{
		{"bytes", func() (io.Reader, error) { return bytes.NewReader(data), nil }},
		{"file", func() (io.Reader, error) { return os.Open(file) }},
		{"opaque", func() (io.Reader, error) { return onlyReader{bytes.NewReader(data)}, nil }},
	} {
		for _, p := range libraries() {
			b.Run(fmt.Sprintf("body=%s/peer=%s", kind.name, p.name), func(b *testing.B) {
				m := &meter{buf: make([]byte, 32<<10)}
				rt := p.wrap(b, m, 0)
				sent := 0
				b.ReportAllocs()
				for b.Loop() {
					body, err := kind.body()
					if err != nil {
						b.Fatal(err)
					}
					req, err := http.NewRequest("PUT", "http://example.com/path", body)
					if err != nil {
						b.Fatal(err)
					}
					req.ContentLength = size
					m.idle, m.attempts = liveHeap(), 0
					if _, err := rt.RoundTrip(req); err != nil {
						b.Fatal(err)
					}
					if m.read != int64(size*m.attempts) {
						b.Fatalf("%d bytes in %d attempts", m.read, m.attempts)
					}
					m.read = 0
					sent += m.attempts
				}
				b.ReportMetric(float64(m.peak), "peak-B")
				b.ReportMetric(float64(sent)/float64(b.N), "attempts")
			})
		}
	}
}

// A meter is a base that measures the heap while it reads the body: at 512 KiB,
// 1 MiB, which is what retrip keeps at most, 2 MiB, and so on.
type meter struct {
	buf        []byte
	idle, peak int64
	read       int64
	attempts   int
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.attempts++
	var read, checkpoint int64 = 0, 512 << 10
	for {
		n, err := req.Body.Read(m.buf)
		if read += int64(n); read >= checkpoint {
			m.peak = max(m.peak, liveHeap()-m.idle)
			checkpoint *= 2
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	m.read += read
	status := 200
	if m.attempts == 1 {
		status = 503
	}
	return answer(status), req.Body.Close()
}

// liveHeap is what is in use, garbage not counted.
func liveHeap() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
