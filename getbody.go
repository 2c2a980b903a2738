package retrip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
)

// hasBody reports whether a request carries one at all.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close() // the request failed already, for a better reason
	}
}

// A watchedBody notes whether it failed: an error that came out of a body is no
// proof that nothing was sent. If it is one of several in one attempt, the first
// takes note for all.
type watchedBody struct {
	io.ReadCloser
	broken *atomic.Bool
}

func watch(body io.ReadCloser) *watchedBody { return &watchedBody{body, new(atomic.Bool)} }

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.broken.Store(true)
	}
	return n, err
}

func (b *watchedBody) failed() bool { return b.broken.Load() }

// bodyFailed reports whether the body of the request that was sent failed, or
// whether nothing is known about it.
func bodyFailed(sent *http.Request) (failed, unknown bool) {
	if watched, ok := sent.Body.(interface{ failed() bool }); ok {
		return watched.failed(), false
	}
	return false, hasBody(sent) && sent.GetBody != nil && !isInMemory(sent.Body)
}

// A sizedBody is a body from GetBody of a request that declares its length. It
// says clearly what net/http would say in passing: that GetBody is wrong.
type sizedBody struct {
	io.ReadCloser
	want, left int64
}

type bodyLengthError struct{ want, got int64 }

func (e *bodyLengthError) Error() string {
	if e.got > e.want {
		return fmt.Sprintf("retrip: Request.GetBody returned more than the %d bytes of Request.ContentLength: "+
			"it must return the same body each time", e.want)
	}
	return fmt.Sprintf("retrip: Request.GetBody returned %d bytes where Request.ContentLength says %d: "+
		"it must return the same body each time", e.got, e.want)
}

func (b *sizedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return n - int(min(-b.left, int64(n))), &bodyLengthError{b.want, b.want - b.left}
	case err == io.EOF && b.left > 0:
		return n, &bodyLengthError{b.want, b.want - b.left}
	}
	return n, err
}

// reopen opens the body of a request that has a GetBody.
func reopen(req *http.Request) (io.ReadCloser, error) {
	body, err := req.GetBody()
	switch {
	case err != nil:
		return nil, fmt.Errorf("Request.GetBody failed: %w", err)
	case body == nil:
		return nil, errors.New("Request.GetBody returned a nil body and no error")
	case req.ContentLength > 0:
		body = &sizedBody{body, req.ContentLength, req.ContentLength}
	}
	if isInMemory(body) {
		return body, nil
	}
	return watch(body), nil
}

// isInMemory reports whether a body is one of those whose Read can't fail, as
// http.NewRequest makes them of a bytes.Reader, bytes.Buffer or strings.Reader,
// or of a part of one.
func isInMemory(body io.ReadCloser) bool {
	v := reflect.ValueOf(body)
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != "io" || v.NumField() != 1 {
		return false // not an io.NopCloser
	}
	r := v.Field(0).Interface()
	if part, ok := r.(*io.LimitedReader); ok && part != nil {
		r = part.R
	}
	switch r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}
