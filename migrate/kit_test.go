package migrate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// An answer is what a scripted base returns: an error, or a response.
type answer struct {
	status      int
	contentType string
	body        string
	zipped      bool
	err         error
}

// A base gives its answers one after the other, the last one for ever, and
// notes what it was sent and when.
type base struct {
	answers []answer
	bodies  []string
	at      []time.Time
}

func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
	}
	a := b.answers[min(len(b.at), len(b.answers)-1)]
	b.bodies, b.at = append(b.bodies, string(sent)), append(b.at, time.Now())
	if a.err != nil {
		return nil, a.err
	}
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: -1, Request: req}
	resp.Header.Set("Content-Type", a.contentType)
	if a.zipped {
		resp.Header.Set("Content-Encoding", "gzip")
		resp.Body = io.NopCloser(bytes.NewReader(zip(a.body)))
	}
	if a.body == "" {
		resp.Body, resp.ContentLength = http.NoBody, 0
	}
	return resp, nil
}

func zip(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // a Buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

func (b *base) waits() (waits []time.Duration) {
	for i := range b.at[1:] {
		waits = append(waits, b.at[i+1].Sub(b.at[i]))
	}
	return waits
}

// A result is what became of a request.
type result struct {
	status int
	header http.Header
	body   string
	err    error
}

// call sends a request with the strategy over a base with the answers.
func call(t *testing.T, s *retrip.Strategy, req *http.Request, answers ...answer) (b *base, r result) {
	t.Helper()
	b = &base{answers: answers}
	synctest.Test(t, func(t *testing.T) {
		transport := &retrip.Transport{Base: b, Strategy: s}
		require.NoError(t, transport.Validate())
		resp, err := transport.RoundTrip(req)
		if r.err = err; err != nil {
			return
		}
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		r.status, r.header, r.body = resp.StatusCode, resp.Header, string(body)
	})
	return b, r
}

func get(t *testing.T) *http.Request { return request(t, http.MethodGet, "") }

func request(t *testing.T, method, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://user:secret@host/path", strings.NewReader(body))
	require.NoError(t, err)
	return req
}

// refuses checks that Validate and RoundTrip return an error with the text.
func refuses(t *testing.T, s *retrip.Strategy, text string) {
	t.Helper()
	b := new(base)
	transport := &retrip.Transport{Base: b, Strategy: s}
	require.ErrorContains(t, transport.Validate(), text)
	_, err := transport.RoundTrip(get(t))
	require.ErrorContains(t, err, text)
	require.Empty(t, b.at)
}

var errBroken = errors.New("broken")
