package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
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
