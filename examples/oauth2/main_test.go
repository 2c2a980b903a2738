package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

const want = `
oauth2                                outcome   token requests  requests  trouble
above                                 200 OK    2               2         GET: the token request fails once, and so does the GET
above                                 200 OK    2               1         POST: the token request fails once
above                                 no token  3               0         GET: every token request fails
below                                 200 OK    2               2         GET: the token request fails once, and so does the GET
below                                 no token  1               0         POST: the token request fails once
below                                 no token  3               0         GET: every token request fails
below, tokens through another retrip  200 OK    2               2         GET: the token request fails once, and so does the GET
below, tokens through another retrip  200 OK    2               1         POST: the token request fails once
below, tokens through another retrip  no token  9               0         GET: every token request fails
in Prepare                            200 OK    2               2         GET: the token request fails once, and so does the GET
in Prepare                            200 OK    2               1         POST: the token request fails once
in Prepare                            no token  3               0         GET: every token request fails
`

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.True(t, strings.HasSuffix(out.String(), want), out.String())
}

// In every order, a body arrives again as it was, and the answer comes back as
// it is; neither costs a second token.
func TestBodiesAreSentAgain(t *testing.T) {
	t.Parallel()
	large := make([]byte, 200<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
	throttled := faultlayer.Answer(429, "slowly")
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			server.faults.Fail(isItem, throttled, throttled)
			client := order.make(base.transport(), server.config())
			resp, err := client.Post(server.URL+"/items", "", strings.NewReader(string(large)))
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, string(large) == string(text))
			requireCount(t, server, 1, 3)
			require.EqualValues(t, 3, base.items.Load())
			sum := sha256.Sum256(large)
			for _, hit := range server.faults.Hits() {
				if hit.Path == "/items" {
					require.Equal(t, hex.EncodeToString(sum[:]), hit.Hash)
				}
			}
		})
	}
}

// The last answer is the caller's, after no more than the attempts.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			server.faults.Fail(isItem, slices.Repeat([]faultlayer.Fault{failure}, 10)...)
			status, err := call(order.make(base.transport(), server.config()), http.MethodGet, server.URL)
			require.NoError(t, err)
			require.Equal(t, "503 Service Unavailable", status)
			requireCount(t, server, 1, 3)
			require.EqualValues(t, 3, base.items.Load())
		})
	}
}

// A token that becomes worthless while we wait is replaced where each attempt
// asks for one, and nowhere else.
func TestTokenForEachAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		tokens int
	}{
		"above":                                {"401 Unauthorized", 1},
		"below":                                {"200 OK", 2},
		"below, tokens through another retrip": {"200 OK", 2},
		"in Prepare":                           {"200 OK", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			server.lifetime = 1 // below ten seconds, oauth2 asks anew each time
			server.faults.Fail(isItem, func(w http.ResponseWriter, r *http.Request) {
				server.token.Add(1)
				failure(w, r)
			})
			i := slices.IndexFunc(orders, func(o order) bool { return o.name == name })
			status, err := call(orders[i].make(base.transport(), server.config()), http.MethodGet, server.URL)
			require.NoError(t, err)
			require.Equal(t, test.status, status)
			requireCount(t, server, test.tokens, 2)
		})
	}
}

// A client whose secret is refused is refused once, if retrip sees the answer.
// Below retrip that is an error like any other, unless the strategy knows it.
func TestRefusedClient(t *testing.T) {
	t.Parallel()
	refused := func(order func(*retrip.Transport, *clientcredentials.Config) *http.Client, s *retrip.Strategy) (tokens int) {
		server, base := serve(t)
		config := server.config()
		config.ClientSecret = "wrong"
		transport := base.transport()
		transport.PerKey = func(string) *retrip.Strategy { return s }
		_, err := call(order(transport, config), http.MethodGet, server.URL)
		var failure *oauth2.RetrieveError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "invalid_client", failure.ErrorCode)
		tokens, items := server.count()
		require.Zero(t, items)
		return tokens
	}
	require.Equal(t, 1, refused(above, strategy("")))
	require.Equal(t, 3, refused(below, strategy("")))

	s := strategy("")
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Permanent, retrip.ErrorAs[*oauth2.RetrieveError]()))
	require.Equal(t, 1, refused(below, s))
}

// oauth2's own repetition, if AuthStyle leaves it on, doubles whatever else
// multiplies.
func TestOAuth2sOwnRetry(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string]int{
		"above": 6, "below": 6, "below, tokens through another retrip": 18, "in Prepare": 6,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			server.faults.Fail(isToken, slices.Repeat([]faultlayer.Fault{failure}, 30)...)
			config := server.config()
			config.AuthStyle = oauth2.AuthStyleAutoDetect
			i := slices.IndexFunc(orders, func(o order) bool { return o.name == name })
			_, err := call(orders[i].make(base.transport(), config), http.MethodGet, server.URL)
			require.ErrorAs(t, err, new(*oauth2.RetrieveError))
			requireCount(t, server, tokens, 0)
			require.Zero(t, base.items.Load())
		})
	}
}

// When a connection breaks that served before, net/http itself replays a GET,
// below retrip and oauth2 and uncounted by either.
func TestReplayedBelow(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			server, base := serve(t)
			client := order.make(base.transport(), server.config())
			_, err := call(client, http.MethodGet, server.URL)
			require.NoError(t, err)
			server.faults.Fail(isItem, faultlayer.Reset)
			status, err := call(client, http.MethodGet, server.URL)
			require.NoError(t, err)
			require.Equal(t, "200 OK", status)
			requireCount(t, server, 1, 3)
			require.EqualValues(t, 2, base.items.Load())
		})
	}
}

func serve(t *testing.T) (*server, *meter) {
	t.Helper()
	server := newServer()
	t.Cleanup(server.Close)
	return server, new(meter)
}

// A meter is a base that counts its calls for items.
type meter struct {
	http.Transport
	items atomic.Int64
}

func (m *meter) transport() *retrip.Transport {
	return &retrip.Transport{Base: m, PerKey: strategy}
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	if isItem(req) {
		m.items.Add(1)
	}
	return m.Transport.RoundTrip(req)
}

// requireCount wants so many requests to have arrived.
func requireCount(t *testing.T, s *server, tokens, items int) {
	t.Helper()
	// A hit is noted after its answer, or its reset, may have arrived here.
	require.Eventually(t, func() bool { return len(s.faults.Hits()) >= tokens+items }, 5*time.Second, time.Millisecond)
	gotTokens, gotItems := s.count()
	require.Equal(t, tokens, gotTokens, "token requests")
	require.Equal(t, items, gotItems, "requests")
}
