package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server gives out tokens, and takes items from whoever has the latest one.
type server struct {
	*httptest.Server
	faults   *faultlayer.Layer
	token    atomic.Int64 // the number of the latest
	lifetime int          // of a token, in seconds
}

func newServer() *server {
	s := &server{lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.giveToken)
	mux.HandleFunc("/items", s.item)
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(s.faults)
	return s
}

func isToken(r *http.Request) bool { return r.URL.Path == "/token" }
func isItem(r *http.Request) bool  { return r.URL.Path == "/items" }

// config is what a client is told about the server.
func (s *server) config() *clientcredentials.Config {
	return &clientcredentials.Config{
		ClientID:     "example",
		ClientSecret: "example",
		TokenURL:     s.URL + "/token",
		AuthStyle:    oauth2.AuthStyleInHeader,
	}
}

// giveToken makes a new token, and the ones before worthless.
func (s *server) giveToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if id, secret, _ := r.BasicAuth(); id != "example" || secret != "example" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
		return
	}
	_, _ = fmt.Fprintf(w, `{"access_token":"token %d","token_type":"Bearer","expires_in":%d}`,
		s.token.Add(1), s.lifetime)
}

func (s *server) item(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token %d", s.token.Load()) {
		http.Error(w, "not with this token", http.StatusUnauthorized)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(text) // a client that is gone does not miss it
}

// count is how many requests have arrived, for tokens and for items.
func (s *server) count() (tokens, items int) {
	for _, hit := range s.faults.Hits() {
		if hit.Path == "/token" {
			tokens++
		} else {
			items++
		}
	}
	return tokens, items
}
