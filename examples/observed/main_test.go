package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is said to be somewhere is there while the load lasts, and the report
// says something of everything.
func TestRun(t *testing.T) {
	t.Parallel()
	var out output
	done := make(chan error, 1)
	go func() { done <- run(context.Background(), &out, "127.0.0.1:0", 3*time.Second) }()

	metrics := out.find(t, `(http://\S+/metrics) `)
	vars := out.find(t, `(http://\S+/debug/vars) `)
	require.Eventually(t, func() bool {
		return bytes.Contains(fetch(metrics), []byte("retrip_attempts_total{"))
	}, 5*time.Second, 50*time.Millisecond)
	text := fetch(vars)
	require.True(t, json.Valid(text), "%s", text)
	require.Contains(t, string(text), `"catalog.example"`)

	require.NoError(t, <-done)
	const some = ` +[1-9]\d*`
	out.find(t, `(?m)^(time)=\S+ level=WARN .* host=billing.example .* reason="quota exhausted"`)
	out.find(t, `(?m)^ *(all)`+some+some+some+some+some+some+` *$`) // requests, …, given up
	out.find(t, `(?m)^(Why) requests were given up: .*quota exhausted`)
	out.find(t, `(?m)^(Spans): [1-9]\d* of requests, [1-9]\d* of attempts, [1-9]\d* of these resends\..* trace [0-9a-f]{32}\.$`)
	require.NotContains(t, out.String(), "invoices", "no path")
}

// An interrupt ends the program within a second, although handlers of the
// servers hang for five.
func TestInterruptEndsSoon(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out output
	done := make(chan error, 1)
	go func() { done <- run(ctx, &out, "127.0.0.1:0", time.Minute) }()
	metrics := out.find(t, `(http://\S+/metrics) `)
	// A timeout shows that a handler hangs.
	require.Eventually(t, func() bool {
		return bytes.Contains(fetch(metrics), []byte(`error_type="timeout"`))
	}, 20*time.Second, 50*time.Millisecond)

	interrupt()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Second):
		require.Fail(t, "still running a second after the interrupt")
	}
	out.find(t, `(?m)^(Spans): [1-9]`)
}

// The index links to every page. An unknown path stays a 404.
func TestIndex(t *testing.T) {
	t.Parallel()
	o, err := observe(http.DefaultTransport, io.Discard)
	require.NoError(t, err)
	defer o.close()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		o.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	index := get("/")
	require.Equal(t, http.StatusOK, index.Code)
	require.Equal(t, "text/html; charset=utf-8", index.Header().Get("Content-Type"))
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(index.Body.String(), -1)
	require.Len(t, links, len(o.places()))
	for _, link := range links {
		require.Equal(t, http.StatusOK, get(link[1]).Code, link[1])
	}
	require.Equal(t, http.StatusNotFound, get("/else").Code)
}

// output can be read while it is written to.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// find waits for what matches and returns its first group.
func (o *output) find(t *testing.T, pattern string) (found string) {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool {
		return expr.MatchString(o.String())
	}, 10*time.Second, 10*time.Millisecond, "%s in %s", pattern, o)
	return expr.FindStringSubmatch(o.String())[1]
}

func fetch(url string) []byte {
	resp, err := http.Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what is missing will be missed
	return text
}
