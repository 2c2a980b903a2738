package retrip

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A base takes GetBody away from a request that is not its own, observed or not.
// The caller gets the response.
func TestBaseThatTakesGetBody(t *testing.T) {
	for name, observe := range map[string]func(Event){"not observed": nil, "observed": func(Event) {}} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			base := step(func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				require.NoError(t, req.Body.Close())
				sent = append(sent, string(body))
				req.GetBody = nil
				return status(503)(req)
			})
			req, err := http.NewRequest("PUT", "http://example.com/", strings.NewReader("body"))
			require.NoError(t, err)
			resp, err := (&Transport{Base: base, Strategy: noWait(), Observe: observe}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, []string{"body"}, sent)
		})
	}
}

// Key and PerKey are asked once for a request, whatever its strategy is made of.
func TestKeyIsAskedOnce(t *testing.T) {
	for name, change := range map[string]func(*Strategy){
		"plain":     func(*Strategy) {},
		"own quota": func(s *Strategy) { s.Quota = new(lentQuota) },
		"own rule": func(s *Strategy) {
			s.Classifiers = []Classifier{ClassifierFunc(func(Attempt) Class { return Unknown })}
		},
		"not usable": func(s *Strategy) { s.MaxAttempts = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			keys, made := 0, 0
			_, _ = get(t.Context(), &Transport{
				Base:   script(status(200)),
				Key:    func(*http.Request) string { keys++; return fmt.Sprint(keys) },
				PerKey: func(string) *Strategy { made++; s := Standard(); change(s); return s },
			})
			require.Equal(t, 1, keys)
			require.Equal(t, 1, made)
		})
	}
}

// Prepare may start something with an attempt's context that goes on while the
// attempt is sent, a token fetch for example.
func TestContextOfARetryOnTheSide(t *testing.T) {
	inner := &Transport{Base: script(status(200))}
	var side sync.WaitGroup
	transport := &Transport{Base: script(status(503), status(503), status(200)), Strategy: noWait(), Prepare: func(req *http.Request, _ PrepareInfo) error {
		ctx := context.WithoutCancel(req.Context())
		side.Go(func() { _, _ = get(ctx, inner) })
		return nil
	}}
	for range 20 {
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
	}
	side.Wait()
}
