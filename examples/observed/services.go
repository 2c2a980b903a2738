package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// services are servers on loopback, each with a name and a trouble of its own.
type services map[string]*httptest.Server

// startServices starts them for a load of the given duration.
func startServices(duration time.Duration) services {
	return services{
		"catalog.example": httptest.NewServer(http.HandlerFunc(shaky)),
		"search.example":  httptest.NewServer(limited(50)),
		"billing.example": httptest.NewServer(downBetween(duration/3, duration*2/3)),
	}
}

// shaky fails once in a while, in every way. It reads the body first: only then
// does the server watch the connection, and end r.Context when the client is
// gone.
func shaky(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch rand.IntN(40) {
	case 0:
		faultlayer.Answer(http.StatusServiceUnavailable, "busy")(w, r)
	case 1:
		faultlayer.Reset(w, r)
	case 2:
		select { // longer than the attempt timeout
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	default:
		_, _ = io.WriteString(w, "hello") // the client may be gone
	}
}

// limited throttles what exceeds a number of requests per second, as AWS does:
// with a 400 whose body says so.
func limited(perSecond int) http.HandlerFunc {
	var mu sync.Mutex
	tokens, filled := float64(perSecond), time.Now()
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := time.Now()
		tokens = min(tokens+now.Sub(filled).Seconds()*float64(perSecond), float64(perSecond)/5)
		filled = now
		ok := tokens >= 1
		if ok {
			tokens--
		}
		mu.Unlock()
		if !ok {
			faultlayer.Answer(http.StatusBadRequest, `{"__type":"ThrottlingException"}`, "Content-Type", "application/x-amz-json-1.0")(w, r)
			return
		}
		_, _ = io.WriteString(w, "found")
	}
}

// downBetween is a service that is down for some of the time.
func downBetween(from, to time.Duration) http.HandlerFunc {
	begun := time.Now()
	return func(w http.ResponseWriter, r *http.Request) {
		if at := time.Since(begun); at > from && at < to {
			faultlayer.Answer(http.StatusServiceUnavailable, "down")(w, r)
			return
		}
		_, _ = io.WriteString(w, "paid")
	}
}

// base is a transport that knows where the names are.
func (s services) base() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil
	base.MaxIdleConnsPerHost = callers
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && s[host] != nil {
			address = s[host].Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return base
}

func (s services) close() {
	for _, server := range s {
		server.CloseClientConnections() // some hang
		server.Close()
	}
}
