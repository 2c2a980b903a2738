package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server keeps notes, numbered from 1.
type server struct {
	*httptest.Server
	faults   *faultlayer.Layer
	requests atomic.Int64 // as they arrive

	mu    sync.Mutex
	notes []string
}

type note struct {
	Text string `json:"text"`
}

func newServer() *server {
	s := new(server)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /notes", s.write)
	mux.HandleFunc("PUT /notes/{id}", s.write)
	mux.HandleFunc("GET /notes/{id}", s.read)
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.faults.ServeHTTP(w, r)
	}))
	return s
}

// write takes a note as it is, and gives a new one the next number.
func (s *server) write(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := len(s.notes) + 1
	if r.Method == http.MethodPut {
		if id, err = strconv.Atoi(r.PathValue("id")); err != nil || id < 1 || id > len(s.notes) {
			http.NotFound(w, r)
			return
		}
		s.notes[id-1] = string(text)
	} else {
		s.notes = append(s.notes, string(text))
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = fmt.Fprintf(w, "note %d", id) // a client that is gone does not miss it
}

func (s *server) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id > len(s.notes) {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, s.notes[id-1])
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notes)
}
