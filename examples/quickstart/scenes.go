package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// A scene is one kind of trouble: a request, and a server that answers its
// attempts one after the other as the script says.
type scene struct {
	title  string
	method string
	body   string
	calls  int // how often the request is made; 0 means once
	script []http.HandlerFunc
}

var scenes = []scene{{
	title:  "from a server that is briefly overloaded",
	method: http.MethodGet,
	script: []http.HandlerFunc{answer(503, "busy"), answer(503, "busy"), answer(200, "hello")},
}, {
	title:  "over a rate limit: the server says when to retry",
	method: http.MethodGet,
	script: []http.HandlerFunc{retryAfter("1"), answer(200, "welcome back")},
}, {
	title:  "whose connection is reset",
	method: http.MethodGet,
	script: []http.HandlerFunc{reset, answer(200, "back again")},
}, {
	title:  "that AWS throttles: a 400 with the reason in its body",
	method: http.MethodGet,
	script: []http.HandlerFunc{throttlingException, answer(200, "some items")},
}, {
	title:  "that hangs for longer than the attempt timeout",
	method: http.MethodGet,
	script: []http.HandlerFunc{hang, answer(200, "quick this time")},
}, {
	title:  "that may have been processed: not sent again",
	method: http.MethodPost,
	body:   "order one coffee",
	script: []http.HandlerFunc{answer(500, "oops"), answer(200, "a second coffee")},
}, {
	title:  "that was not processed: sent again with its body",
	method: http.MethodPost,
	body:   "order one coffee",
	script: []http.HandlerFunc{retryAfter("0"), echo},
}, {
	// The first call's retries have emptied the quota, so the second call adds no
	// load to a server that is down.
	title:  "from a server that is down",
	method: http.MethodGet,
	calls:  2,
	script: []http.HandlerFunc{answer(503, "down until noon")},
}}

// serve starts a server on the loopback interface. It gives the answers of the
// script in their order, and when there are no more, the last one again.
func serve(script []http.HandlerFunc) *httptest.Server {
	var served atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := min(int(served.Add(1)), len(script))
		script[n-1](w, r)
	}))
}

func answer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a client that is gone does not need it
	}
}

func retryAfter(seconds string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", seconds)
		answer(http.StatusTooManyRequests, "too many requests")(w, r)
	}
}

func throttlingException(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	answer(http.StatusBadRequest, `{"__type":"ThrottlingException"}`)(w, r)
}

// echo shows in the output whether the request's body has arrived.
func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(w, r.Body) // the output shows what is missing
}

// reset breaks the connection as a crashing server would: with a lingering
// time of 0, closing it sends a TCP reset.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // an HTTP/1 server can always hijack
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // if it can't, the connection ends without an answer all the same
	_ = conn.Close()
}

// hang answers too late, unless the client goes away first.
func hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(5 * time.Second):
	}
}
