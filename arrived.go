package retrip

import (
	"bufio"
	"io"
	"net/http"
	"reflect"

	"github.com/retrip-go/retrip/internal/replay"
)

// arrivedWhole reports whether the body of the response to req has come whole, together
// with its headers, so that reading it to its end can't wait for the network. If it is
// not known, it is false.
//
// Nothing public tells. So this looks into the body that net/http gives a response
// over HTTP/1, for whether what is left of it lies in the connection's buffer, of
// which nothing else is read before the body's end. At that end, net/http waits a moment
// for a request that it still writes, so that nothing is known if req has a body. A
// response body that is built in another way must be one that can't block.
func arrivedWhole(req *http.Request, resp *http.Response) bool {
	if hasBody(req) || resp.ContentLength <= 0 || resp.ContentLength > readAhead {
		return false
	}
	if replay.InMemory(resp.Body) { // as in tests; a Len method would not tell when the end comes
		return true
	}
	body := reflect.ValueOf(resp.Body)
	if body.Kind() != reflect.Pointer || body.Type().Elem().PkgPath() != "net/http" {
		return false
	}
	limited := inside(inside(body.Elem(), "body"), "src")
	if !limited.IsValid() || limited.Type() != reflect.TypeFor[io.LimitedReader]() {
		return false
	}
	buffer := inside(limited, "R")
	if !buffer.IsValid() || buffer.Type() != reflect.TypeFor[bufio.Reader]() {
		return false
	}
	left, read, filled := limited.FieldByName("N"), buffer.FieldByName("r"), buffer.FieldByName("w")
	return read.CanInt() && filled.CanInt() && filled.Int()-read.Int() >= left.Int()
}

// inside is what a struct has in the field of a name, or what that points to.
func inside(v reflect.Value, field string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	v = v.FieldByName(field)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}
