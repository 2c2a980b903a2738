// Soak sends requests through retrip for as long as it is told to and watches
// whether anything grows: heap, goroutines, connections, file descriptors.
//
//	go run ./internal/soak -for 20m
//
// Everything stays on the loopback interface: thousands of host names lead to
// one listener, whose answers are wrong at random. It exits with status 1 if
// the last quarter's figures are above the second quarter's by more than the
// tolerance, and needs Linux for the file descriptors.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

var (
	lasting = flag.Duration("for", 20*time.Minute, "how long to go on")
	every   = flag.Duration("every", 5*time.Second, "how often to look")
	workers = flag.Int("workers", 256, "goroutines that send requests")
	hosts   = flag.Int("hosts", 5000, "host names")
)

// A sample is one look at what may grow.
type sample struct {
	goroutines, heap, descriptors, conns int
}

// The tolerances: a share of the second quarter's median, and a constant for
// what is small and restless. They are our choice: a leak of one connection in
// a thousand requests exceeds them within a minute.
var gauges = []struct {
	name  string
	read  func(sample) int
	share float64
	slack int
}{
	{"goroutines", func(s sample) int { return s.goroutines }, 0.15, 100},
	{"heap", func(s sample) int { return s.heap }, 0.15, 4 << 20},
	{"descriptors", func(s sample) int { return s.descriptors }, 0.15, 60},
	{"connections", func(s sample) int { return s.conns }, 0.15, 30},
}

// A soak is the server, the Transports and the counts.
type soak struct {
	ctx        context.Context
	transports []*retrip.Transport
	conns      atomic.Int64 // open at the server
	requests   atomic.Int64
	retries    atomic.Int64
	corrupt    atomic.Int64
	keys       sync.Map // seen in events
	keyCount   atomic.Int64
}

func main() {
	flag.Parse()
	os.Exit(run())
}

func run() int {
	ctx, cancel := context.WithTimeout(context.Background(), *lasting)
	defer cancel()
	s := &soak{ctx: ctx}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.conns.Add(-1)
		}
	}
	srv.Start()
	base := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, srv.Listener.Addr().String())
		},
		MaxIdleConns: 200, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Second,
	}
	for name, mode := range map[string]func() *retrip.Strategy{
		"standard": retrip.Standard, "legacy": retrip.Legacy, "adaptive": retrip.Adaptive,
		"standard2026": aws.Standard2026, "adaptive2026": aws.Adaptive2026,
	} {
		s.transports = append(s.transports, s.transport(base, name, mode))
	}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(s.work)
	}
	samples := s.watch()
	wg.Wait()
	base.CloseIdleConnections()
	srv.CloseClientConnections()
	srv.Close()
	return s.verdict(samples)
}

// transport has a strategy for each host, with shorter waits than the mode's,
// so that more happens.
func (s *soak) transport(base http.RoundTripper, name string, mode func() *retrip.Strategy) *retrip.Transport {
	return &retrip.Transport{
		Base: base, AttemptTimeout: 500 * time.Millisecond, ReplayBuffer: 32 << 10,
		PerKey: func(string) *retrip.Strategy {
			p := mode()
			p.Backoff = retrip.FullJitter{Base: 5 * time.Millisecond, Cap: 50 * time.Millisecond}
			p.ThrottleBackoff, p.MaxRetryAfter, p.MaxLimiterWait = p.Backoff, time.Second, time.Second
			return p
		},
		Observe: func(e retrip.Event) {
			if !e.Final {
				s.retries.Add(1)
			}
			if _, known := s.keys.LoadOrStore(name+" "+e.Key, true); !known {
				s.keyCount.Add(1)
			}
		},
	}
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

// work is one caller's day.
func (s *soak) work() {
	for s.ctx.Err() == nil {
		s.request()
		s.requests.Add(1)
	}
}

func (s *soak) request() {
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(1+rand.IntN(3000))*time.Millisecond)
	defer cancel()
	if rand.IntN(20) == 0 {
		defer time.AfterFunc(time.Duration(rand.IntN(50))*time.Millisecond, cancel).Stop()
	}
	size := rand.IntN(len(content))
	method, body := "GET", io.Reader(nil)
	switch rand.IntN(6) {
	case 0:
		method, body = "PUT", bytes.NewReader(content[:size])
	case 1: // opaque, and often beyond ReplayBuffer
		method, body = "PUT", io.MultiReader(bytes.NewReader(content[:size]))
	case 2:
		method, body = "POST", io.MultiReader(bytes.NewReader(content[:size]))
	case 3: // written by someone who never finishes
		r, w := io.Pipe()
		defer w.Close()
		go func() { _, _ = w.Write(content[:size]) }()
		method, body = "PUT", r
	}
	url := fmt.Sprintf("http://host%d.test/", rand.IntN(*hosts))
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		panic(err)
	}
	if method != "GET" {
		req.Header.Set("Size", fmt.Sprint(size))
	}
	resp, err := s.transports[rand.IntN(len(s.transports))].RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusTeapot {
		s.corrupt.Add(1)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
}

// serve answers right most of the time.
func serve(w http.ResponseWriter, r *http.Request) {
	switch rand.IntN(20) {
	case 0, 1: // before the body is read
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 2:
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 3:
		w.Header().Set("Retry-After", []string{"0", "-1", "9223372037", "1e400"}[rand.IntN(4)])
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case 4:
		panic(http.ErrAbortHandler)
	case 5:
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		panic(http.ErrAbortHandler)
	case 6: // an endless error
		w.WriteHeader(http.StatusInternalServerError)
		for range 100 {
			if _, err := w.Write(content); err != nil {
				return
			}
		}
		return
	case 7: // one that stalls
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte(`{"code":`))
		_ = http.NewResponseController(w).Flush()
		stall(r, 400*time.Millisecond)
		return
	case 8: // no answer in time
		stall(r, time.Second)
		return
	}
	body, err := io.ReadAll(r.Body)
	if size := r.Header.Get("Size"); err == nil && size != "" && size != fmt.Sprint(len(body)) {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	_, _ = w.Write(content[:rand.IntN(10_000)])
}

func stall(r *http.Request, d time.Duration) {
	select {
	case <-r.Context().Done():
	case <-time.After(d):
	}
}

// watch prints a line now and then, and returns what it saw.
func (s *soak) watch() (samples []sample) {
	begun, before := time.Now(), int64(0)
	tick := time.NewTicker(*every)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return samples
		case <-tick.C:
		}
		now := look(s)
		samples = append(samples, now)
		requests := s.requests.Load()
		fmt.Printf("%7v %6.0f requests/s, %9d retries, %5d goroutines, %6.1f MiB heap, %5d descriptors, %5d connections, %6d keys seen\n",
			time.Since(begun).Round(time.Second), float64(requests-before)/every.Seconds(), s.retries.Load(),
			now.goroutines, float64(now.heap)/(1<<20), now.descriptors, now.conns, s.keyCount.Load())
		before = requests
	}
}

func look(s *soak) sample {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	descriptors, _ := os.ReadDir("/proc/self/fd") // none where there is no such directory
	return sample{runtime.NumGoroutine(), int(m.HeapInuse), len(descriptors), int(s.conns.Load())}
}

// verdict compares the last quarter with the second.
func (s *soak) verdict(samples []sample) (status int) {
	fmt.Printf("%d requests, %d retries, %d bodies corrupt\n", s.requests.Load(), s.retries.Load(), s.corrupt.Load())
	if s.corrupt.Load() > 0 {
		status = 1
	}
	quarter := len(samples) / 4
	if quarter == 0 {
		fmt.Println("too short to tell whether anything grows")
		return 1
	}
	for _, g := range gauges {
		early := median(samples[quarter:2*quarter], g.read)
		late := median(samples[len(samples)-quarter:], g.read)
		limit := early + int(float64(early)*g.share) + g.slack
		word := "flat"
		if late > limit {
			word, status = "GROWS", 1
		}
		fmt.Printf("%-12s %s: median %d in the second quarter, %d in the last, at most %d allowed\n", g.name, word, early, late, limit)
	}
	return status
}

func median(samples []sample, read func(sample) int) int {
	var values []int
	for _, s := range samples {
		values = append(values, read(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
