package retrip

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// The request is the caller's, who has it back as it was.

// ways are Transports that send in different ways.
func ways(base http.RoundTripper) map[string]*Transport {
	all := transports(base)
	all["observed"] = &Transport{Base: base, Observe: func(Event) {}}
	all["adaptive"] = &Transport{Base: base, Strategy: Adaptive()}
	all["adding"] = &Transport{Base: base, AttemptTimeout: time.Minute, Prepare: func(req *http.Request, _ PrepareInfo) error {
		for _, header := range []http.Header{req.Header, http.Header(req.Form), http.Header(req.PostForm)} {
			if header != nil {
				header.Add("Spare", "more")
				header["Added"] = []string{"by Prepare"}
			}
		}
		req.URL.RawQuery, req.Host, req.Close = "added=1", "added.example", !req.Close
		req.TransferEncoding = append(req.TransferEncoding, "more")
		return nil
	}}
	return all
}

// No field of the caller's request is another afterwards, however it ends: not
// even what lies behind the end of a slice.
func TestNoFieldOfTheRequestChanges(t *testing.T) {
	ends := map[string][]step{
		"success":       {status(200)},
		"retried":       {status(503), status(200)},
		"spent":         {status(503)},
		"broken":        {fails(errReset)},
		"hopeless":      {fails(&baseError{"no"})},
		"wait too long": {status(503, "Retry-After: 99")},
		"cancelled":     {status(503, "Retry-After: 30")},
	}
	for end, steps := range ends {
		for way := range ways(nil) {
			for _, kind := range testkit.BodyKinds {
				t.Run(end+"/"+way+"/"+kind.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx := t.Context()
						if end == "cancelled" {
							var cancel context.CancelFunc
							ctx, cancel = context.WithCancel(ctx)
							time.AfterFunc(time.Second, cancel)
						}
						spare := func() map[string][]string {
							return map[string][]string{"Spare": slices.Grow([]string{"a"}, 3), "mixed-Case": {"b", "c"}}
						}
						req := newRequest(t, "PUT", nil).WithContext(ctx)
						kind.Open(t, req, testkit.Small)
						req.Header, req.Trailer, req.Form, req.PostForm = spare(), http.Header{"T": {"v"}}, spare(), spare()
						req.MultipartForm = &multipart.Form{Value: spare()}
						req.TransferEncoding = slices.Grow([]string{"chunked"}, 3)
						req.Close, req.Proto, req.ProtoMajor, req.ProtoMinor = end == "success", "HTTP/3.0", 3, 0
						req.Host, req.RemoteAddr, req.Pattern = "other.example", "192.0.2.1:1", "/pattern"
						req.Response, req.TLS = &http.Response{StatusCode: 302}, tlsState
						req.SetPathValue("name", "value")

						was, deep := *req, req.Clone(ctx)
						resp, err := ways(script(steps...))[way].RoundTrip(req)
						if err == nil {
							require.NoError(t, resp.Body.Close())
						}
						require.Equal(t, end == "cancelled" || end == "broken" || end == "hopeless", err != nil)
						synctest.Wait()
						requireUnchanged(t, req, &was, deep)
						require.Equal(t, "value", req.PathValue("name"))
						for _, header := range []map[string][]string{req.Header, req.Form, req.PostForm, req.MultipartForm.Value} {
							require.Equal(t, []string{"a", "", "", ""}, header["Spare"][:4])
						}
						require.Equal(t, []string{"chunked", "", "", ""}, req.TransferEncoding[:4])
					})
				})
			}
		}
	}
}

// "should not modify the request, except for consuming and closing the
// Request's Body."
func TestRequestIsNotModified(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		var hits atomic.Int64
		url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if len(r.Header["Added"]) > 1 {
				t.Error("what Prepare adds piles up")
			}
			if hits.Add(1)%3 != 0 {
				w.WriteHeader(503)
			}
		})
		all := transports(base)
		all["adding"] = &Transport{Base: base, AttemptTimeout: time.Minute, Prepare: func(req *http.Request, _ PrepareInfo) error {
			req.Header.Add("Added", "by Prepare")
			req.URL.RawQuery, req.Host, req.Form = "added=1", "added.example", map[string][]string{"a": nil}
			return nil
		}}
		for name, transport := range all {
			transport.Strategy = noWait()
			for _, b := range testkit.BodyKinds {
				t.Run(protocol+"/"+name+"/"+b.Name, func(t *testing.T) {
					if b.Over {
						b.Content = testkit.Small // three attempts for all
					}
					req := testkit.RequestTo(t, "PUT", url+"/path?query", nil)
					req.Header["mixed-Case"] = []string{"a", "b"}
					closed := b.Open(t, req, b.Content)
					if req.Body != nil {
						req.Trailer = http.Header{"T": {"v"}} // without a body, net/http never ends the stream
					}
					was, deep := *req, req.Clone(req.Context())
					resp, err := transport.RoundTrip(req)
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
					testkit.Eventually(t, closed, "the close of the request's body")
					requireUnchanged(t, req, &was, deep)
				})
			}
		}
	}
}

// requireUnchanged compares a request with a shallow and a deep copy of it.
func requireUnchanged(t *testing.T, req, was, deep *http.Request) {
	t.Helper()
	is, shallow, cloned := reflect.ValueOf(req).Elem(), reflect.ValueOf(was).Elem(), reflect.ValueOf(deep).Elem()
	for i := range is.NumField() {
		name, now, before := is.Type().Field(i).Name, is.Field(i), shallow.Field(i)
		switch now.Kind() {
		case reflect.Map, reflect.Pointer, reflect.Slice, reflect.Func, reflect.Chan:
			require.Equal(t, before.Pointer(), now.Pointer(), "which %s it is", name)
		default:
			require.True(t, before.Equal(now), name)
		}
		if field := is.Type().Field(i); field.IsExported() && now.Kind() != reflect.Func && name != "Body" {
			require.Equal(t, cloned.Field(i).Interface(), now.Interface(), name)
		}
	}
}

// "Callers should not mutate or reuse the request until the Response's Body
// has been closed", but then they may, whatever was done with it. (Run it with
// the race detector: it is what notices.)
func TestRequestMayBeReused(t *testing.T) {
	testkit.NoLeaks(t)
	for _, protocol := range testkit.AllProtocols {
		var hits atomic.Int64
		url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if hits.Add(1)%2 == 1 {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(503)
				_, _ = w.Write(testkit.Small)
			}
		})
		for way, transport := range transports(base) {
			transport.Strategy = noWait()
			for _, kind := range testkit.BodyKinds {
				if kind.Over {
					continue
				}
				t.Run(protocol+"/"+way+"/"+kind.Name, func(t *testing.T) {
					req := testkit.RequestTo(t, "PUT", url, nil)
					for i := range 5 {
						closed := kind.Open(t, req, testkit.Small)
						resp, err := transport.RoundTrip(req)
						require.NoError(t, err)
						require.Equal(t, 200, resp.StatusCode)
						require.NoError(t, resp.Body.Close())
						testkit.Eventually(t, closed, "the close of the request's body")
						req.Header.Set("Number", fmt.Sprint(i)) // a race if anybody still reads it
						req.URL.Path, req.Host, req.Method = fmt.Sprint("/", i), "example.com", "PUT"
						req.Body, req.GetBody, req.ContentLength = nil, nil, 0
					}
				})
			}
		}
	}
}

// A body with GetBody is the base's alone to read, in every way of sending, and
// closed once, also where the caller had given up before.
func TestBodyWithGetBodyIsLeftToTheBase(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for way := range ways(nil) {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cancelled %v", way, cancelled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var opened []*testkit.Body
					open := func() (io.ReadCloser, error) {
						opened = append(opened, &testkit.Body{ReadCloser: io.NopCloser(bytes.NewReader(testkit.Large))})
						return opened[len(opened)-1], nil
					}
					req := newRequest(t, "PUT", nil)
					if cancelled {
						req = req.WithContext(gone)
					}
					req.Body, _ = open()
					req.GetBody, req.ContentLength = open, int64(len(testkit.Large))
					transport := ways(step(func(out *http.Request) (*http.Response, error) {
						defer out.Body.Close()
						require.Zero(t, opened[len(opened)-1].BytesRead(), "read before it was sent")
						if out.Context().Err() != nil {
							return nil, out.Context().Err()
						}
						_, err := io.Copy(io.Discard, out.Body)
						require.NoError(t, err)
						return status(503)(out)
					}))[way]
					resp, err := transport.RoundTrip(req)
					require.Equal(t, cancelled, err != nil)
					if err == nil {
						require.NoError(t, resp.Body.Close())
					}
					synctest.Wait()
					require.Len(t, opened, map[bool]int{false: 3, true: 1}[cancelled])
					for _, body := range opened {
						require.Equal(t, 1, body.Closes())
					}
				})
			})
		}
	}
}

// What a dial that outlives its request reads of the mark is no longer the
// caller's, who has the request back. (The race detector is what notices.)
func TestMarkOutlivesTheRequest(t *testing.T) {
	inner := &Transport{Base: script(status(200))}
	done := make(chan struct{})
	attempts := 0
	base := step(func(req *http.Request) (*http.Response, error) {
		if attempts++; attempts == 1 {
			return status(503)(req)
		}
		ctx := context.WithoutCancel(req.Context()) // as net/http's for a dial
		go func() {
			defer close(done)
			lookup, err := http.NewRequestWithContext(ctx, "GET", "http://resolver.example/", nil)
			if err == nil {
				_, err = inner.RoundTrip(lookup)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		return status(200)(req)
	})
	req := newRequest(t, "GET", nil)
	resp, err := (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	req.URL.Path, req.URL.RawQuery = "/next", "other"
	req.Method = "PUT"
	<-done
}
