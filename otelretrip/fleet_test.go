package otelretrip

import (
	"net/http"
	"testing"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
)

// someFleet knows of two servers.
type someFleet struct{}

func (someFleet) Totals() (reports, errors, refused int64, latency time.Duration) {
	return 30, 2, 7, 4 * time.Millisecond
}

func (someFleet) Verdicts(yield func(key string, doubt, limit float64, age time.Duration) bool) {
	_ = yield("down.example", 12, 6, time.Second) && yield("shaky.example", 3, 6, time.Millisecond)
}

// A fleet's numbers are measured, until the Transport is closed.
func TestFleetIsMeasured(t *testing.T) {
	k := newKit()
	k.options.Fleet = someFleet{}
	transport, err := Wrap(&retrip.Transport{Base: status(200)}, k.options)
	require.NoError(t, err)
	for _, host := range []string{"down.example", "shaky.example"} {
		req, err := http.NewRequest("GET", "https://"+host+"/", nil)
		require.NoError(t, err)
		_, err = transport.RoundTrip(req)
		require.NoError(t, err)
	}
	lines := k.lines(t)
	for _, line := range []string{
		"retrip.fleet.reports: 30", "retrip.fleet.errors: 2", "retrip.fleet.refused: 7", "retrip.fleet.latency: 0.004",
		"retrip.fleet.doubt server.address=down.example server.port=443: 2",
		"retrip.fleet.doubt server.address=shaky.example server.port=443: 0.5",
		"retrip.fleet.age server.address=down.example server.port=443: 1",
	} {
		require.Contains(t, lines, line)
	}
	require.NoError(t, transport.Close())
	for _, line := range k.lines(t) {
		require.NotContains(t, line, "retrip.fleet")
	}
}
