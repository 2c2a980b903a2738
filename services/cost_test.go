package services_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
	"github.com/retrip-go/retrip/services"
)

// No service makes a request that succeeds at once dearer: its rules speak of
// failures only.
func TestSuccessAllocatesNothing(t *testing.T) {
	req, err := http.NewRequest("GET", "https://api.github.com/", nil)
	require.NoError(t, err)
	for name, s := range map[string]*retrip.Strategy{"GitHub": services.GitHub(), "OpenAI": services.OpenAI(), "IETF": services.IETF()} {
		for _, c := range s.Classifiers {
			if c, ok := c.(interface{ FailuresOnly() bool }); ok {
				require.True(t, c.FailuresOnly(), "%s: %v", name, c)
			}
		}
		transport := &retrip.Transport{Strategy: s, Base: testkit.Same(&http.Response{StatusCode: 200, Body: http.NoBody})}
		require.Zero(t, testkit.Allocations(t, transport, req), name)
	}
}
