package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server speaks as much of GitHub's API as it takes to comment on one issue.
type server struct {
	*httptest.Server
	faults *faultlayer.Layer

	mu       sync.Mutex
	comments []comment
}

type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
}

func newServer() *server {
	s := &server{comments: []comment{{1, "First."}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repos/retrip-go/retrip/issues/1/comments", s.list)
	mux.HandleFunc("POST /repos/retrip-go/retrip/issues/1/comments", s.create)
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(s.faults)
	return s
}

func (s *server) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit(w, 4999, time.Now().Add(time.Hour))
	_ = json.NewEncoder(w).Encode(s.comments) // a client that is gone does not miss it
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	if w.Header().Get("X-RateLimit-Remaining") == "" { // or it is the last call
		limit(w, 4999, time.Now().Add(time.Hour))
	}
	var c comment
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ID = len(s.comments) + 1
	s.comments = append(s.comments, c)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(c)
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.comments)
}

// lastCall succeeds, and leaves no call for the next minute.
func (s *server) lastCall(w http.ResponseWriter, r *http.Request) {
	limit(w, 0, time.Now().Add(time.Minute))
	s.create(w, r)
}

// primaryLimit refuses as GitHub does when the calls of the hour, here of the
// second, are used up: when they will be reset stands in a header, in seconds
// since 1970.
func primaryLimit(status int) faultlayer.Fault {
	return func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Truncate(time.Second)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat)) // the wait is counted from it
		limit(w, 0, now.Add(time.Second))
		refuse("API rate limit exceeded", "rate-limits-for-the-rest-api#about-primary-rate-limits", status)(w, r)
	}
}

// secondaryLimit refuses as GitHub does when the calls come too fast: calls
// remain, and how long to wait may stand in Retry-After.
func secondaryLimit(retryAfter string) faultlayer.Fault {
	return func(w http.ResponseWriter, r *http.Request) {
		limit(w, 4000, time.Now().Add(time.Hour))
		w.Header().Set("Retry-After", retryAfter)
		refuse("You have exceeded a secondary rate limit", "secondary-rate-limits", http.StatusForbidden)(w, r)
	}
}

func refuse(message, page string, status int) faultlayer.Fault {
	return faultlayer.Answer(status, fmt.Sprintf(
		`{"message":%q,"documentation_url":"https://docs.github.com/rest/overview/%s"}`, message, page),
		"Content-Type", "application/json; charset=utf-8")
}

func limit(w http.ResponseWriter, remaining int, reset time.Time) {
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	w.Header().Set("X-RateLimit-Resource", "core")
}
