package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
)

// reopen opens the body of a request that has a GetBody. What lies in memory whole
// can't fail, so nobody watches it.
func reopen(req *http.Request) (io.ReadCloser, error) {
	body, err := req.GetBody()
	switch {
	case err != nil:
		return nil, fmt.Errorf("Request.GetBody failed: %w", err)
	case body == nil:
		return nil, errors.New("Request.GetBody returned a nil body and no error")
	}
	length, known := memoryLength(body)
	if known && (req.ContentLength <= 0 || length == req.ContentLength) {
		return body, nil
	}
	if req.ContentLength > 0 {
		body = &sizedBody{body, req.ContentLength, req.ContentLength}
	}
	return watch(body), nil
}

// A sizedBody is a body from GetBody of a request that declares its length. It
// says clearly what net/http would say in passing: that GetBody is wrong.
type sizedBody struct {
	io.ReadCloser
	want, left int64
}

func (b *sizedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return n - int(min(-b.left, int64(n))), &LengthError{b.want, b.want - b.left}
	case err == io.EOF && b.left > 0:
		return n, &LengthError{b.want, b.want - b.left}
	}
	return n, err
}

// A LengthError tells of a GetBody that does not return the same body each time.
type LengthError struct{ want, got int64 }

func (e *LengthError) Error() string {
	if e.got > e.want {
		return fmt.Sprintf("retrip: Request.GetBody returned more than the %d bytes of Request.ContentLength: "+
			"it must return the same body each time", e.want)
	}
	return fmt.Sprintf("retrip: Request.GetBody returned %d bytes where Request.ContentLength says %d: "+
		"it must return the same body each time", e.got, e.want)
}

// InMemory reports whether a body is one of those whose Read can't fail or
// block, as http.NewRequest makes them of a bytes.Reader, bytes.Buffer or
// strings.Reader, or of a part of one.
func InMemory(body io.ReadCloser) bool {
	_, known := memoryLength(body)
	return known
}

// memoryLength is how many bytes are left to read of a body that is InMemory.
func memoryLength(body io.ReadCloser) (n int64, known bool) {
	v := reflect.ValueOf(body)
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != "io" || v.NumField() != 1 {
		return 0, false // not an io.NopCloser
	}
	r, most := v.Field(0).Interface(), int64(math.MaxInt64)
	if part, ok := r.(*io.LimitedReader); ok && part != nil {
		r, most = part.R, part.N
	}
	if p := reflect.ValueOf(r); p.Kind() == reflect.Pointer && p.IsNil() {
		return 0, false // Read will say so
	}
	switch r := r.(type) {
	case *bytes.Reader:
		n = int64(r.Len())
	case *bytes.Buffer:
		n = int64(r.Len())
	case *strings.Reader:
		n = int64(r.Len())
	default:
		return 0, false
	}
	return min(n, most), true
}
