package retrip

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// looksAtBodies is a strategy that looks into every body.
func looksAtBodies() *Strategy {
	return noWait(attempts(1), func(s *Strategy) {
		s.Classifiers = []Classifier{ClassifierFunc(func(a Attempt) Class {
			if a.Body == nil {
				return NeedsBody
			}
			return Success
		})}
	})
}

// A closed response body gives nothing more, whatever was read ahead of it and
// whatever the base makes of a Read after Close.
func TestReadAfterCloseOfAResponse(t *testing.T) {
	for name, transport := range map[string]*Transport{
		"error body read ahead": {Base: script(jsonError(400, "Bad"))},
		"body asked for":        {Base: script(answer(200, "content")), Strategy: looksAtBodies()},
		"attempt timeout":       {Base: script(answer(200, "content")), AttemptTimeout: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			transport.Base = dropTracking{transport.Base}
			resp, err := transport.RoundTrip(newRequest(t, "GET", nil))
			require.NoError(t, err)
			_, err = resp.Body.Read(make([]byte, 1))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			n, err := resp.Body.Read(make([]byte, 100))
			require.Zero(t, n)
			require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// dropTracking answers with bodies that go on after Close.
type dropTracking struct{ base http.RoundTripper }

func (d dropTracking) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.base.RoundTrip(req)
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp, err
}

// A source that does not notice its Close keeps no reader waiting after it.
func TestReadAfterCloseOfABodyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		base := step(func(req *http.Request) (*http.Response, error) {
			resp, err := answer(500, "", "Content-Type: application/json")(req)
			resp.Body, resp.ContentLength = io.NopCloser(testkit.ReaderFunc(func([]byte) (int, error) {
				<-release
				return 0, io.EOF
			})), -1
			return resp, err
		})
		resp, err := (&Transport{Base: base, Strategy: noWait(attempts(1))}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		close(release)
	})
}

// Under the race detector: Close while others read.
func TestCloseDuringReadsOfAResponse(t *testing.T) {
	resp, err := (&Transport{Base: script(answer(400, strings.Repeat(" ", 40<<10), "Content-Type: application/json"))}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
				return
			}
		}
	})
	wg.Go(func() { _ = resp.Body.Close(); _ = resp.Body.Close() })
	wg.Wait()
	_, err = resp.Body.Read(make([]byte, 1))
	require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
}

// The body of an answer 101 is the connection: nothing is read ahead of it,
// even if a classifier asks.
func TestUpgradeIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connection := struct {
			io.ReadCloser
			io.Writer
		}{io.NopCloser(strings.NewReader("hello")), io.Discard}
		base := step(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Header: http.Header{}, Body: connection, Request: req}, nil
		})
		resp, err := (&Transport{Base: base, Strategy: looksAtBodies()}).RoundTrip(newRequest(t, "GET", nil))
		require.NoError(t, err)
		require.Implements(t, (*io.Writer)(nil), resp.Body)
	})
}
