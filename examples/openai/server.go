package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server speaks as much of OpenAI's API as it takes to answer a question.
type server struct {
	*httptest.Server
	faults   *faultlayer.Layer
	requests atomic.Int64 // as they arrive

	// between is called before each piece of a stream but the first, and ends
	// it by returning false.
	between func() bool
}

func newServer() *server {
	s := &server{between: func() bool { return true }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.faults.ServeHTTP(w, r)
	}))
	return s
}

func (s *server) complete(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		answer(http.StatusBadRequest)(w, r)
		return
	}
	if request.Stream {
		s.stream(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that is gone does not miss it
		"id": "chatcmpl-1", "object": "chat.completion", "choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": "You said: " + request.Messages[0].Content},
		}},
	})
}

// stream sends its answer word by word, as server-sent events.
func (s *server) stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for i, word := range strings.Fields("one two three") {
		if i > 0 && !s.between() {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprintf(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
		_ = flusher.Flush()
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

// answer fails as OpenAI does, with pairs of header names and values.
func answer(status int, header ...string) faultlayer.Fault {
	return faultlayer.Answer(status, fmt.Sprintf(`{"error":{"message":"status %d","type":"server_error","code":"example"}}`, status),
		append(header, "Content-Type", "application/json")...)
}
