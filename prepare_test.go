package retrip

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
	"github.com/retrip-go/retrip/internal/testkit"
)

// What Prepare may do to a request and its body.

// A wrapper is a body that Prepare puts around another.
type wrapper struct {
	io.Reader
	io.Closer
}

// rewinds are ways in which Prepare replaces a body by itself.
var rewinds = map[string]func(*http.Request) error{
	"untouched": func(*http.Request) error { return nil },
	"wrapped":   func(req *http.Request) error { req.Body = wrapper{testkit.OnlyReader(req.Body), req.Body}; return nil },
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
		req.Body = wrapper{testkit.OnlyReader(req.Body), req.Body}
		return err
	},
	"closed, opened anew, wrapped": func(req *http.Request) error {
		_ = req.Body.Close()
		err := rewind(req)
		req.Body = wrapper{testkit.OnlyReader(req.Body), req.Body}
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

// An upload is sent with a body that Prepare touches.
type upload struct {
	content  string
	reopened bool // with GetBody
	attempts int  // how many it takes
	late     bool // the base reads the body when it has answered already, as over HTTP/2
}

// Whatever Prepare does to sign a body or to put something around it, the base
// reads it whole, and the caller's body is closed once.
func TestPrepareAndTheBody(t *testing.T) {
	short, long := "hello, world", strings.Repeat("longer than the buffer ", 1000)
	for name, prepare := range rewinds {
		for _, u := range []upload{
			{short, false, 1, false}, {short, true, 1, false},
			{short, false, 2, false}, {short, true, 2, false},
			{short, false, 1, true}, {short, true, 1, true},
			{long, false, 1, false}, {long, true, 1, false}, // which can't be sent again
			{long, false, 1, true}, {long, true, 1, true},
		} {
			if name == "hashed" && u.content == long && !u.reopened {
				continue // it can be read once, and Prepare has
			}
			t.Run(fmt.Sprintf("%s/late %v/%d/%d/GetBody %v", name, u.late, u.attempts, len(u.content), u.reopened), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { u.send(t, prepare) })
			})
		}
	}
}

func (u upload) send(t *testing.T, prepare func(*http.Request) error) {
	sent, answered := 0, make(chan struct{})
	base := step(func(req *http.Request) (*http.Response, error) {
		sent++
		read := func() {
			got, err := io.ReadAll(req.Body)
			_ = req.Body.Close()
			if err != nil || string(got) != u.content {
				t.Error("another body:", len(got), err)
			}
		}
		if u.late {
			go func() { <-answered; read() }()
		} else {
			read()
		}
		return status([]int{200, 503}[u.attempts-sent])(req)
	})
	body := opaque(u.content)
	req := newRequest(t, "PUT", body)
	if u.reopened {
		req.GetBody = func() (io.ReadCloser, error) { return opaque(u.content), nil }
	}
	transport := &Transport{Base: base, Strategy: noWait(attempts(u.attempts)), ReplayBuffer: 1000,
		Prepare: func(req *http.Request, _ PrepareInfo) error { return prepare(req) }}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	close(answered)
	synctest.Wait()
	require.Equal(t, u.attempts, sent)
	require.Equal(t, 1, body.Closes())
}

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var preps []PrepareInfo
		base := script(status(503), jsonError(400, "Throttling"), status(200))
		transport := &Transport{Base: base, Prepare: func(req *http.Request, p PrepareInfo) error {
			preps = append(preps, p)
			req.Header.Add("Signature", p.Last.String())
			return nil
		}}
		req := newRequest(t, "PUT", strings.NewReader("body"))
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		require.Equal(t, []PrepareInfo{{Number: 1}, {Number: 2, Last: Transient}, {Number: 3, Last: Throttled}}, preps)
		for i, sent := range base.Sent() {
			require.Equal(t, []string{preps[i].Last.String()}, sent.Header["Signature"], "nothing adds up over attempts")
			require.Equal(t, "body", sent.Content)
		}
		require.Empty(t, req.Header, "the caller's request is untouched")
	})
}

func TestPrepareFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noKey := errors.New("no key")
		for _, failing := range []int{1, 2} {
			base := script(status(503))
			s := Adaptive()
			body := opaque("body")
			req := newRequest(t, "PUT", body)
			_, err := (&Transport{Base: base, Strategy: s, Prepare: func(_ *http.Request, p PrepareInfo) error {
				if p.Number == failing {
					return noKey
				}
				return nil
			}}).RoundTrip(req)
			require.ErrorIs(t, err, ErrPrepareFailed)
			require.ErrorIs(t, err, noKey)
			require.Len(t, base.Sent(), failing-1)
			require.Equal(t, 500, s.tokens())
			require.Equal(t, 1, body.Closes())
		}
	})
}

// A progress wraps a body, as a Prepare that measures or limits does.
type progress struct {
	io.ReadCloser
	n int
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.n += n
	return n, err
}

// Prepare wraps the body. It is closed once, and the request succeeds.
func TestPrepareMayWrapABody(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	}))
	defer srv.Close()
	f := testkit.OpenFile(t, "content", 0)
	req, _ := http.NewRequest("PUT", srv.URL, f)
	req.ContentLength = 7
	req.GetBody = func() (io.ReadCloser, error) { return os.Open(f.Name()) }
	tr := &Transport{Strategy: noWait(), Prepare: func(out *http.Request, _ PrepareInfo) error {
		out.Body = &progress{ReadCloser: out.Body}
		return nil
	}}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "content", string(b))
	_ = resp.Body.Close()
}

func TestPrepareThatWrapsABodyClosesItOnce(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		bodies := testkit.Reopener{Content: "body"}
		body, _ := bodies.Open()
		req := newRequest(t, "PUT", body)
		req.GetBody = bodies.Open
		ctx := WithMaxAttempts(req.Context(), attempts)
		base := script(status(503), status(200))
		_, err := (&Transport{Base: base, Strategy: noWait(), Prepare: func(out *http.Request, _ PrepareInfo) error {
			out.Body = &progress{ReadCloser: out.Body}
			return nil
		}}).RoundTrip(req.WithContext(ctx))
		require.NoError(t, err)
		for i, b := range bodies.Opened {
			require.Equal(t, 1, b.Closes(), "attempts %d, body %d", attempts, i)
		}
	}
}

// The caller's body is closed with the one that Prepare made of it, also if
// that one's Close does not pass it on and the server answers before it is read.
func TestPrepareThatWrapsABodyWithoutItsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := opaque("body")
		_, err := (&Transport{
			Base: step(func(req *http.Request) (*http.Response, error) {
				_ = req.Body.Close()
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			}),
			Prepare: func(out *http.Request, _ PrepareInfo) error {
				out.Body = io.NopCloser(out.Body)
				return nil
			},
		}).RoundTrip(newRequest(t, "PUT", source))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, source.Closes())
	})
}

// Prepare reads the body itself, replaces it, and forgets a copy.
func TestPrepareThatReadsABodyAndForgetsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := opaque("body")
		_, err := (&Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) error {
			_, _ = req.GetBody() // forgotten
			b, _ := io.ReadAll(req.Body)
			_ = req.Body.Close()
			req.Body = io.NopCloser(bytes.NewReader(b))
			return nil
		}}).RoundTrip(newRequest(t, "PUT", src))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, src.Closes())
	})
}

// A body that Prepare put in place is closed if Prepare then fails.
func TestPrepareThatFailsAfterReplacingABody(t *testing.T) {
	repl := opaque("x")
	_, err := (&Transport{Base: script(status(200)), Prepare: func(req *http.Request, _ PrepareInfo) error {
		req.Body = repl
		return errors.New("no key")
	}}).RoundTrip(newRequest(t, "PUT", opaque("body")))
	require.ErrorIs(t, err, ErrPrepareFailed)
	require.Equal(t, 1, repl.Closes())
}

// A signer reads the body through GetBody, as it does with any request.
func hashBody(req *http.Request, _ PrepareInfo) error {
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return err
	}
	req.Header.Set("Digest", fmt.Sprintf("%x", h.Sum(nil)))
	return nil
}

func TestPrepareMayReadTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const content = "0123456789"
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		for name, body := range map[string]func() io.Reader{
			"reopened": func() io.Reader { return strings.NewReader(content) },
			"opaque":   func() io.Reader { return opaque(content) },
			"file":     func() io.Reader { return testkit.OpenFile(t, content, 0) },
		} {
			base := script(status(503), status(200))
			_, err := (&Transport{Base: base, Prepare: hashBody, ReplayBuffer: 10}).RoundTrip(newRequest(t, "PUT", body()))
			require.NoError(t, err, name)
			require.Len(t, base.Sent(), 2, name)
			for _, sent := range base.Sent() {
				require.Equal(t, content, sent.Content, name)
				require.Equal(t, sum, sent.Header.Get("Digest"), name)
			}
		}
		// A body that is longer can't be read twice, and says so before it is sent.
		base := script(status(200))
		body := opaque(content)
		_, err := (&Transport{Base: base, Prepare: hashBody, ReplayBuffer: 9}).RoundTrip(newRequest(t, "PUT", body))
		require.ErrorIs(t, err, ErrPrepareFailed)
		require.ErrorIs(t, err, replay.ErrTooLong)
		require.Empty(t, base.Sent())
		require.Equal(t, 1, body.Closes())
	})
}

func TestPrepareMayReplaceTheBody(t *testing.T) {
	for name, replacement := range map[string]io.ReadCloser{"nothing": nil, "other": io.NopCloser(strings.NewReader("other"))} {
		for _, getBody := range []bool{false, true} {
			body := opaque("body")
			req := newRequest(t, "PUT", body)
			if getBody {
				req.GetBody = func() (io.ReadCloser, error) { return opaque("body"), nil }
			}
			base := script(status(200))
			_, err := (&Transport{Base: base, Prepare: func(req *http.Request, _ PrepareInfo) error {
				req.Body = replacement
				return nil
			}}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, map[string]string{"nothing": "", "other": "other"}[name], base.Sent()[0].Content)
			require.Equal(t, 1, body.Closes(), name)
			replacement = io.NopCloser(strings.NewReader("other"))
			if name == "nothing" {
				replacement = nil
			}
		}
	}
}

// Trailers are filled in while the body is read.
func TestTrailersSurvivePrepare(t *testing.T) {
	for _, prepare := range []func(*http.Request, PrepareInfo) error{nil, func(*http.Request, PrepareInfo) error { return nil }} {
		req := newRequest(t, "PUT", nil)
		req.Trailer = http.Header{"Sum": nil}
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), testkit.ReaderFunc(func([]byte) (int, error) {
			req.Trailer.Set("Sum", "42")
			return 0, io.EOF
		})))
		base := script(status(200))
		_, err := (&Transport{Base: base, Prepare: prepare}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, "42", base.Sent()[0].Trailer.Get("Sum"))
	}
}

// A body that Prepare takes away is gone on the wire as it is without us.
func TestPrepareThatTakesTheBodyAway(t *testing.T) {
	testkit.NoLeaks(t)
	for name, take := range map[string]func(*http.Request){
		"nil":                  func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 },
		"NoBody":               func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 },
		"NoBody, length stays": func(r *http.Request) { r.Body, r.GetBody = http.NoBody, nil },
		"closed":               func(r *http.Request) { _ = r.Body.Close(); r.Body, r.GetBody, r.ContentLength = nil, nil, 0 },
	} {
		for protocol, b := range testkit.Pairs([]string{"h1", "h2c"}, []testkit.BodyKind{
			{Name: "GetBody", Open: testkit.ReopenedBody}, {Name: "opaque", Open: testkit.OpaqueBody},
		}) {
			t.Run(protocol+"/"+name+"/"+b.Name, func(t *testing.T) {
				var seen []string
				url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					seen = append(seen, fmt.Sprint(r.Method, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"], body))
					w.WriteHeader(503)
				})
				send := func(rt http.RoundTripper, spoil func(*http.Request)) {
					req := testkit.RequestTo(t, "PUT", url, nil)
					closed := b.Open(t, req, testkit.Small)
					req.ContentLength = int64(len(testkit.Small))
					spoil(req)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					if rt != base {
						testkit.Eventually(t, closed, "the close of the request's body")
					}
				}
				send(base, take)
				send(&Transport{Base: base, Strategy: noWait(), Prepare: func(r *http.Request, _ PrepareInfo) error { take(r); return nil }},
					func(*http.Request) {})
				require.Len(t, seen, 4)
				for _, request := range seen[1:] {
					require.Equal(t, seen[0], request)
				}
			})
		}
	}
}

// signAndRewind is a Prepare that signs what it reads of a body and then rewinds
// it as it would any request's, by GetBody, perhaps with something around it.
func signAndRewind(around func(io.ReadCloser) io.ReadCloser) func(*http.Request, PrepareInfo) error {
	return func(req *http.Request, _ PrepareInfo) error {
		h := sha256.New()
		if _, err := io.Copy(h, req.Body); err != nil {
			return err
		}
		if err := req.Body.Close(); err != nil {
			return err
		}
		req.Header.Set("Sum", fmt.Sprintf("%x", h.Sum(nil)))
		body, err := req.GetBody()
		if err != nil {
			return err
		}
		req.Body = around(body)
		return nil
	}
}

func TestPrepareThatRewindsTheBody(t *testing.T) {
	testkit.NoLeaks(t)
	prepares := map[string]func(*http.Request, PrepareInfo) error{
		"as it is": signAndRewind(func(b io.ReadCloser) io.ReadCloser { return b }),
		"wrapped":  signAndRewind(func(b io.ReadCloser) io.ReadCloser { return wrapper{io.MultiReader(b, strings.NewReader("")), b} }),
	}
	for kind, open := range map[string]testkit.Opener{
		"GetBody": testkit.ReopenedBody, "opaque": testkit.OpaqueBody, "in memory": testkit.BareMemoryBody, "file": testkit.FileBody(7),
	} {
		for name, prepare := range prepares {
			for protocol, attempts := range testkit.Pairs([]string{"h1", "h2c"}, []int{1, 3}) {
				t.Run(fmt.Sprint(protocol, "/", name, "/", kind, "/", attempts), func(t *testing.T) {
					var hits atomic.Int64
					url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						got, err := io.ReadAll(r.Body)
						if err != nil || !bytes.Equal(got, testkit.Small) || r.Header.Get("Sum") != fmt.Sprintf("%x", sha256.Sum256(testkit.Small)) {
							t.Error("another body:", len(got), err)
						}
						if int(hits.Add(1)) < attempts {
							w.WriteHeader(503)
						}
					})
					req := testkit.RequestTo(t, "PUT", url, nil)
					closed := open(t, req, testkit.Small)
					transport := &Transport{Base: base, Strategy: noWait(), Prepare: prepare}
					resp, err := transport.RoundTrip(req.WithContext(WithMaxAttempts(req.Context(), attempts)))
					require.NoError(t, err)
					require.Equal(t, 200, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
					testkit.Eventually(t, closed, "the close of the request's body")
				})
			}
		}
	}
}
