package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A script is a server that gives its answers one after the other, and all
// further requests the last one. It keeps what it received.
type script struct {
	*httptest.Server
	answers []http.HandlerFunc

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, answers ...http.HandlerFunc) *script {
	t.Helper()
	s := &script{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte("broken: " + err.Error())
	}
	s.mu.Lock()
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	answer := s.answers[min(len(s.requests), len(s.answers))-1]
	s.mu.Unlock()
	answer(w, r)
}

// received returns the requests so far, whose bodies have been read.
func (s *script) received() (requests []*http.Request, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.bodies
}

func answer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a client that is gone does not miss it
	}
}

func retryAfter(seconds string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", seconds)
		answer(http.StatusServiceUnavailable, "later")(w, r)
	}
}

// hang answers when nobody waits any more.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// truncate promises more than it sends.
func truncate(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "only this") // the client sees the connection end
}

// stall sends the start of a body, and no more.
func stall(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "only this")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

type result struct {
	code           int
	stdout, stderr string
}

// fetch runs the program. Its standard input is a stream, not a string that
// net/http knows how to rewind.
func fetch(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr strings.Builder
	code := run(ctx, args, struct{ io.Reader }{strings.NewReader(stdin)}, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// times are what chance has a part in, or the port a server was given.
var (
	waits = regexp.MustCompile(`again in \S+ `)
	ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

func normal(stderr string) string {
	return ports.ReplaceAllString(waits.ReplaceAllString(stderr, "again in <wait> "), "<host>")
}

func TestExitCodeAndOutput(t *testing.T) {
	t.Parallel()
	ok, busy := answer(200, "content"), answer(503, "busy")
	for _, test := range []struct {
		name     string
		answers  []http.HandlerFunc
		flags    []string
		attempts int
		want     result
	}{
		{"success", []http.HandlerFunc{ok}, nil, 1, result{0, "content", ""}},
		{"retried", []http.HandlerFunc{busy, ok}, nil, 2, result{0, "content", ""}},
		{"not found", []http.HandlerFunc{answer(404, "gone")}, nil, 1, result{1, "gone", "fetch: status 404 Not Found\n"}},
		{"down", []http.HandlerFunc{busy}, nil, 3, result{1, "busy", "fetch: status 503 Service Unavailable\n"}},
		{"no retries", []http.HandlerFunc{busy}, []string{"-attempts", "1"}, 1, result{1, "busy", "fetch: status 503 Service Unavailable\n"}},
		{"more retries", []http.HandlerFunc{busy, busy, busy, ok}, []string{"-attempts", "4"}, 4, result{0, "content", ""}},
		{"mode with four attempts", []http.HandlerFunc{busy, busy, busy, ok}, []string{"-mode", "legacy"}, 4, result{0, "content", ""}},
		{"adaptive", []http.HandlerFunc{busy, ok}, []string{"-mode", "adaptive"}, 2, result{0, "content", ""}},
		{"hangs once", []http.HandlerFunc{hang, ok}, []string{"-attempt-timeout", "200ms"}, 2, result{0, "content", ""}},
		{"hangs", []http.HandlerFunc{hang}, []string{"-timeout", "200ms"}, 1, result{3, "", "fetch: GET <host>: no response within 200ms (1 attempt): context deadline exceeded\n"}},
		{"asks for more time than there is", []http.HandlerFunc{retryAfter("30")}, []string{"-timeout", "10s"}, 1, result{1, "later", "fetch: status 503 Service Unavailable\n"}},
		{"hangs after a failure", []http.HandlerFunc{busy, hang}, []string{"-timeout", "1s"}, 2, result{3, "", "fetch: GET <host>: no response within 1s: retrip: cancelled after 2 attempts: context deadline exceeded (last status: 503)\n"}},
		{"stalls", []http.HandlerFunc{stall}, []string{"-timeout", "200ms"}, 1, result{3, "only this", "fetch: GET <host>: the response is not complete within 200ms (1 attempt): context deadline exceeded\n"}},
		{"breaks off", []http.HandlerFunc{truncate}, nil, 1, result{3, "only this", "fetch: GET <host>: the response is not complete (1 attempt): unexpected EOF\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, test.answers...)
			got := fetch(t.Context(), "", append(test.flags, server.URL)...)
			got.stderr = normal(got.stderr)
			require.Equal(t, test.want, got)
			requests, _ := server.received()
			require.Len(t, requests, test.attempts)
		})
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	server := serve(t)
	server.Close()
	got := fetch(t.Context(), "", "-attempts", "1", server.URL)
	require.Equal(t, exitNoResponse, got.code)
	require.Contains(t, normal(got.stderr), "fetch: GET <host>: no response (1 attempt): ")
	require.Contains(t, got.stderr, "connection refused")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	})
	require.Equal(t, result{130, "", "fetch: interrupted\n"}, fetch(ctx, "", server.URL))
}

func TestBodyIsReplayed(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("all the bytes, \x00 and \xff too\n", 10_000)
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	for _, test := range []struct {
		name, data string
		want       string
		length     int64 // -1: chunked
	}{
		{"text", "text", "text", 4},
		{"file", "@" + file, content, int64(len(content))},
		{"standard input", "@-", "input", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answer(503, "busy"), answer(200, "stored"))
			got := fetch(t.Context(), "input", "-X", "PUT", "-d", test.data, server.URL)
			require.Equal(t, result{0, "stored", ""}, got)
			requests, bodies := server.received()
			require.Len(t, requests, 2)
			for i, r := range requests {
				require.Equal(t, http.MethodPut, r.Method)
				require.Equal(t, test.length, r.ContentLength)
				require.True(t, bodies[i] == test.want, "the body of attempt %d differs", i+1)
			}
		})
	}
}

func TestEmptyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	server := serve(t, answer(503, "busy"), answer(200, "stored"))
	require.Equal(t, result{0, "stored", ""}, fetch(t.Context(), "", "-X", "PUT", "-d", "@"+file, server.URL))
	_, bodies := server.received()
	require.Equal(t, []string{"", ""}, bodies)
}

func TestPostIsRepeatedOnlyIfIdempotent(t *testing.T) {
	t.Parallel()
	server := serve(t, answer(503, "busy"), answer(200, "done"))
	require.Equal(t, exitStatus, fetch(t.Context(), "", "-d", "order", server.URL).code)

	server = serve(t, answer(503, "busy"), answer(200, "done"))
	require.Equal(t, result{0, "done", ""}, fetch(t.Context(), "", "-idempotent", "-d", "order", server.URL))
	_, bodies := server.received()
	require.Equal(t, []string{"order", "order"}, bodies)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server := serve(t, answer(200, ""))
	got := fetch(t.Context(), "", "-H", "X-Tag: a", "-H", "x-tag:b", "-H", "Host: other.example", server.URL)
	require.Equal(t, result{}, got)
	requests, _ := server.received()
	require.Equal(t, []string{"a", "b"}, requests[0].Header["X-Tag"])
	require.Equal(t, "other.example", requests[0].Host)
}

// content is what a file holds, and what else is in its directory.
func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no file is left beside it")
	return string(text)
}

// A file keeps what it holds until the whole body is there, and its permissions
// then, too.
func TestOutputFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(file, []byte("an earlier and longer download"), 0o640))
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		stderr string
	}{
		{"no response", hang, "fetch: GET <host>: no response within 100ms (1 attempt): context deadline exceeded\n"},
		{"stalls", stall, "fetch: GET <host>: the response is not complete within 100ms (1 attempt): context deadline exceeded; <file> stays as it was\n"},
		{"breaks off", truncate, "fetch: GET <host>: the response is not complete (1 attempt): unexpected EOF; <file> stays as it was\n"},
	} {
		server := serve(t, test.answer)
		got := fetch(t.Context(), "", "-timeout", "100ms", "-o", file, server.URL)
		require.Equal(t, exitNoResponse, got.code, test.name)
		require.Equal(t, test.stderr, strings.ReplaceAll(normal(got.stderr), file, "<file>"))
		require.Equal(t, "an earlier and longer download", content(t, file), test.name)
	}

	server := serve(t, answer(200, "content"))
	require.Equal(t, result{}, fetch(t.Context(), "", "-o", file, server.URL))
	require.Equal(t, "content", content(t, file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
}

// A file that was not there is not there after a failure either.
func TestOutputFileThatIsNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := serve(t, truncate)
	require.Equal(t, exitNoResponse, fetch(t.Context(), "", "-o", filepath.Join(dir, "out"), server.URL).code)
	require.Equal(t, exitUsage, fetch(t.Context(), "", "-o", filepath.Join(dir, "out"), "-d", "@missing", server.URL).code)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestInterruptKeepsTheOutputFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(file, []byte("an earlier download"), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.AfterFunc(50*time.Millisecond, interrupt) // the start of the body is there then
		stall(w, r)
	})
	require.Equal(t, result{130, "", "fetch: interrupted\n"}, fetch(ctx, "", "-o", file, server.URL))
	require.Equal(t, "an earlier download", content(t, file))
}

// What a link leads to is replaced, not the link. A device is written to.
func TestOutputThatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "out")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("earlier"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	server := serve(t, answer(200, "content"))
	require.Equal(t, result{}, fetch(t.Context(), "", "-o", link, server.URL))
	require.Equal(t, "content", content(t, file))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())

	require.Equal(t, result{}, fetch(t.Context(), "", "-o", os.DevNull, server.URL))
	info, err = os.Stat(os.DevNull)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice)
}

func TestVerbose(t *testing.T) {
	t.Parallel()
	throttled := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(400, `{"__type":"ThrottlingException"}`)(w, r)
	}
	server := serve(t, answer(503, "busy"), throttled, answer(200, "content"))
	withSecrets := strings.Replace(server.URL, "://", "://secret:secret@", 1) + "/a%20page?token=secret#secret"
	got := fetch(t.Context(), "", "-v", "-H", "Authorization: secret", withSecrets)
	require.Equal(t, 0, got.code)
	require.Equal(t, "content", got.stdout)
	require.Regexp(t, `^fetch: GET <host>/a%20page: attempt 1: 503 Service Unavailable, transient, again in <wait> \(backoff\)
fetch: GET <host>/a%20page: attempt 2: 400 Bad Request ThrottlingException, throttled, again in <wait> \(backoff\)
fetch: GET <host>/a%20page: attempt 3: 200 OK
GET <host>
  1  [#. ]{40} .* 503 Service Unavailable, transient; waits .* \(backoff\)
  2  [#. ]{40} .* 400 ThrottlingException, throttled; waits .* \(backoff\)
  3  [#. ]{40} .* 200 OK, success
     0 .*s
$`, normal(got.stderr))
}

func TestVerboseWithoutResponse(t *testing.T) {
	t.Parallel()
	server := serve(t, hang)
	withSecrets := strings.Replace(server.URL, "://", "://secret:secret@", 1) + "?token=secret"
	got := fetch(t.Context(), "", "-v", "-attempts", "2", "-attempt-timeout", "20ms", withSecrets)
	require.Equal(t, exitNoResponse, got.code)
	require.Regexp(t, `^fetch: GET <host>: attempt 1: timeout, transient, again in <wait> \(backoff\)
fetch: GET <host>: attempt 2: timeout, stop: attempts exhausted
GET <host>
  1  .* timeout, transient; waits .* \(backoff\)
  2  .* timeout, transient; no retry: attempts exhausted
     0 .*s
fetch: GET <host>: no response: retrip: attempts exhausted after 2 attempts: no response headers within the attempt timeout of 20ms\n$`, normal(got.stderr))
	require.NotContains(t, got.stderr, "secret")
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	server := serve(t, answer(200, "content"))
	url, dir := server.URL, t.TempDir()
	missing := filepath.Join(dir, "missing", "file")
	for _, test := range []struct {
		name     string
		args     []string
		mentions []string // the flag, and what to do
	}{
		{"no URL", nil, []string{"the URL is missing", "put it after the flags"}},
		{"flag after the URL", []string{url, "-v"}, []string{"put the flags before the URL"}},
		{"no scheme", []string{"example.com/secret"}, []string{"the URL is not complete", "https://host/path"}},
		{"no host", []string{"http:///secret"}, []string{"the URL is not complete", "https://host/path"}},
		{"host without scheme", []string{"localhost:8080/secret"}, []string{"the URL is not complete", "https://host/path"}},
		{"another scheme", []string{"ftp://x/secret"}, []string{"not ftp", "use a URL that begins with https:// or http://"}},
		{"bad URL", []string{"http://u:secret@[::1/"}, []string{"the URL makes no sense"}},
		{"unknown flag", []string{"-z", url}, []string{"-z", "fetch -h explains the flags"}},
		{"unknown mode", []string{"-mode", "turbo", url}, []string{"-mode", "use one of standard, legacy, adaptive"}},
		{"no attempts", []string{"-attempts", "0", url}, []string{"-attempts", "1 or more"}},
		{"attempts in words", []string{"-attempts", "three", url}, []string{"-attempts", "a whole number"}},
		{"negative timeout", []string{"-timeout", "-1s", url}, []string{"-timeout", "500ms, 10s or 1m"}},
		{"timeout without unit", []string{"-attempt-timeout", "5", url}, []string{"-attempt-timeout", "500ms, 10s or 1m"}},
		{"bad method", []string{"-X", "GET IT", url}, []string{"-X", "such as GET or POST"}},
		{"header without colon", []string{"-H", "Authorization secret", url}, []string{"-H 'Name: value'", "header 1 has no colon"}},
		{"header with a bad name", []string{"-H", "A: b", "-H", "Na me: secret", url}, []string{"-H 'Name: value'", "header 2"}},
		{"header with a line break", []string{"-H", "Name: secret\r\nOther: x", url}, []string{"-H 'Name: value'", "control character"}},
		{"missing data file", []string{"-d", "@" + missing, url}, []string{"-d", "leave out the @"}},
		{"data from a directory", []string{"-d", "@" + dir, url}, []string{"-d", "name a file"}},
		{"output that can't be written", []string{"-o", missing, url}, []string{"-o", "name a file that can be written"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fetch(t.Context(), "", test.args...)
			require.Equal(t, exitUsage, got.code)
			require.Empty(t, got.stdout)
			for _, text := range test.mentions {
				require.Contains(t, got.stderr, text)
			}
			require.NotContains(t, got.stderr, "secret")
		})
	}
	requests, _ := server.received()
	require.Empty(t, requests, "nothing is sent")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	require.Equal(t, result{0, usage, ""}, fetch(t.Context(), "", "-h"))
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var shown strings.Builder
	p := &progress{line: &statusLine{to: &shown, on: true}, total: 3 << 20}
	for range 3 { // the second and the third follow too soon to be shown
		_, err := p.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	p.end()
	require.Equal(t, "\r1.0 MiB of 3.0 MiB\r3.0 MiB of 3.0 MiB\n", shown.String())
}
