package docstest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// The trace in architecture.md is what the transport does.
func TestArchitectureTrace(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		transport := &retrip.Transport{
			Base:   &server{status(503), status(429, "Retry-After", "3"), status(200)},
			PerKey: strategy(func(s *retrip.Strategy) { s.Rand = func() float64 { return 0.5 } }),
		}
		for _, e := range try(t, transport, request(t, "PUT", strings.NewReader("order"))) {
			wait := ""
			if e.Wait > 0 {
				wait = e.Wait.String()
			}
			row := fmt.Sprintf("| %d | %v | %d | %v | %s | %s | %d | %d |",
				e.Attempt, e.Sent.Sub(begun), e.Status, e.Class, wait, e.WaitFrom, e.TokensBefore, e.Tokens)
			require.Contains(t, string(page), strings.ReplaceAll(row, "  ", " "))
		}
	})
}
