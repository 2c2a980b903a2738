package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/retrip-go/retrip"
)

// request builds the request. It opens a file that is to be sent, so that a file
// which can't be read is found before anything is sent.
func (o options) request(ctx context.Context, stdin io.Reader) (*http.Request, error) {
	if o.idempotent {
		ctx = retrip.WithIdempotent(ctx)
	}
	body, size, err := o.body(stdin)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, o.method, o.url.String(), body)
	if err != nil {
		return nil, err
	}
	if size > 0 { // of a file, for which net/http doesn't look itself
		req.ContentLength = size
	}
	req.Header = o.header
	req.Host = o.header.Get("Host") // net/http takes it from here only; empty means the URL's
	return req, nil
}

// body opens what -d names. A file is passed on as the *os.File it is: the
// transport streams it, and reads it from its beginning for each attempt. Of
// standard input it keeps what it needs for that.
func (o options) body(stdin io.Reader) (body io.Reader, size int64, err error) {
	if o.data == nil {
		return http.NoBody, 0, nil
	}
	name, found := strings.CutPrefix(*o.data, "@")
	switch {
	case !found:
		return strings.NewReader(*o.data), 0, nil
	case name == "-":
		return stdin, 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("-d: %w: name a file that can be read, or leave out the @ to send the text itself", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		_ = f.Close() // nothing was written
		return nil, 0, fmt.Errorf("-d: %w: name a file that can be read", err)
	case info.IsDir():
		_ = f.Close() // nothing was written
		return nil, 0, fmt.Errorf("-d: %s is a directory: name a file", name)
	case info.Mode().IsRegular():
		size = info.Size()
	}
	return f, size, nil
}
