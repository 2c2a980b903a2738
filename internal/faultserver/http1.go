package faultserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// An Exchange answers one HTTP/1 request, whose body it may read with
// Conn.Receive. It returns false to end the connection.
type Exchange func(*Conn, *Incoming) bool

// Incoming is a request whose head was read.
type Incoming struct {
	*http.Request
	// Nth is its place among all requests of the Server, from 1.
	Nth int

	record *Request
}

// Serve answers the requests of a connection one after the other.
func Serve(exchange Exchange) Play {
	return func(c *Conn) {
		for {
			head, err := http.ReadRequest(c.in)
			if err != nil {
				return
			}
			in := &Incoming{Request: head, record: c.record(head.Method)}
			in.Nth = c.nth(in.record)
			if c.progress(in.record, nil, head.Body == http.NoBody); !exchange(c, in) {
				return
			}
		}
	}
}

// Receive reads up to limit bytes of the body and reports whether it could.
func (c *Conn) Receive(in *Incoming, limit int64) bool {
	p := make([]byte, 32<<10)
	for limit > 0 {
		n, err := in.Body.Read(p[:min(limit, int64(len(p)))])
		limit -= int64(n)
		c.progress(in.record, p[:n], err == io.EOF)
		if err != nil {
			return err == io.EOF
		}
	}
	return true
}

// ReceiveAll reads the body to its end and reports whether there was one.
func (c *Conn) ReceiveAll(in *Incoming) bool { return c.Receive(in, 1<<62) }

// Answer takes each request whole and answers it with a status, header lines
// ("Name: value"), and the status as the body.
func Answer(status int, headers ...string) Play {
	return Serve(func(c *Conn, in *Incoming) bool {
		if !c.ReceiveAll(in) {
			return false
		}
		_, err := io.WriteString(c, Response(status, fmt.Sprint(status), headers...))
		return err == nil
	})
}

// Response is the text of an answer.
func Response(status int, body string, headers ...string) string {
	var extra strings.Builder
	for _, h := range headers {
		extra.WriteString(h + "\r\n")
	}
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%s\r\n%s",
		status, http.StatusText(status), len(body), &extra, body)
}

// ResetAtOnce breaks off at the first byte.
func ResetAtOnce(c *Conn) {
	_, _ = c.in.Peek(1) // earlier, and the client's dial may be what fails
	c.Reset()
}

// ResetBeforeHeaders takes the request whole and breaks off.
func ResetBeforeHeaders(c *Conn) { after(func(c *Conn) { c.Reset() })(c) }

// CloseBeforeHeaders does the same politely, with a FIN.
func CloseBeforeHeaders(c *Conn) { after(func(*Conn) {})(c) }

// Stall takes the request whole and says nothing until the client hangs up.
func Stall(c *Conn) { after(untilHungUp)(c) }

// Garbage takes the request whole and answers in another language.
func Garbage(c *Conn) { Say("SSH-2.0-OpenSSH_9.6\r\n\r\n")(c) }

// Say takes the request whole, answers with text and closes politely.
func Say(text string) Play {
	return after(func(c *Conn) { _, _ = io.WriteString(c, text); untilHungUpAfterFIN(c) })
}

// SayAndReset is Say with an RST at the end. So that what was said arrives
// before it, it waits until the client has acted on it, or a moment.
func SayAndReset(text string) Play {
	return after(func(c *Conn) {
		_, _ = io.WriteString(c, text)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		_, _ = c.in.ReadByte()
		c.Reset()
	})
}

// Trickle takes the request whole and sends its answer byte by byte, with a
// gap after each.
func Trickle(status int, gap time.Duration) Play {
	return after(func(c *Conn) {
		for _, b := range []byte(Response(status, "trickled", "Connection: close")) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(gap)
		}
		untilHungUpAfterFIN(c)
	})
}

// Endless takes the request whole and sends a body without end.
func Endless(status int) Play {
	return after(func(c *Conn) {
		_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nTransfer-Encoding: chunked\r\n\r\n", status, http.StatusText(status))
		chunk := fmt.Appendf(nil, "1000\r\n%s\r\n", bytes.Repeat([]byte("x"), 0x1000))
		for err == nil {
			_, err = c.Write(chunk)
		}
	})
}

// Early reads the first bytes of the body, answers, and goes on as it is told:
// it reads the rest and the next request, or shuts its side down, or breaks
// off without warning.
func Early(status int, first int64, then AfterEarly) Play {
	return Serve(func(c *Conn, in *Incoming) bool { return c.AnswerEarly(in, status, first, then) })
}

// AfterEarly is what follows an early answer.
type AfterEarly int

// The ways to go on after an early answer.
const (
	KeepAlive AfterEarly = iota
	ShutDown             // "Connection: close", FIN, and the rest of the body is read
	HangUp               // "Connection: close" and the connection is closed under the body
)

// AnswerEarly is the Exchange of Early.
func (c *Conn) AnswerEarly(in *Incoming, status int, first int64, then AfterEarly) bool {
	c.Receive(in, first)
	var headers []string
	if then != KeepAlive {
		headers = []string{"Connection: close"}
	}
	_, _ = io.WriteString(c, Response(status, "early", headers...))
	switch then {
	case KeepAlive:
		return c.ReceiveAll(in)
	case ShutDown:
		untilHungUpAfterFIN(c)
	}
	return false
}

// ClosedIdle answers the first request and closes the connection once the
// second has come: to the client it looks as if it had been idle too long.
func ClosedIdle(c *Conn) {
	answered := false
	Serve(func(c *Conn, in *Incoming) bool {
		if !c.ReceiveAll(in) || answered {
			return false
		}
		answered = true
		_, err := io.WriteString(c, Response(200, "200"))
		return err == nil
	})(c)
}

// after takes one request whole and then does f.
func after(f func(*Conn)) Play {
	return Serve(func(c *Conn, in *Incoming) bool {
		if c.ReceiveAll(in) {
			f(c)
		}
		return false
	})
}

func untilHungUp(c *Conn) { _, _ = io.Copy(io.Discard, c.in) }

func untilHungUpAfterFIN(c *Conn) {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	untilHungUp(c)
}

// over is the same connection one layer up.
func (c *Conn) over(conn net.Conn) *Conn {
	return &Conn{Conn: conn, Number: c.Number, server: c.server, in: bufio.NewReader(conn)}
}
