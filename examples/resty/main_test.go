package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

var overloaded = faultlayer.Answer(503, "busy")

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), "\n5 calls, 10 requests, 2 notes.\n"), out.String())
}

// Whatever resty makes a body of, it arrives again, byte by byte.
func TestBodiesAreSentAgain(t *testing.T) {
	t.Parallel()
	large := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
	for name, test := range map[string]struct {
		body any
		want []byte
	}{
		"struct": {note{"öl, \"milk\""}, []byte(`{"text":"öl, \"milk\""}`)},
		"string": {"milk", []byte("milk")},
		"bytes":  {large, large},
		"reader": {struct{ io.Reader }{bytes.NewReader(large)}, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, client := serve(t)
			server.notes = []string{""}
			server.faults.Fail(nil, overloaded, overloaded)
			resp, err := client.R().SetBody(test.body).Put("/notes/1")
			require.NoError(t, err)
			require.Equal(t, "note 1", resp.String())
			requireHits(t, server, "PUT", test.want, 3)
			require.EqualValues(t, 3, base.calls.Load())

			resp, err = client.R().Get("/notes/1")
			require.NoError(t, err)
			require.True(t, bytes.Equal(test.want, resp.Body()))
		})
	}
}

// A server that answers before it has read a large upload gets all of it the
// next time.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	large := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(large)
	server, base, client := serve(t)
	server.notes = []string{""}
	server.faults.Fail(nil, faultlayer.Early(503))
	resp, err := client.R().SetBody(large).Put("/notes/1")
	require.NoError(t, err)
	require.Equal(t, "note 1", resp.String())
	require.True(t, string(large) == server.notes[0])
	require.EqualValues(t, 2, base.calls.Load())
}

// The last answer is the caller's, and a POST that may have had its effect is
// not repeated.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.faults.Fail(nil, overloaded, overloaded, overloaded, overloaded, overloaded)
	resp, err := client.R().Get("/notes/1")
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode())
	require.Equal(t, "busy", resp.String())
	requireHits(t, server, "GET", nil, 3)
	require.EqualValues(t, 3, base.calls.Load())

	server.faults.Reset()
	server.faults.Fail(nil, overloaded, overloaded)
	resp, err = client.R().SetBody("milk").Post("/notes")
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode())
	requireHits(t, server, "POST", []byte("milk"), 1)
	require.EqualValues(t, 4, base.calls.Load())
	require.Zero(t, server.count())
}

// When a connection breaks that served before, net/http itself replays a GET,
// below retrip and uncounted by it. On a fresh one the retry is ours.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.notes = []string{"milk"}
	for i, calls := range []int64{2, 3} {
		server.faults.Fail(nil, faultlayer.Reset)
		resp, err := client.R().Get("/notes/1")
		require.NoError(t, err)
		require.Equal(t, "milk", resp.String())
		requireHits(t, server, "GET", nil, 2*(i+1))
		require.Equal(t, calls, base.calls.Load())
	}
}

// resty's own retries, if left on, make nine requests of three attempts. And
// they make three notes of one whose answers are lost.
func TestRestysOwnRetries(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	client.SetRetryCount(2).SetRetryWaitTime(time.Millisecond).SetLogger(silent{})
	client.AddRetryCondition(func(resp *resty.Response, err error) bool {
		return err != nil || resp.StatusCode() >= 500
	})
	for range 10 {
		server.faults.Fail(nil, overloaded)
	}
	resp, err := client.R().Get("/notes/1")
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode())
	requireHits(t, server, "GET", nil, 9)
	require.EqualValues(t, 9, base.calls.Load())

	// The first answer is lost, retrip stops there, and resty goes on.
	server, base, client = serve(t)
	client.SetRetryCount(2).SetRetryWaitTime(time.Millisecond).SetLogger(silent{})
	lost := func(w http.ResponseWriter, r *http.Request) {
		server.write(httptest.NewRecorder(), r)
		faultlayer.Reset(w, r)
	}
	server.faults.Fail(nil, lost, lost, lost)
	_, err = client.R().SetBody("milk").Post("/notes")
	require.ErrorIs(t, err, retrip.ErrNotIdempotent)
	requireHits(t, server, "POST", []byte("milk"), 3)
	require.EqualValues(t, 3, base.calls.Load())
	require.Equal(t, 3, server.count())
}

// serve starts a server and makes a client for it, over a base that counts.
func serve(t *testing.T) (*server, *meter, *resty.Client) {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	base := &meter{RoundTripper: new(http.Transport)}
	return server, base, newClient(server.URL, &retrip.Transport{Base: base, PerKey: strategy})
}

// A meter counts the calls of a base.
type meter struct {
	http.RoundTripper
	calls atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.calls.Add(1)
	return m.RoundTripper.RoundTrip(req)
}

type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}

// requireHits wants n requests to have arrived, all with the same body.
func requireHits(t *testing.T, s *server, method string, body []byte, n int) {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := s.faults.Hits()
	require.Len(t, hits, n)
	sum := sha256.Sum256(body)
	for _, hit := range hits {
		require.Equal(t, method, hit.Method)
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
	}
}
