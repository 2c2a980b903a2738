package retrip

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrip-go/retrip/internal/testkit"
)

// TestCodeAllocations bounds what it costs to peek at a body and to find the
// code in it.
func TestCodeAllocations(t *testing.T) {
	countsAllocations(t)
	for contentType, document := range map[string]string{"application/json": testkit.JSONDocument, "application/xml": testkit.XMLDocument} {
		req := newRequest(t, "GET", nil)
		n := testing.AllocsPerRun(1000, func() {
			a := Attempt{Request: req, Response: errorResponse(contentType, document)}
			if readError(&a); a.Code == "" {
				t.Fatal("no code")
			}
		}) - testing.AllocsPerRun(1000, func() { errorResponse(contentType, document) })
		if n >= 15 {
			t.Errorf("%s: %v allocations", contentType, n)
		}
	}
}

func errorResponse(contentType, document string) *http.Response {
	return &http.Response{
		StatusCode: 400, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(strings.NewReader(document)), ContentLength: int64(len(document)),
	}
}

// BenchmarkErrorAnswer is the whole way of an error with a code, peek included.
func BenchmarkErrorAnswer(b *testing.B) {
	for name, contentType := range map[string]string{"plain": "text/plain", "json": "application/json"} {
		b.Run(name, func(b *testing.B) {
			transport := &Transport{Strategy: noWait(attempts(1)), Base: step(func(*http.Request) (*http.Response, error) {
				return errorResponse(contentType, testkit.JSONDocument), nil
			})}
			req, _ := http.NewRequest("GET", "https://example.com/", nil)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// BenchmarkStats shows whether goroutines that count wait for each other's memory:
// run it with -cpu 1,2,8.
func BenchmarkStats(b *testing.B) {
	for name, keep := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			good := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
			tr := &Transport{KeepStats: keep, Base: testkit.Same(good)}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, _ := http.NewRequest("GET", "http://example.com/", nil)
				for pb.Next() {
					if _, err := tr.RoundTrip(req); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
