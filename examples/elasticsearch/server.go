package main

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A cluster is a server that speaks as much of Elasticsearch as is needed here,
// with a layer of faults before it.
type cluster struct {
	*httptest.Server
	faults *faultlayer.Layer
}

func newCluster() *cluster {
	c := &cluster{faults: faultlayer.New(newStore())}
	c.Server = httptest.NewServer(c.faults)
	return c
}

// A store keeps the documents of one index.
type store struct {
	mux       *http.ServeMux
	mu        sync.Mutex
	documents map[string]json.RawMessage
}

func newStore() *store {
	s := &store{mux: http.NewServeMux(), documents: make(map[string]json.RawMessage)}
	s.mux.HandleFunc("PUT /"+name+"/_doc/{id}", s.index)
	s.mux.HandleFunc("POST /_bulk", s.bulk)
	s.mux.HandleFunc("POST /"+name+"/_search", s.search)
	s.mux.HandleFunc("GET /"+name+"/_doc/{id}", s.get)
	return s
}

type object map[string]any

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch") // without it the client refuses to go on
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mux.ServeHTTP(w, r)
}

func (s *store) index(w http.ResponseWriter, r *http.Request) {
	var document json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&document); err != nil {
		reply(w, http.StatusBadRequest, failure("mapper_parsing_exception", http.StatusBadRequest))
		return
	}
	reply(w, http.StatusCreated, s.put(r.PathValue("id"), document))
}

func (s *store) put(id string, document json.RawMessage) object {
	result := "created"
	if _, ok := s.documents[id]; ok {
		result = "updated"
	}
	s.documents[id] = document
	return object{"_index": name, "_id": id, "result": result, "status": http.StatusCreated}
}

// bulk knows the action index only: a line that names it, and the document.
func (s *store) bulk(w http.ResponseWriter, r *http.Request) {
	items := []object{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var action struct {
			Index struct {
				ID string `json:"_id"`
			}
		}
		if json.Unmarshal(lines.Bytes(), &action) != nil || !lines.Scan() {
			reply(w, http.StatusBadRequest, failure("illegal_argument_exception", http.StatusBadRequest))
			return
		}
		items = append(items, object{"index": s.put(action.Index.ID, slices.Clone(lines.Bytes()))})
	}
	reply(w, http.StatusOK, object{"errors": false, "items": items})
}

// search knows one query: everything.
func (s *store) search(w http.ResponseWriter, r *http.Request) {
	var q json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, http.StatusBadRequest, failure("parsing_exception", http.StatusBadRequest))
		return
	}
	hits := []object{}
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		hits = append(hits, object{"_id": id, "_source": s.documents[id]})
	}
	reply(w, http.StatusOK, object{"hits": object{"hits": hits}})
}

func (s *store) get(w http.ResponseWriter, r *http.Request) {
	document, ok := s.documents[r.PathValue("id")]
	if !ok {
		reply(w, http.StatusNotFound, object{"found": false})
		return
	}
	reply(w, http.StatusOK, object{"found": true, "_source": document})
}

func reply(w http.ResponseWriter, status int, body object) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone does not miss it
}

func failure(kind string, status int) object {
	return object{"error": object{"type": kind}, "status": status}
}

// rejected is the answer of a cluster whose queues are full: it did nothing.
func rejected(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	reply(w, http.StatusTooManyRequests, failure("es_rejected_execution_exception", http.StatusTooManyRequests))
}

// noNode is the answer of a proxy that has no node to ask, or lost the one that
// it asked. It does not say which, and is not Elasticsearch's.
func noNode(w http.ResponseWriter, r *http.Request) {
	faultlayer.Answer(http.StatusServiceUnavailable, "no server is available\n", "Content-Type", "text/plain")(w, r)
}
