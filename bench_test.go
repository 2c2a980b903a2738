package retrip

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

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

// BenchmarkBucket and BenchmarkGate are the two quotas, alone, with 1, 2 and 8
// goroutines: a success that finds nothing to do, a failure with its retry and
// then a success, and a retry that is refused.
func BenchmarkBucket(b *testing.B) {
	empty := NewBucket(4)
	benchmarkQuota(b, func() Quota { return NewBucket(math.MaxInt) }, func() Quota { return empty })
}

func BenchmarkGate(b *testing.B) {
	shut := new(Gate)
	f := Failure{Class: Transient, Attempt: 1, MaxAttempts: 3}
	for range 20 {
		shut.Failed(f)
		f.Done = f.Done.Add(time.Second)
	}
	benchmarkQuota(b, func() Quota { return new(Gate) }, func() Quota { return shut })
}

func benchmarkQuota(b *testing.B, fresh, refusing func() Quota) {
	ctx, done := context.Background(), time.Now()
	refused := refusing()
	for _, procs := range []int{1, 2, 8} {
		run := func(name string, q Quota, use func(Quota)) {
			b.Run(fmt.Sprintf("%s/procs=%d", name, procs), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						use(q)
					}
				})
			})
		}
		run("success", fresh(), func(q Quota) { q.Answered(Success, 0) })
		run("retry", fresh(), func(q Quota) {
			f := Failure{Class: Transient, Attempt: 1, MaxAttempts: 3, Cost: 5, Done: done}
			q.Failed(f)
			q.Answered(Success, f.Cost*btoi(q.Take(ctx, f)))
		})
		run("refusal", refused, func(q Quota) {
			f := Failure{Class: Transient, Attempt: 1, MaxAttempts: 3, Cost: 5, Done: done}
			q.Failed(f)
			q.Take(ctx, f)
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
