package retrip

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A wrapper is a body that Prepare puts around another.
type wrapper struct {
	io.Reader
	io.Closer
}

// rewinds are ways in which Prepare replaces a body by itself.
var rewinds = map[string]func(*http.Request) error{
	"untouched": func(*http.Request) error { return nil },
	"wrapped":   func(req *http.Request) error { req.Body = wrapper{bytesOf(req.Body), req.Body}; return nil },
	"hashed": func(req *http.Request) error {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		return rewind(req)
	},
	"opened anew":         rewind,
	"closed, opened anew": func(req *http.Request) error { _ = req.Body.Close(); return rewind(req) },
	"opened anew, and once more for nothing": func(req *http.Request) error {
		_ = req.Body.Close()
		err := rewind(req)
		_, _ = req.GetBody()
		return err
	},
	"opened anew, wrapped": func(req *http.Request) error {
		err := rewind(req)
		req.Body = wrapper{bytesOf(req.Body), req.Body}
		return err
	},
	"closed, opened anew, wrapped": func(req *http.Request) error {
		_ = req.Body.Close()
		err := rewind(req)
		req.Body = wrapper{bytesOf(req.Body), req.Body}
		return err
	},
	"sniffed": func(req *http.Request) error {
		err := rewind(req)
		head := make([]byte, 4)
		_, _ = io.ReadFull(req.Body, head)
		req.Body = wrapper{io.MultiReader(bytes.NewReader(head), req.Body), req.Body}
		return err
	},
	"through a pipe": func(req *http.Request) error {
		err := rewind(req)
		body := req.Body
		r, w := io.Pipe()
		go func() {
			_, err := io.Copy(w, body)
			_ = body.Close()
			_ = w.CloseWithError(err)
		}()
		req.Body = r
		return err
	},
}

func rewind(req *http.Request) (err error) {
	req.Body, err = req.GetBody()
	return err
}

// bytesOf hides what else a reader can do.
func bytesOf(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

// Whatever Prepare does to sign a body or to put something around it, the base
// reads it whole, now or, as over HTTP/2, when it has answered already; and the
// caller's body is closed once.
func TestPrepareAndTheBody(t *testing.T) {
	for name, prepare := range rewinds {
		for _, late := range []bool{false, true} {
			for _, attempts := range []int{1, 2} {
				for _, content := range []string{"hello, world", strings.Repeat("longer than the buffer ", 1000)} {
					if attempts == 2 && (late || len(content) > 1000) {
						continue // which can't be sent again
					}
					for _, reopened := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/late %v/%d/%d/GetBody %v", name, late, attempts, len(content), reopened), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								if name == "hashed" && len(content) > 1000 && !reopened {
									return // it can be read once, and Prepare has
								}
								sent, answered := 0, make(chan struct{})
								base := step(func(req *http.Request) (*http.Response, error) {
									sent++
									read := func() {
										got, err := io.ReadAll(req.Body)
										_ = req.Body.Close()
										if err != nil || string(got) != content {
											t.Error("another body:", len(got), err)
										}
									}
									if late {
										go func() { <-answered; read() }()
									} else {
										read()
									}
									return status([]int{200, 503}[attempts-sent])(req)
								})
								body := opaque(content)
								req := newRequest(t, "PUT", body)
								if reopened {
									req.GetBody = func() (io.ReadCloser, error) { return opaque(content), nil }
								}
								transport := &Transport{Base: base, Strategy: noWait(), ReplayBuffer: 1000,
									Prepare: func(req *http.Request, _ PrepareInfo) error { return prepare(req) }}
								resp, err := transport.RoundTrip(req.WithContext(WithMaxAttempts(req.Context(), attempts)))
								require.NoError(t, err)
								require.Equal(t, 200, resp.StatusCode)
								close(answered)
								synctest.Wait()
								require.Equal(t, attempts, sent)
								require.Equal(t, 1, body.Closes())
							})
						})
					}
				}
			}
		}
	}
}
