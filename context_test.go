package retrip

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOuterAttempt(t *testing.T) {
	tests := []struct {
		name, value string
		want        int
	}{
		{"amz-sdk-request", "attempt=2; max=3", 2},
		{"amz-sdk-request", "ttl=20260101T000000Z; attempt=1; max=3", 1},
		{"amz-sdk-request", "max=3", 0},
		{"amz-sdk-request", "attempt=two", 0},
		{"x-stainless-retry-count", "0", 1},
		{"x-stainless-retry-count", "2", 3},
		{"x-envoy-attempt-count", "2", 2},
		{"x-envoy-attempt-count", "0", 0},
		{"x-envoy-attempt-count", "-2", 0},
		{"x-envoy-attempt-count", "99999999999999999999", 0},
		{"Retry-Attempt", "1", 2},
		{"grpc-previous-rpc-attempts", "1", 2},
		{"Retry-After", "5", 0},
	}
	for _, tt := range tests {
		req := newRequest(t, "GET", nil)
		req.Header.Set(tt.name, tt.value)
		require.Equal(t, tt.want, outerAttempt(req), "%s: %s", tt.name, tt.value)
	}
}

// Of several, the one that went on longest counts, and garbage hides nobody.
func TestOuterAttemptsOfSeveral(t *testing.T) {
	for _, header := range []http.Header{
		{"Amz-Sdk-Request": {"attempt=x"}, "Retry-Attempt": {"2"}},
		{"X-Stainless-Retry-Count": {"not a number"}, "X-Envoy-Attempt-Count": {"3"}},
		{"X-Stainless-Retry-Count": {"0"}, "X-Envoy-Attempt-Count": {"3"}},
		{"Amz-Sdk-Request": {"attempt=3; max=3"}, "X-Envoy-Attempt-Count": {"1"}},
	} {
		require.Equal(t, 3, outerAttempt(&http.Request{Header: header}), header)
	}
}

// It is not multiplied where a success is taken for a failure, either.
func TestOuterRetrierAndAFailureWithStatus202(t *testing.T) {
	s := Standard()
	s.Classifiers = append([]Classifier{On(Transient, StatusIs(202))}, s.Classifiers...)
	base := script(status(202))
	req := newRequest(t, http.MethodPut, nil)
	req.Header.Set("Amz-Sdk-Request", "attempt=2; max=3")
	_, err := (&Transport{Base: base, Strategy: s}).RoundTrip(req)
	require.NoError(t, err)
	require.Len(t, base.Sent(), 1)
}

// A retrier further out that says so is not multiplied: its first attempt is
// retried here, its later ones are sent once, and events tell.
func TestOuterRetrierIsNotMultiplied(t *testing.T) {
	for _, name := range []string{"Amz-Sdk-Request", "X-Stainless-Retry-Count", "X-Envoy-Attempt-Count"} {
		synctest.Test(t, func(t *testing.T) {
			base := script(status(503))
			var outer []int
			transport := &Transport{Base: base, Observe: func(e Event) { outer = append(outer, e.OuterAttempt) }}
			sdk := map[string][]string{
				"Amz-Sdk-Request":         {"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"},
				"X-Stainless-Retry-Count": {"0", "1", "2"},
				"X-Envoy-Attempt-Count":   {"1", "2", "3"},
			}[name]
			for _, value := range sdk {
				req := newRequest(t, http.MethodGet, nil)
				req.Header.Set(name, value)
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 503, resp.StatusCode)
			}
			require.Len(t, base.Sent(), 3+1+1)
			require.Equal(t, []int{1, 1, 1, 2, 3}, outer)
		})
	}
}

func TestStackedTransportsAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503))
		inner := &Transport{Base: base}
		outer := &Transport{Base: inner}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Len(t, base.Sent(), 3+2)
	})
}

// The inner transport leaves the retrying to the outer one, and nothing else.
func TestInnerTransportStillDoesItsDuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503), status(503), status(503), hangs(), status(200))
		var observed int
		inner := &Transport{Base: base, AttemptTimeout: time.Second, Observe: func(Event) { observed++ },
			Prepare: func(req *http.Request, _ PrepareInfo) error {
				req.Header.Set("Authorization", "signed")
				return nil
			}}
		outer := &Transport{Base: inner, Prepare: func(req *http.Request, p PrepareInfo) error {
			req.URL.RawQuery = "attempt=" + strconv.Itoa(p.Number) // what marks a retry is what is sent
			return nil
		}}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, base.Sent(), 3+2)
		require.Equal(t, 5, observed)
		for _, sent := range base.Sent() {
			require.Equal(t, "signed", sent.Header.Get("Authorization"))
		}
	})
}

// A token fetched inside the base, with the same context, is another request.
func TestInnerRequestsKeepTheirRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := script(status(503), status(503), status(200))
		tokenClient := &Transport{Base: tokens}
		attempts := 0
		outer := &Transport{Base: step(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				return status(503)(req)
			}
			fetch, err := http.NewRequestWithContext(req.Context(), "GET", "https://example.com/token", nil)
			if err != nil {
				return nil, err
			}
			return tokenClient.RoundTrip(fetch)
		})}
		resp, err := get(t.Context(), outer)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, tokens.Sent(), 3)
	})
}

func TestOverridesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503))
		_, err := get(WithMaxAttempts(t.Context(), 5), &Transport{Base: base})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 5)

		base = script(status(503))
		_, err = get(WithMaxAttempts(t.Context(), 1), &Transport{Base: base})
		require.NoError(t, err)
		require.Len(t, base.Sent(), 1)

		base = script(status(503))
		s := longest(Legacy())
		s.Backoff = Constant{Wait: time.Second}
		_, err = get(WithStrategy(t.Context(), s), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, milliseconds(1000, 1000, 1000), base.Waits())
	})
}

// What a context says adds up.
func TestOverridesAddUp(t *testing.T) {
	base := script(status(503))
	ctx := WithMaxAttempts(WithIdempotent(WithStrategy(t.Context(), noWait())), 2)
	_, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "POST", nil).WithContext(ctx))
	require.NoError(t, err)
	require.Len(t, base.Sent(), 2)
}
