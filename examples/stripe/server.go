package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A server speaks as much of Stripe's API as it takes to make payments.
type server struct {
	*httptest.Server
	faults   *faultlayer.Layer
	requests atomic.Int64 // as they arrive

	mu       sync.Mutex
	payments map[string]string // answers by idempotency key
}

func newServer() *server {
	s := &server{payments: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payment_intents", s.pay)
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.show)
	s.faults = faultlayer.New(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.faults.ServeHTTP(w, r)
	}))
	return s
}

// pay makes a payment, or finds the one that was made with the same key.
func (s *server) pay(w http.ResponseWriter, r *http.Request) {
	amount, err := strconv.Atoi(r.PostFormValue("amount"))
	key := r.Header.Get("Idempotency-Key")
	if err != nil || key == "" {
		http.Error(w, "no amount or no key", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, made := s.payments[key]
	if !made {
		answer = fmt.Sprintf(`{"id":"pi_%d","object":"payment_intent","amount":%d,"currency":%q}`,
			len(s.payments)+1, amount, r.PostFormValue("currency"))
		s.payments[key] = answer
	}
	_, _ = w.Write([]byte(answer)) // a client that is gone does not miss it
}

func (s *server) show(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprintf(w, `{"id":%q,"object":"payment_intent","amount":7}`, r.PathValue("id"))
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.payments)
}

// loseAnswer makes the payment and breaks the connection.
func (s *server) loseAnswer(w http.ResponseWriter, r *http.Request) {
	s.pay(httptest.NewRecorder(), r)
	faultlayer.Reset(w, r)
}

// answer fails as Stripe does; shouldRetry is its advice, if it gives one.
func answer(status int, kind, shouldRetry string) faultlayer.Fault {
	headers := []string{"Content-Type", "application/json", "Request-Id", "req_1"}
	if shouldRetry != "" {
		headers = append(headers, "Stripe-Should-Retry", shouldRetry)
	}
	return faultlayer.Answer(status, fmt.Sprintf(`{"error":{"type":%q,"message":"status %d"}}`, kind, status), headers...)
}
