package bench

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkRetry is a request that is answered 503, without a body, with 250 bytes
// of JSON or with 2 KiB of HTML, and at once sent again. Bare are the two attempts
// alone, without reading the page.
func BenchmarkRetry(b *testing.B) {
	for _, row := range []struct{ page, body string }{{"none", "none"}, {"json", "none"}, {"html", "none"}, {"none", "getbody"}} {
		for _, p := range peers[1:] {
			b.Run("page="+row.page+"/body="+row.body+"/peer="+p.name, func(b *testing.B) {
				base, ourBase := newFlaky(row.page), newFlaky(row.page)
				rt := p.wrap(b, base, 0)
				sent := 0
				request := newShot(b, row.body, 1<<10)
				load := func() *http.Request {
					sent++
					return request.load()
				}
				attempt := sending(b, canned{}, newShot(b, row.body, 1<<10).load)
				compare(b, rt,
					sending(b, rt, load),
					lane{func() { attempt.do(); attempt.do() }, 1},
					sending(b, ours(b, ourBase), newShot(b, row.body, 1<<10).load),
				)
				if base.n != 2*sent {
					b.Fatalf("%d attempts at %d requests", base.n, sent)
				}
			})
		}
	}
}

// BenchmarkConnections counts what 100 such requests, one after the other, open
// over HTTP/1.1. The 503 has a page of 2 KiB, as a proxy's might.
func BenchmarkConnections(b *testing.B) {
	page := strings.Repeat("unavailable ", 2<<10/12)
	for _, p := range libraries()[1:] {
		b.Run("peer="+p.name, func(b *testing.B) {
			var opened, n atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1)%2 == 1 {
					http.Error(w, page, http.StatusServiceUnavailable)
				}
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			server.Start()
			defer server.Close()
			rt := p.wrap(b, server.Client().Transport, 0)
			for b.Loop() {
				server.Client().CloseIdleConnections()
				for range 100 {
					if status := fetch(b, rt, server.URL); status != 200 {
						b.Fatal(status)
					}
				}
			}
			b.ReportMetric(float64(opened.Load())/float64(b.N), "conns")
		})
	}
}

// BenchmarkLoopback is a request over the network that there always is, all over the
// same connection: one that succeeds at once, and one that is answered 503 with a page
// and at once sent again. Bare reads what the answers have.
func BenchmarkLoopback(b *testing.B) {
	for _, proto := range []string{"h1", "h2"} {
		for _, page := range []string{"ok", "json", "html"} {
			for _, p := range libraries() {
				if page != "ok" && (p.name == "bare" || p.name == "floor") {
					continue // they do not read the page, so that each retry dials
				}
				b.Run("proto="+proto+"/page="+page+"/peer="+p.name, func(b *testing.B) {
					server, base := serve(b, proto, answerer(page))
					fetching := func(rt http.RoundTripper, requests int) lane {
						return lane{func() {
							for range requests {
								fetch(b, rt, server.URL)
							}
						}, 1}
					}
					rt, attempts := p.wrap(b, base, 0), 2
					if page == "ok" {
						attempts = 1
					}
					compare(b, rt, fetching(rt, 1), fetching(base, attempts), fetching(ours(b, base), 1))
				})
			}
		}
	}
}

// answerer answers every other request with 503 and a page, or all with 200.
func answerer(page string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if page == "ok" || n.Add(1)%2 == 0 {
			_, _ = io.WriteString(w, "answer")
			return
		}
		w.Header().Set("Content-Type", pages[page].contentType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, pages[page].text)
	}
}

func fetch(b *testing.B, rt http.RoundTripper, url string) (status int) {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close() // read to its end
	return resp.StatusCode
}
