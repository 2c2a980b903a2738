package retrip_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// A mock transport is a base like any other: tests of a program that uses
// retrip need no server. (httpmock does not read request bodies, so what is
// promised of those is tested elsewhere.)
func TestOverAMockTransport(t *testing.T) {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("GET", "https://api.example.com/items",
		httpmock.NewStringResponder(503, "not yet").
			Then(httpmock.NewErrorResponder(io.ErrUnexpectedEOF)).
			Then(httpmock.NewJsonResponderOrPanic(200, []string{"a", "b"})))
	s := retrip.Standard()
	s.Backoff = retrip.Constant{Wait: time.Millisecond}
	client := &http.Client{Transport: &retrip.Transport{Base: mock, Strategy: s}}

	resp, err := client.Get("https://api.example.com/items")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, `["a","b"]`, string(body))
	require.Equal(t, 3, mock.GetTotalCallCount())

	_, err = client.Get("https://api.example.com/elsewhere")
	require.ErrorContains(t, err, "no responder found", "the base's own words come through")
}
