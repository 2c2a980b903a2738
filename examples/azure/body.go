package main

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// A transporter is a policy.Transporter that hands azcore's requests to an
// http.Client, with a GetBody of its own.
//
// net/http wants a new copy of the body from GetBody: when a server answers
// before it has read a request, the attempt that it answered may be read from
// still while the next is being sent. azcore's GetBody rewinds the one body that
// it has, so that the two would share an offset, and each send a part of it.
type transporter struct{ client *http.Client }

func (t transporter) Do(req *http.Request) (*http.Response, error) {
	if source, ok := req.Body.(io.ReadSeeker); ok { // all of azcore's bodies
		r := &rewinder{source: source}
		req = req.WithContext(req.Context()) // a copy: the request is azcore's
		req.GetBody = r.open
		var err error
		if req.Body, err = r.open(); err != nil {
			return nil, err
		}
	}
	return t.client.Do(req)
}

// A rewinder lets many read one source from its beginning, one after the other:
// only the newest of its readers reads on. It needs no memory, whatever the
// size of the blob.
type rewinder struct {
	mu     sync.Mutex
	source io.ReadSeeker
	newest *reader
}

func (r *rewinder) open() (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.source.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r.newest = &reader{r}
	return r.newest, nil
}

type reader struct{ *rewinder }

func (b *reader) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest != b {
		return 0, errors.New("read of a request body that is closed or sent anew")
	}
	return b.source.Read(p)
}

// Close ends the reading. The source is azcore's to close, when the call ends.
func (b *reader) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == b {
		b.newest = nil
	}
	return nil
}
