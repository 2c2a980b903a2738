package retrip

import (
	"bufio"
	"net/http"
	"reflect"
)

// arrivedWhole reports whether a response body has come whole, together with its
// headers, so that reading it can't wait for the network. If it is not known, it is
// false.
//
// Nothing public tells. So this looks into the body that net/http gives a response
// over HTTP/1, for how much of it lies in the connection's buffer, from which nobody
// else reads before the body's end. A body that is built in another way is one of
// which it is not known.
func arrivedWhole(resp *http.Response) bool {
	if resp.ContentLength <= 0 || resp.ContentLength > readAhead {
		return false
	}
	if body, ok := resp.Body.(interface{ Len() int }); ok { // such as a bytes.Reader's
		return int64(body.Len()) >= resp.ContentLength
	}
	body := reflect.ValueOf(resp.Body)
	if body.Kind() != reflect.Pointer || body.Type().Elem().PkgPath() != "net/http" {
		return false
	}
	buffer := inside(inside(inside(body.Elem(), "body"), "src"), "R")
	if !buffer.IsValid() || buffer.Type() != reflect.TypeFor[bufio.Reader]() {
		return false
	}
	read, filled := buffer.FieldByName("r"), buffer.FieldByName("w")
	return read.CanInt() && filled.CanInt() && filled.Int()-read.Int() >= resp.ContentLength
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
