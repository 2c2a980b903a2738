package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// What openai-go sends for question("Count."), at once and streamed.
const (
	plain    = `{"messages":[{"content":"Count.","role":"user"}],"model":"example"}`
	streamed = `{"messages":[{"content":"Count.","role":"user"}],"model":"example","stream":true}`
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), "\n5 calls, 9 requests.\n"), out.String())
}

// One failure costs one more request, with the same body.
func TestFailuresAreRecovered(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultlayer.Fault{
		"overloaded":      answer(503),
		"throttled":       answer(429, "Retry-After-Ms", "10.5"),
		"conflict":        answer(409),
		"asked for":       answer(400, "X-Should-Retry", "true"),
		"broken off":      faultlayer.Reset,
		"of a proxy":      faultlayer.Answer(502, "<html>bad gateway</html>"),
		"request timeout": answer(408),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, client := serve(t)
			server.faults.Fail(nil, fault)
			completion, err := client.Chat.Completions.New(t.Context(), question("Count."))
			require.NoError(t, err)
			require.Equal(t, "You said: Count.", completion.Choices[0].Message.Content)
			requireHits(t, server, plain, 2)
			require.EqualValues(t, 2, base.calls.Load())
		})
	}
}

// A streamed answer reaches the caller piece by piece: the server holds each
// back until the one before was read.
func TestStreamIsNotBuffered(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	read := make(chan struct{}, 3)
	server.between = func() bool {
		select {
		case <-read:
			return true
		case <-time.After(10 * time.Second):
			return false // somebody is buffering
		}
	}
	server.faults.Fail(nil, answer(503), answer(429, "Retry-After-Ms", "5"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), question("Count."))
	var words []string
	for stream.Next() {
		words = append(words, stream.Current().Choices[0].Delta.Content)
		read <- struct{}{}
	}
	require.NoError(t, stream.Err())
	require.NoError(t, stream.Close())
	require.Equal(t, []string{"one", "two", "three"}, words)
	requireHits(t, server, streamed, 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// A stream that breaks off is not begun anew behind the caller's back.
func TestBrokenStreamIsTheCallers(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	server.between = func() bool { return false }
	stream := client.Chat.Completions.NewStreaming(t.Context(), question("Count."))
	require.True(t, stream.Next())
	require.Equal(t, "one", stream.Current().Choices[0].Delta.Content)
	require.False(t, stream.Next())
	require.Error(t, stream.Err())
	require.NoError(t, stream.Close())
	requireHits(t, server, streamed, 1)
	require.EqualValues(t, 1, base.calls.Load())
}

// Neither what the server forbids to repeat nor a want of money is worth a
// retry.
func TestShouldNotRetry(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultlayer.Fault{
		"example": answer(503, "X-Should-Retry", "false"),
		"insufficient_quota": faultlayer.Answer(429, `{"error":{"code":"insufficient_quota"}}`,
			"Content-Type", "application/json"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, client := serve(t)
			server.faults.Fail(nil, fault)
			_, err := client.Chat.Completions.New(t.Context(), question("Count."))
			var failure *openai.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, name, failure.Code)
			requireHits(t, server, plain, 1)
			require.EqualValues(t, 1, base.calls.Load())
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	for range 10 {
		server.faults.Fail(nil, answer(500, "X-Should-Retry", "true"))
	}
	_, err := client.Chat.Completions.New(t.Context(), question("Count."))
	var failure *openai.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "status 500", failure.Message)
	requireHits(t, server, plain, 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// When a connection breaks that served before, net/http does not replay the
// call, since it is a POST without a key: the retry is ours, and counted.
func TestNothingIsReplayedBelow(t *testing.T) {
	t.Parallel()
	server, base, client := serve(t)
	_, err := client.Chat.Completions.New(t.Context(), question("Count."))
	require.NoError(t, err)
	server.faults.Fail(nil, faultlayer.Reset)
	_, err = client.Chat.Completions.New(t.Context(), question("Count."))
	require.NoError(t, err)
	requireHits(t, server, plain, 3)
	require.EqualValues(t, 3, base.calls.Load())
}

// openai-go's own two retries, if left on, make five requests of three
// attempts. They would make nine, but its X-Stainless-Retry-Count tells retrip
// to send its later attempts once; without the header, they do.
func TestOpenAIsOwnRetries(t *testing.T) {
	t.Parallel()
	const header = "X-Stainless-Retry-Count"
	for name, test := range map[string]struct {
		options []option.RequestOption
		counts  string
	}{
		"numbered":     {nil, "0,0,0,1,2,"},
		"not numbered": {[]option.RequestOption{option.WithHeaderDel(header)}, ",,,,,,,,,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, client := serve(t, append(test.options, option.WithMaxRetries(2))...) // the default
			for range 10 {
				server.faults.Fail(nil, answer(503, "Retry-After-Ms", "1"))
			}
			_, err := client.Chat.Completions.New(t.Context(), question("Count."))
			require.ErrorAs(t, err, new(*openai.Error))
			n := strings.Count(test.counts, ",")
			requireHits(t, server, plain, n)
			require.EqualValues(t, n, base.calls.Load())
			var counts strings.Builder
			for _, hit := range server.faults.Hits() {
				counts.WriteString(hit.Header.Get(header) + ",")
			}
			require.Equal(t, test.counts, counts.String())
		})
	}
}

// serve starts a server and makes a client for it, over a base that counts.
func serve(t *testing.T, options ...option.RequestOption) (*server, *meter, openai.Client) {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	base := &meter{RoundTripper: new(http.Transport)}
	return server, base, newClient(server.URL, &retrip.Transport{Base: base, PerKey: strategy}, options...)
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

// requireHits wants n requests to have arrived, all with the same body.
func requireHits(t *testing.T, s *server, body string, n int) {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= n }, 5*time.Second, time.Millisecond)
	hits := s.faults.Hits()
	require.Len(t, hits, n)
	sum := sha256.Sum256([]byte(body))
	for _, hit := range hits {
		require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
	}
}
