// Package faultlayer stands in front of an http.Handler, makes some of its
// requests fail as a scripted server would, and keeps account of all of them.
// The examples and their tests put it before the servers they talk to.
package faultlayer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// A Fault answers a request in place of the handler.
type Fault func(http.ResponseWriter, *http.Request)

// Answer is a Fault that reads the request and answers with a status, a body
// and pairs of header names and values.
func Answer(status int, body string, header ...string) Fault {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Early is a Fault that answers before it has read the body.
func Early(status int) Fault {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// Reset is a Fault that breaks the connection off without an answer: with a
// reset, over TLS with an end, over HTTP/2 with a reset of the stream.
func Reset(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a RST in place of a FIN
	}
	_ = conn.Close()
}

// HangUp is a Fault that takes the request and ends the connection, or over
// HTTP/2 the stream, without an answer.
func HangUp(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// A Hit is one request as it arrived.
type Hit struct {
	Method, Path string
	Header       http.Header
	Size         int64  // how much of the body was read
	Hash         string // of that, as Hash has it
	Failed       bool   // a Fault answered it
	Ended        bool   // its handler has returned, so Size and Hash are final
}

// A record is a Hit under way. The Layer's lock guards the Hit.
type record struct {
	Hit
	body *countedBody
}

// A Layer is an http.Handler that answers with the faults given for a request,
// one for each that matches, and then hands on to Next.
type Layer struct {
	Next http.Handler

	mu       sync.Mutex
	rules    []*rule
	records  []*record
	underWay int
	idle     sync.Cond // no request is under way
}

type rule struct {
	match  func(*http.Request) bool
	faults []Fault
}

// New returns a Layer before next.
func New(next http.Handler) *Layer {
	l := &Layer{Next: next}
	l.idle.L = &l.mu
	return l
}

// Fail makes the next requests that match fail, one for each fault. A nil
// match is any request.
func (l *Layer) Fail(match func(*http.Request) bool, faults ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, &rule{match, faults})
}

// Hits returns the requests so far, in the order in which they arrived. It waits
// until the handlers of all of them have returned: a client may have the last
// byte of its answer before that.
func (l *Layer) Hits() []Hit {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.underWay > 0 {
		l.idle.Wait()
	}
	return l.snapshot()
}

// Arrived returns what Hits returns, but at once: of a request whose handler
// still runs, with what was read of its body so far.
func (l *Layer) Arrived() []Hit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshot()
}

func (l *Layer) snapshot() []Hit {
	hits := make([]Hit, len(l.records))
	for i, r := range l.records {
		hits[i] = r.Hit
		if !r.Ended {
			hits[i].Size, hits[i].Hash = r.body.count()
		}
	}
	return hits
}

// Reset forgets the hits and the faults that are left.
func (l *Layer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.records = nil, nil
}

// ServeHTTP answers the request or lets Next do it.
func (l *Layer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hit, fault := l.arrive(r)
	r.Body = hit.body
	defer l.end(hit)
	if fault != nil {
		fault(w, r)
		return
	}
	l.Next.ServeHTTP(w, r)
}

// arrive records a request and takes the fault that is due for it. The record is
// made now and not at the end: a client whose connection was broken off may send
// its next request, and have it answered, before this handler returns.
func (l *Layer) arrive(r *http.Request) (*record, Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault := l.due(r)
	hit := &record{
		Hit:  Hit{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Failed: fault != nil},
		body: &countedBody{ReadCloser: r.Body, sum: sha256.New()},
	}
	l.records = append(l.records, hit)
	l.underWay++
	return hit, fault
}

func (l *Layer) due(r *http.Request) Fault {
	for _, rule := range l.rules {
		if len(rule.faults) > 0 && (rule.match == nil || rule.match(r)) {
			fault := rule.faults[0]
			rule.faults = rule.faults[1:]
			return fault
		}
	}
	return nil
}

// end completes the record with what is known only now.
func (l *Layer) end(hit *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hit.Size, hit.Hash = hit.body.count()
	hit.Ended = true
	l.underWay--
	l.idle.Broadcast()
}

// A countedBody sums up what is read of it.
type countedBody struct {
	io.ReadCloser
	mu  sync.Mutex
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	size int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.sum.Write(p[:n]) // a hash never fails
	b.size += int64(n)
	return n, err
}

func (b *countedBody) count() (int64, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size, hex.EncodeToString(b.sum.Sum(nil))
}

// Hash is the SHA-256 of content, in hexadecimal.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Noise is content that is the same for the same size, and no part of which is
// like another.
func Noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

// A Counter is a base that counts its calls.
type Counter struct {
	*http.Transport
	Calls atomic.Int64
}

// RoundTrip counts the call and makes it.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.Calls.Add(1)
	return c.Transport.RoundTrip(req)
}
