package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// serve starts the server that plays all hosts. Each resource fails a few
// times before it works: orders is throttled, as DynamoDB would say it, and
// the others are overloaded.
func serve() *httptest.Server {
	var mu sync.Mutex
	failures := map[string]int{
		"api.example.com":           2,
		"gateway.example.com":       1,
		"batch.example.com":         3,
		"tables.example.com/orders": 1,
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if table, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); found {
			name += "/" + table
		}
		mu.Lock()
		failing := failures[name] > 0
		failures[name]--
		mu.Unlock()

		switch {
		case !failing:
			_, _ = io.WriteString(w, "here you are") // a client that is gone does not miss it
		case strings.HasPrefix(name, "tables."):
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"ProvisionedThroughputExceededException"}`) // as above
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}
