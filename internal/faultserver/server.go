// Package faultserver is a server on real TCP that does what servers should
// not do. Each connection follows a script of its own, a Play, and what
// arrives is recorded, so that a test can tell what was delivered, how often,
// and whether it was whole.
//
//	s := faultserver.Start(faultserver.ResetBeforeHeaders, faultserver.Answer(200))
//	defer s.Close()
//	base := &http.Transport{DialContext: s.Dial}
//
// The plays for HTTP/1 are in http1.go, those for HTTP/2 in http2.go, those
// that fail in the TLS handshake in tls.go.
package faultserver

import (
	"bufio"
	"context"
	"crypto/sha256"
	"hash"
	"net"
	"slices"
	"sync"
)

// A Play is what happens on one connection. The connection is closed when it
// returns.
type Play func(*Conn)

// Refuse lets Server.Dial meet a port where nobody listens.
var Refuse Play // nil: no connection, no play

// Server plays its scripts, one for each connection; the last serves all
// further ones.
type Server struct {
	// URL is http:// and the address.
	URL string

	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	plays []Play
	next  int // the play for the next connection
	over  bool
	conns []*Conn
	got   []*Request
}

// Request is one request whose head arrived.
type Request struct {
	// Conn is the connection it came by, from 1.
	Conn int
	// Method is empty over HTTP/2, whose headers are not decoded.
	Method string
	// Size and Sum are of the part of the body that was read.
	Size int64
	Sum  [sha256.Size]byte
	// Whole tells that the body was read to its proper end.
	Whole bool

	hash hash.Hash
}

// Conn is a connection as a Play sees it.
type Conn struct {
	net.Conn
	Number int // from 1

	server *Server
	in     *bufio.Reader
}

// Start opens the server. Like httptest's, it panics if it gets no port.
func Start(plays ...Play) *Server {
	s := &Server{plays: plays, listener: listen()}
	s.URL = "http://" + s.listener.Addr().String()
	s.wg.Go(s.accept)
	return s
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

// deaf holds both ends of a connection. Nobody listens at the address of its first
// end, and nobody else will while it is open.
var deaf = sync.OnceValue(func() [2]net.Conn {
	l := listen()
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	far, err := l.Accept()
	if err != nil {
		panic(err)
	}
	return [2]net.Conn{near, far}
})

// Close ends everything and waits for it.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.over = true
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Dial connects to the server, whatever the address, unless the next play is
// Refuse.
func (s *Server) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	address := s.listener.Addr().String()
	s.mu.Lock()
	if s.plays[s.turn()] == nil {
		address = deaf()[0].LocalAddr().String()
		s.next++
	}
	s.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (s *Server) turn() int { return min(s.next, len(s.plays)-1) }

// Conns is how many connections were accepted.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Requests returns what arrived so far, in the order of the heads.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, r := range s.got {
		all = append(all, *r)
	}
	return all
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.over { // it came while we closed
			s.mu.Unlock()
			_ = conn.Close()
			return
		}
		play := s.plays[s.turn()]
		s.next++
		c := &Conn{Conn: conn, Number: len(s.conns) + 1, server: s, in: bufio.NewReader(conn)}
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.wg.Go(func() {
			defer c.Close()
			if play != nil {
				play(c)
			}
		})
	}
}

// record notes the head of a request.
func (c *Conn) record(method string) *Request {
	r := &Request{Conn: c.Number, Method: method, hash: sha256.New()}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.got = append(c.server.got, r)
	return r
}

// progress notes a part of the body, and whether that was its end.
func (c *Conn) progress(r *Request, p []byte, whole bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	_, _ = r.hash.Write(p)
	r.Size += int64(len(p))
	r.Whole = whole
	r.hash.Sum(r.Sum[:0])
}

// nth is the position of a request among all that arrived, from 1.
func (c *Conn) nth(r *Request) int {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return slices.Index(c.server.got, r) + 1
}

// Reset breaks the connection off with a TCP RST: what either side has not
// read yet is lost.
func (c *Conn) Reset() {
	conn := c.Conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}
