package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// answer makes a response that can be given again and again, if its body is
// put back: some peers wrap it.
func answer(status int) *http.Response {
	return &http.Response{
		Status: fmt.Sprint(status, " ", http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody,
	}
}

// canned reads the request's body and gives the answer that the request
// carries in its Response field, where no transport looks: so that goroutines
// share nothing but what their transports share, and nothing is allocated.
type canned struct{}

func (canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := drain(req); err != nil {
		return nil, err
	}
	req.Response.Body = http.NoBody
	return req.Response, nil
}

// flaky answers every other request with 503 and a page. It is for one goroutine.
type flaky struct {
	n         int
	bad, good *http.Response
	reader    *strings.Reader
	page      io.ReadCloser // of the reader: it lies in memory, which saves retrip a goroutine, as net/http's do over HTTP/1
	text      string
}

// The pages: as an API's and as a proxy's.
var pages = map[string]struct{ contentType, text string }{
	"none": {},
	"json": {"application/json", `{"code":"Unavailable","message":"` + strings.Repeat("try again later ", 13) + `"}`},
	"html": {"text/html", "<html><body>" + strings.Repeat("<p>temporarily unavailable</p>", 66) + "</body></html>"},
}

func newFlaky(page string) *flaky {
	reader := strings.NewReader("")
	f := &flaky{bad: answer(503), good: answer(200), reader: reader, page: io.NopCloser(reader), text: pages[page].text}
	if f.text != "" {
		f.bad.Header = http.Header{
			"Content-Type": {pages[page].contentType}, "Content-Length": {strconv.Itoa(len(f.text))},
			"Date": {"Tue, 15 Nov 1994 08:12:31 GMT"}, "Server": {"example"},
		}
		f.bad.ContentLength = int64(len(f.text))
	}
	return f
}

func (f *flaky) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := drain(req); err != nil {
		return nil, err
	}
	resp := f.good
	resp.Body = http.NoBody
	if f.n++; f.n%2 == 1 {
		resp = f.bad
		if resp.Body = http.NoBody; f.text != "" {
			f.reader.Reset(f.text)
			resp.Body = f.page
		}
	}
	return resp, nil
}

func drain(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return err
	}
	return req.Body.Close()
}

// A shot is a request that can be sent again and again; load makes it ready.
type shot struct {
	*http.Request
	reader *bytes.Reader
	body   io.ReadCloser
	data   []byte
}

// newShot makes a GET, or a PUT with a body of that many bytes. It is "getbody",
// as http.NewRequest makes it of a bytes.Reader, or "opaque", which can be read
// once.
func newShot(tb testing.TB, kind string, size int) *shot {
	s := new(shot)
	var err error
	switch kind {
	case "none":
		s.Request, err = http.NewRequest("GET", "http://example.com/path", nil)
	case "getbody":
		s.data = make([]byte, size)
		s.reader = bytes.NewReader(s.data)
		s.Request, err = http.NewRequest("PUT", "http://example.com/path", s.reader)
	case "opaque":
		s.data = make([]byte, size)
		s.reader = bytes.NewReader(s.data)
		s.Request, err = http.NewRequest("PUT", "http://example.com/path", onlyReader{s.reader})
		s.ContentLength = int64(size)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.body = s.Body
	s.Response = answer(200)
	return s
}

// load puts the body back, as the caller of a new request would hand it over.
func (s *shot) load() *http.Request {
	if s.reader != nil {
		s.reader.Reset(s.data)
		s.Body = s.body
	}
	return s.Request
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

// mustAnswer sends a request once before it is timed, so that no peer looks
// fast because it does nothing.
func mustAnswer(tb testing.TB, rt http.RoundTripper, req *http.Request, status int) {
	tb.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	if resp.StatusCode != status {
		tb.Fatalf("got %s, want %d", resp.Status, status)
	}
}
