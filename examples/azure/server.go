package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// An account is a server that speaks as much of Azure's Blob Storage as is
// needed here, with a layer of faults before it.
type account struct {
	*httptest.Server
	faults *faultlayer.Layer
}

func newAccount() *account {
	a := &account{faults: faultlayer.New(&store{blobs: make(map[string][]byte)})}
	a.Server = httptest.NewServer(a.faults)
	return a
}

// A store keeps blobs: Put Blob and Get Blob, the latter also in part.
type store struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPut:
		blob, err := io.ReadAll(r.Body)
		if err != nil {
			return // nobody is there to tell
		}
		s.mu.Lock()
		s.blobs[r.URL.Path] = blob
		s.mu.Unlock()
		w.Header().Set("ETag", etag(blob))
		w.WriteHeader(http.StatusCreated)
	case http.MethodGet:
		s.mu.Lock()
		blob, ok := s.blobs[r.URL.Path]
		s.mu.Unlock()
		if !ok {
			fail(w, http.StatusNotFound, "BlobNotFound")
			return
		}
		if part := r.Header.Get("X-Ms-Range"); part != "" {
			r.Header.Set("Range", part)
		}
		w.Header().Set("ETag", etag(blob))
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob))
	default:
		fail(w, http.StatusMethodNotAllowed, "UnsupportedHttpVerb")
	}
}

func etag(blob []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(blob)) }

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, errorBody(code))
}

func errorBody(code string) string {
	return `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>Try again.</Message></Error>`
}

// busy is how Azure throttles, with pairs of header names and values.
func busy(header ...string) faultlayer.Fault {
	return faultlayer.Answer(http.StatusServiceUnavailable, errorBody("ServerBusy"),
		append(header, "Content-Type", "application/xml", "X-Ms-Error-Code", "ServerBusy")...)
}

// half sends half of the blob and breaks off.
func half(blob []byte) faultlayer.Fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", etag(blob))
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		_, _ = w.Write(blob[:len(blob)/2])
		panic(http.ErrAbortHandler)
	}
}
