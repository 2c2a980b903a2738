package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// An api is the server that the fleets call. It counts the requests that begin while
// it is down, and their attempts.
type api struct {
	down atomic.Bool

	mu       sync.Mutex
	known    map[string]bool // processes
	begun    map[string]bool // requests that began before it was down
	requests map[string]bool
	attempts int
}

func newAPI() *api {
	return &api{known: map[string]bool{}, begun: map[string]bool{}, requests: map[string]bool{}}
}

func (a *api) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("X-Request-Id")
	process, _, _ := strings.Cut(id, "-")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[process] = true
	if !a.down.Load() {
		a.begun[id] = true
		return
	}
	if !a.begun[id] {
		a.requests[id] = true
		a.attempts++
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (a *api) callers() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.known)
}

// String returns, for example, "100 requests, 118 attempts: 1.18".
func (a *api) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%d requests, %d attempts: %.2f",
		len(a.requests), a.attempts, float64(a.attempts)/float64(max(len(a.requests), 1)))
}
