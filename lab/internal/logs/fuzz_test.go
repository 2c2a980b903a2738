package logs

import (
	"os"
	"path/filepath"
	"testing"
)

// No file makes the reader panic.
func FuzzRead(f *testing.F) {
	f.Add("combined", `1.2.3.4 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "x" rt=0.1`)
	f.Add("json", `{"time":1e300,"status":"x","latency":-1}`)
	f.Add("json", `{"ts":1772366410.5,"status":503,"amz_sdk_request":"attempt="}`)
	f.Add("otlp", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"1","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}}]}]}]}]}`)
	f.Fuzz(func(t *testing.T, format, text string) {
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if log, err := Read(name, format); err == nil && len(log.Entries) == 0 {
			t.Fatal("neither entries nor an error")
		}
	})
}
