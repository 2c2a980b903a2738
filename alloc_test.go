package retrip

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// A request that succeeds at once costs nothing beyond its base.
func TestSuccessAllocatesNothing(t *testing.T) {
	countsAllocations(t)
	base := testkit.Same(&http.Response{StatusCode: 200, Body: http.NoBody})
	throttled := Adaptive()
	throttled.Limiter.measured = 1e9 // fast enough that nobody ever waits
	throttled.Limiter.update(throttled.Limiter.clock(), true)
	throttled.Limiter.tokens = 1e6
	asked := Standard()
	asked.Classifiers = slices.Insert(asked.Classifiers, 0, Classifier(ClassifierFunc(func(Attempt) Class { return Unknown })))
	transports := map[string]*Transport{
		"per host":              {Base: base},
		"single strategy":       {Base: base, Strategy: Standard()},
		"legacy":                {Base: base, Strategy: Legacy()},
		"asked of successes":    {Base: base, Strategy: asked},
		"adaptive":              {Base: base, Strategy: Adaptive()},
		"adaptive per host":     {Base: base, PerKey: func(string) *Strategy { return Adaptive() }},
		"adaptive, throttled":   {Base: base, Strategy: throttled},
		"gated":                 {Base: base, Strategy: Gated()},
		"gated per host":        {Base: base, PerKey: func(string) *Strategy { return Gated() }},
		"observer that ignores": {Base: base, Observe: func(Event) {}},
	}
	get, err := http.NewRequest("GET", "http://example.com:80/path", nil)
	require.NoError(t, err)
	put, err := http.NewRequest("PUT", "https://example.com/path", bytes.NewReader(make([]byte, 1024)))
	require.NoError(t, err)
	for name, transport := range transports {
		for _, req := range []*http.Request{get, put} {
			t.Run(name+" "+req.Method, func(t *testing.T) {
				require.Zero(t, testkit.Allocations(t, transport, req))
			})
		}
	}
}

// A retry allocates the request that it sends.
func TestRetryAllocatesOnce(t *testing.T) {
	countsAllocations(t)
	bad, good := &http.Response{StatusCode: 503, Body: http.NoBody}, &http.Response{StatusCode: 200, Body: http.NoBody}
	sent := 0
	transport := &Transport{Strategy: noWait(), Base: step(func(*http.Request) (*http.Response, error) {
		if sent++; sent%2 == 1 {
			return bad, nil
		}
		return good, nil
	})}
	req, err := http.NewRequest("GET", "http://example.com/path", nil)
	require.NoError(t, err)
	require.Equal(t, 1.0, testing.AllocsPerRun(1000, func() {
		if resp, err := transport.RoundTrip(req); err != nil || resp != good {
			t.Fatal(resp, err)
		}
	}))
}

func BenchmarkSuccess(b *testing.B) {
	base := testkit.Same(&http.Response{StatusCode: 200, Body: http.NoBody})
	req, _ := http.NewRequest("GET", "http://example.com/path", nil)
	run := func(name string, rt http.RoundTripper) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = rt.RoundTrip(req)
			}
		})
	}
	run("base", base)
	run("single", &Transport{Base: base, Strategy: Standard()})
	run("perhost", &Transport{Base: base})
	run("gated", &Transport{Base: base, Strategy: Gated()})
	run("adaptive", &Transport{Base: base, Strategy: Adaptive()})
	run("observed", &Transport{Base: base, Strategy: Standard(), Observe: func(Event) {}})
	run("logged", &Transport{Base: base, Strategy: Standard(), Observe: LogTo(slog.New(slog.DiscardHandler))})
	run("counted", &Transport{Base: base, Strategy: Standard(), KeepStats: true})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
}
