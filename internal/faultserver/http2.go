package faultserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
)

// HTTP2 speaks just enough HTTP/2 to break its rules: it takes requests
// without decoding their headers, and answers with frames written by hand. It
// serves prior knowledge (h2c) as it is, and TLS within Secure(…, "h2").
type HTTP2 struct {
	// MaxStreams, unless 0, is SETTINGS_MAX_CONCURRENT_STREAMS.
	MaxStreams uint32
	// Head and Whole are called when a request's headers and its end have come;
	// nil does nothing.
	Head, Whole func(*Stream)
	// Deaf leaves PINGs unanswered.
	Deaf bool
}

// Stream is one request over HTTP/2.
type Stream struct {
	ID uint32
	// Nth is its place among all requests of the Server, from 1.
	Nth int

	conn   *Conn
	record *Request
}

// The error codes of RFC 9113 section 7 that tests send.
const (
	NoError         = 0x0
	ProtocolError   = 0x1
	InternalError   = 0x2
	RefusedStream   = 0x7
	Cancel          = 0x8
	EnhanceYourCalm = 0xb
)

// Frame types and flags of RFC 9113 section 6.
const (
	frameData, frameHeaders, frameRST, frameSettings = 0x0, 0x1, 0x3, 0x4
	framePing, frameGoAway, frameWindowUpdate        = 0x6, 0x7, 0x8

	flagEndStream, flagAck, flagEndHeaders = 0x1, 0x1, 0x4
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Play is the Play of h.
func (h HTTP2) Play(c *Conn) {
	if _, err := io.CopyN(io.Discard, c.in, int64(len(preface))); err != nil {
		return
	}
	const maxConcurrentStreams, initialWindowSize, window = 3, 4, 1<<31 - 1
	settings := setting(nil, initialWindowSize, window) // no need to watch flow control
	if h.MaxStreams > 0 {
		settings = setting(settings, maxConcurrentStreams, h.MaxStreams)
	}
	c.frame(frameSettings, 0, 0, settings)
	c.frame(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, window-65535))
	streams := map[uint32]*Stream{}
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return
		}
		kind, flags, id := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.in, payload); err != nil {
			return
		}
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				c.frame(frameSettings, flagAck, 0, nil)
			}
		case framePing:
			if flags&flagAck == 0 && !h.Deaf {
				c.frame(framePing, flagAck, 0, payload)
			}
		case frameHeaders, frameData:
			s := streams[id]
			if s == nil {
				s = &Stream{ID: id, conn: c, record: c.record("")}
				s.Nth, streams[id] = c.nth(s.record), s
				call(h.Head, s)
			}
			if kind == frameHeaders {
				payload = nil // HPACK, or trailers
			}
			end := flags&flagEndStream != 0
			if c.progress(s.record, payload, end); end {
				call(h.Whole, s)
			}
		}
	}
}

func call(f func(*Stream), s *Stream) {
	if f != nil {
		f(s)
	}
}

func setting(b []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), value)
}

// frame writes a frame. A client that is gone is noticed when it is read from.
func (c *Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	_, _ = c.Write(append(b, payload...))
}

// Headers begins an answer.
func (s *Stream) Headers(status int) {
	text := strconv.Itoa(status)
	// RFC 7541 6.2.2: a literal, not indexed, whose name is entry 8 of the static table, :status.
	s.conn.frame(frameHeaders, flagEndHeaders, s.ID, append([]byte{0x08, byte(len(text))}, text...))
}

// Data goes on with it, to its end or not.
func (s *Stream) Data(body string, end bool) {
	var flags byte
	if end {
		flags = flagEndStream
	}
	s.conn.frame(frameData, flags, s.ID, []byte(body))
}

// Answer answers with a status, and the status as the body.
func (s *Stream) Answer(status int) {
	s.Headers(status)
	s.Data(fmt.Sprint(status), true)
}

// Reset ends the stream with an error code.
func (s *Stream) Reset(code uint32) {
	s.conn.frame(frameRST, 0, s.ID, binary.BigEndian.AppendUint32(nil, code))
}

// GoAway says that no stream after last was or will be processed.
func (s *Stream) GoAway(last, code uint32) {
	s.conn.frame(frameGoAway, 0, 0,
		binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// HangUp closes the connection.
func (s *Stream) HangUp() { _ = s.conn.Close() }

// Break resets the connection.
func (s *Stream) Break() { s.conn.Reset() }
