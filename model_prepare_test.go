package retrip

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// modelPrepare says what Prepare does.
type modelPrepare int

const (
	prepareNothing modelPrepare = iota
	prepareHeader
	prepareFailure // fails sometimes
	prepareHash    // reads a copy of the body
	prepareGlimpse // reads the beginning of a copy, and closes it later
	prepareWrap    // puts the body, and what GetBody gives, into others
	prepareSniff   // reads the beginning, and puts it in front of the rest
	prepareRewind  // reads it all, and puts in one that it can open again
	prepareReplace // puts in another content, with its GetBody
	prepareClose   // closes the body, and puts in the same content from memory
	prepareRemove  // takes the body away
	prepareBroken  // puts in one whose Read fails like a connection
	modelPrepares
)

var modelPrepareNames = [...]string{"nothing", "header", "failure", "hash", "glimpse", "wrap", "sniff", "rewind", "replace", "close", "remove", "broken"}

func (p modelPrepare) String() string { return modelPrepareNames[p] }

// reads reports whether Prepare may read more of the body than the base does.
func (p modelPrepare) reads() bool { return p > prepareFailure && p != prepareWrap }

// replaces reports whether the base gets a body of Prepare's making.
func (p modelPrepare) replaces() bool { return p >= prepareWrap }

// sent returns what the base must get of the body, and whether it gets one.
func (r *modelRequest) sent() (content []byte, body bool) {
	switch {
	case r.kind == bodyNone, r.script.prepare == prepareRemove:
		return nil, false
	case r.script.prepare == prepareReplace:
		return r.other, true
	}
	return r.content, true
}

// prepareRequest is Transport.Prepare.
func (s *modelScript) prepareRequest(req *http.Request, p PrepareInfo) error {
	r := modelRequestOf(req)
	r.prepared = append(r.prepared, time.Now())
	if p.Number != len(r.prepared) {
		r.wrong("attempt %d is prepared as number %d", len(r.prepared), p.Number)
	}
	r.at(stepPrepare)
	req.Header.Set("Prepared", strconv.Itoa(p.Number))
	if s.prepare == prepareFailure && (r.id+p.Number)%5 == 0 {
		if hasBody(req) {
			req.Body = r.open() // which the Transport closes, too
		}
		r.refusedBy = errors.New("not prepared")
		return r.refusedBy
	}
	err := r.prepareBody(req)
	if err != nil {
		r.refusedBy = err
	}
	return err
}

// prepareBody does with the body what the script's Prepare does with bodies.
func (r *modelRequest) prepareBody(req *http.Request) error {
	if !hasBody(req) {
		return nil
	}
	put := func(content []byte) {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		req.ContentLength, req.GetBody = int64(len(content)), open
		req.Body, _ = open()
	}
	switch r.script.prepare {
	case prepareHash:
		return r.hash(req)
	case prepareGlimpse:
		return r.glimpse(req)
	case prepareWrap:
		r.wrap(req)
	case prepareSniff:
		start := make([]byte, 1+r.id)
		n, err := io.ReadFull(req.Body, start)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		req.Body = modelWrapping{io.MultiReader(bytes.NewReader(start[:n]), req.Body), req.Body}
	case prepareRewind:
		content, err := io.ReadAll(req.Body)
		if err != nil {
			return err
		}
		put(content)
	case prepareReplace:
		put(r.other)
	case prepareClose:
		_ = req.Body.Close()
		put(r.content)
	case prepareRemove:
		req.Body, req.GetBody, req.ContentLength = []io.ReadCloser{nil, http.NoBody}[r.id%2], nil, 0
	case prepareBroken:
		errs := []error{&net.OpError{Op: "dial", Net: "tcp", Err: errReset}, http2StreamError{Code: refusedStream}}
		req.Body = &brokenBody{io.NopCloser(bytes.NewReader(r.content[:r.id%(len(r.content)+1)])), errs[r.id/2%2]}
		if req.GetBody = nil; r.id%2 == 0 {
			req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("not to be opened again") }
		}
	}
	return nil
}

// A modelWrapping is a body of Prepare's making.
type modelWrapping struct {
	io.Reader
	io.Closer
}

func (r *modelRequest) wrap(req *http.Request) {
	req.Body = modelWrapping{req.Body, req.Body}
	if open := req.GetBody; open != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := open()
			if err != nil {
				return nil, err
			}
			return modelWrapping{body, body}, nil
		}
	}
}

// A brokenBody fails where the one within ends.
type brokenBody struct {
	io.ReadCloser
	err error
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// glimpse reads the beginning of a copy, and closes it later.
func (r *modelRequest) glimpse(req *http.Request) error {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	_, _ = body.Read(make([]byte, 1+r.id))
	time.AfterFunc(time.Duration(r.id)*7*time.Millisecond, func() { _ = body.Close() })
	return nil
}

// hash reads a copy to its end.
func (r *modelRequest) hash(req *http.Request) error {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	for got, buffer := 0, make([]byte, 700); ; {
		if err := req.Context().Err(); err != nil {
			return err
		}
		n, err := body.Read(buffer)
		if got+n > len(r.content) || !bytes.Equal(buffer[:n], r.content[got:got+n]) {
			r.wrong("a copy of the body has other bytes at %d", got)
		}
		got += n
		switch {
		case err == io.EOF:
			if got != len(r.content) {
				r.wrong("a copy of the body ends after %d bytes", got)
			}
			return nil
		case err != nil:
			return err
		}
	}
}
