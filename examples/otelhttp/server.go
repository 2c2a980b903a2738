package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server says hello, or what it was sent.
type server struct {
	*httptest.Server
	faults *faultlayer.Layer
}

func newServer() *server {
	s := &server{faults: faultlayer.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if len(text) == 0 {
			text = []byte("hello")
		}
		_, _ = w.Write(text) // a client that is gone does not miss it
	}))}
	s.Server = httptest.NewServer(s.faults)
	return s
}

// spanID is the id of the span that a request says it is of: the third part of
// its Traceparent, after a version and the id of the trace.
func spanID(hit faultlayer.Hit) string {
	if parts := strings.Split(hit.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		return parts[2]
	}
	return ""
}
