package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// NewRequest makes a request of https://example.com.
func NewRequest(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	return RequestTo(t, method, "https://example.com/path?key=value", body)
}

// RequestTo makes a request with the context of the test.
func RequestTo(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

// Get sends a GET with ctx and returns its response, closed and with its body
// still to be read, and its error.
func Get(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://example.com/path", nil)
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if resp != nil {
		defer resp.Body.Close()
		body, readErr := io.ReadAll(resp.Body)
		if readErr != nil {
			return nil, readErr
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, err
}

// Milliseconds returns so many milliseconds each.
func Milliseconds(n ...int) []time.Duration {
	var d []time.Duration
	for _, ms := range n {
		d = append(d, time.Duration(ms)*time.Millisecond)
	}
	return d
}

// Allocations returns how many a request makes, on average.
func Allocations(t testing.TB, rt http.RoundTripper, req *http.Request) float64 {
	t.Helper()
	return testing.AllocsPerRun(1000, func() {
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	})
}

// ReadJSON reads a file of JSON into a struct, of which no field may stay empty:
// a test of no rows would pass.
func ReadJSON(t testing.TB, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
	fields := reflect.ValueOf(into).Elem()
	for i := range fields.NumField() {
		require.NotEmpty(t, fields.Field(i).Interface(), "%s of %s", fields.Type().Field(i).Name, file)
	}
}

// HeapInUse is how much memory is in use once garbage is collected.
func HeapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// HeapGrowth returns how much more memory is in use after do than before.
func HeapGrowth(do func()) int64 {
	before := HeapInUse()
	do()
	return HeapInUse() - before
}

// Allocated returns how much memory do takes, garbage included.
func Allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Pairs yields each of one list with each of another.
func Pairs[A, B any](as []A, bs []B) iter.Seq2[A, B] {
	return func(yield func(A, B) bool) {
		for _, a := range as {
			for _, b := range bs {
				if !yield(a, b) {
					return
				}
			}
		}
	}
}
