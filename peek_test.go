package retrip

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

func TestPeekLeavesTheBodyWhole(t *testing.T) {
	const doc = `{"__type":"ThrottlingException","message":"` // to be continued
	random := make([]byte, 300_000)
	_, _ = rand.Read(random)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(doc + `"}`))
	_ = z.Close()
	tests := []struct {
		name        string
		contentType string
		body        string
		header      string
		class       Class
	}{
		{"short", "application/json", doc + `"}`, "", Throttled},
		{"with parameters", "application/json; charset=utf-8", doc + `"}`, "", Throttled},
		{"vendor JSON", "application/problem+json", doc + `"}`, "", Throttled},
		{"not JSON", "text/html", doc + `"}`, "", Permanent},
		{"no type", "", doc + `"}`, "", Permanent},
		{"too long", "application/json", doc + strings.Repeat("x", 200_000) + `"}`, "", Permanent},
		{"at the limit", "application/json", doc + strings.Repeat("x", readAhead-len(doc)-2) + `"}`, "", Throttled},
		{"random", "application/json", string(random), "", Permanent},
		{"truncated", "application/json", doc, "", Permanent},
		{"gzip", "application/json", zipped.String(), "Content-Encoding: gzip", Throttled},
		{"gzip that is none", "application/json", doc + `"}`, "Content-Encoding: gzip", Permanent},
		{"gzip cut short", "application/json", zipped.String()[:zipped.Len()/2], "Content-Encoding: gzip", Permanent},
		{"other encoding", "application/json", doc + `"}`, "Content-Encoding: br", Permanent},
		{"empty", "application/json", "", "", Permanent},
		{"XML", "text/xml", "<Error><Code>SlowDown</Code></Error>", "", Throttled},
		{"deep JSON", "application/json", strings.Repeat("[", 60_000), "", Permanent},
		{"deep XML", "text/xml", strings.Repeat("<a>", 20_000), "", Permanent},
	}
	for _, tt := range tests {
		for _, reader := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader,
		} {
			ctx, trace := WithTrace(t.Context())
			transport := &Transport{Base: testkit.Stream(400, reader(strings.NewReader(tt.body)), "Content-Type: "+tt.contentType, tt.header), Strategy: noWait(attempts(1))}
			resp, err := transport.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.True(t, string(body) == tt.body, tt.name)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.class, trace.Requests()[0][0].Class, tt.name)
		}
	}
}

// A bomb inflates no further than the peek.
func TestGzipBomb(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	zeros := make([]byte, 1<<20)
	for range 16 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	require.Less(t, zipped.Len(), readAhead)
	text := plain(http.Header{"Content-Encoding": {"gzip"}}, zipped.Bytes())
	require.Len(t, text, readAhead)
}

// An answer that trickles or stalls keeps us for a moment only, and the caller
// still gets all of it.
func TestPeekOfASlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			for _, c := range `{"__type":"ThrottlingException"}` {
				time.Sleep(100 * time.Millisecond)
				_, _ = w.Write([]byte{byte(c)})
			}
			_ = w.Close()
		}()
		ctx, trace := WithTrace(t.Context())
		start := time.Now()
		transport := &Transport{Base: testkit.Stream(400, r, "Content-Type: application/json"), Strategy: noWait(attempts(1))}
		resp, err := transport.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		require.NoError(t, err)
		require.Equal(t, peekTime, time.Since(start))
		require.Equal(t, Permanent, trace.Requests()[0][0].Class, "the status decides")
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, `{"__type":"ThrottlingException"}`, string(body))
	})
}

func TestPeekEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		resp, err := (&Transport{Base: testkit.Stream(503, r, "Content-Type: application/json")}).RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close(), "closing ends the reading that is still under way")
		require.NoError(t, r.Close())
	})
}

// An error in the middle of a body that was looked into reaches the caller,
// also if the body would tell it only once.
func TestErrorDuringALookReachesTheCaller(t *testing.T) {
	reads := 0
	body := testkit.ReaderFunc(func(p []byte) (int, error) {
		switch reads++; reads {
		case 1:
			return copy(p, `{"__type":`), nil
		case 2:
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, io.EOF
		}
	})
	resp, err := (&Transport{Base: testkit.Stream(400, body, "Content-Type: application/json")}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, `{"__type":`, string(got))
}

// A body that panics does so where the caller reads it, not in a goroutine that
// nobody can guard.
func TestBodyThatPanicsDuringALook(t *testing.T) {
	body := testkit.ReaderFunc(func([]byte) (int, error) { panic("broken") })
	resp, err := (&Transport{Base: testkit.Stream(400, body, "Content-Type: application/json")}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	require.PanicsWithValue(t, "broken", func() { _, _ = io.ReadAll(resp.Body) })
}

// A response that is discarded is read up to a limit, in bytes and in time,
// and closed before the next attempt or soon after.
func TestDiscard(t *testing.T) {
	for name, tt := range map[string]struct {
		body    func() io.Reader
		backoff time.Duration
		delay   time.Duration
	}{
		"short":                  {func() io.Reader { return strings.NewReader("short") }, 0, 0},
		"endless":                {func() io.Reader { return testkit.Endless }, 0, 0},
		"stalled":                {stalled, 0, discardTime},
		"stalled, short backoff": {stalled, discardTime / 2, discardTime},
		"stalled, long backoff":  {stalled, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Standard()
				s.MaxAttempts, s.Backoff = 2, Constant{Wait: tt.backoff}
				base := script(func(req *http.Request) (*http.Response, error) {
					return testkit.Stream(503, tt.body(), "Content-Type: text/plain")(req)
				}, status(200))
				resp, err := get(t.Context(), &Transport{Base: base, Strategy: s})
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, []time.Duration{tt.delay}, base.Waits())
				synctest.Wait()
				base.RequireClosed(t, 0)
			})
		})
	}
}

// A response that was looked into is closed when its caller closes it, and not before.
func TestCloseAfterALook(t *testing.T) {
	base := script(jsonError(400, "ValidationException"))
	resp, err := (&Transport{Base: base}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	require.Equal(t, 0, base.Bodies()[0].Closes())
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, base.Bodies()[0].Closes())
}

// A Close that waits, as over HTTP/2 for the request's body, keeps no retry.
func TestCloseThatBlocksHoldsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: slowClose{}, ContentLength: -1}, nil
		}, status(200))
		_, err := (&Transport{Base: base, Strategy: noWait(waits(time.Second))}).RoundTrip(newRequest(t, "PUT", strings.NewReader("body")))
		require.NoError(t, err)
		require.Equal(t, milliseconds(1000), base.Waits())
		time.Sleep(time.Hour)
	})
}

type slowClose struct{}

func (slowClose) Read([]byte) (int, error) { return 0, io.EOF }
func (slowClose) Close() error             { time.Sleep(time.Hour); return nil }

// stalled is a body that never comes, until it is closed.
func stalled() io.Reader {
	r, _ := io.Pipe()
	return r
}

func TestDiscardReadsNoMoreThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, contentType := range []string{"text/plain", "application/json"} {
			counted := &countingReader{}
			base := script(testkit.Stream(503, counted, "Content-Type: "+contentType), status(200))
			_, err := get(t.Context(), &Transport{Base: base, Strategy: noWait()})
			require.NoError(t, err)
			require.LessOrEqual(t, counted.n, int64(readAhead), "what was peeked included")
			require.Positive(t, counted.n)
		}
	})
}

type countingReader struct{ n int64 }

func (r *countingReader) Read(p []byte) (int, error) {
	r.n += int64(len(p))
	return len(p), nil
}

// An endlessBody is an error's body without an end. Looking into it takes a
// moment if its type says that there may be a code in it.
type endlessBody struct {
	contentType string
	body        func() io.Reader
}

// An error body that has no end, in whatever way, keeps a retry for no longer
// than the backoff, or the moment that it may take anyway, and RoundTrip never
// goes on after the deadline.
func TestErrorBodiesAndDeadlines(t *testing.T) {
	trickling := func() io.Reader {
		return testkit.ReaderFunc(func(p []byte) (int, error) {
			time.Sleep(3 * time.Millisecond)
			return copy(p, "x"), nil
		})
	}
	kinds := map[string]func() io.Reader{"stalled": stalled, "trickling": trickling, "endless": func() io.Reader { return testkit.Endless }}
	for kind, body := range kinds {
		for _, contentType := range []string{"text/plain", "application/json", "application/xml"} {
			for backoff, deadline := range testkit.Pairs(milliseconds(0, 5, 100, 1000), milliseconds(0, 1, 97, 300, 5000)) {
				t.Run(fmt.Sprint(contentType, "/", kind, "/", backoff, "/", deadline), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { endlessBody{contentType, body}.meet(t, backoff, deadline) })
				})
			}
		}
	}
}

// meet sends a request that meets the body, with a deadline unless that is 0.
func (b endlessBody) meet(t *testing.T, backoff, deadline time.Duration) {
	ctx, look := t.Context(), discardTime
	if b.contentType != "text/plain" {
		look += peekTime
	}
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	base := script(func(req *http.Request) (*http.Response, error) {
		return testkit.Stream(503, b.body(), "Content-Type: "+b.contentType)(req)
	})
	begun := time.Now()
	resp, err := (&Transport{Base: base, Strategy: noWait(attempts(4), waits(backoff))}).RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
	if deadline > 0 {
		require.LessOrEqual(t, time.Since(begun), deadline)
	} else {
		require.NoError(t, err)
	}
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	for _, wait := range base.Waits() {
		require.LessOrEqual(t, wait, max(backoff, look))
	}
	time.Sleep(time.Minute) // in the bubble's time
	base.RequireClosed(t, 0)
}

// A look into a slow body is part of the backoff, so a retry that is due before
// the deadline is sent, however long the look took.
func TestLookIntoTheBodyCountsOnceAgainstTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		defer cancel()
		base := script(func(req *http.Request) (*http.Response, error) {
			return testkit.Stream(503, stalled(), "Content-Type: application/json")(req)
		}, status(200))
		resp, err := get(ctx, &Transport{Base: base, Strategy: noWait(waits(500 * time.Millisecond))})
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, milliseconds(500), base.Waits())
	})
}

// The trailers of a response may be looked at before its body is read; a peek
// that is still waiting for the network must not write them meanwhile. (It takes
// the race detector to see it here. Without it, the map's own check may end the
// program.)
func TestPeekLeavesTheTrailersAlone(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			goOn := make(chan struct{})
			url, base := testkit.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "Sum")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"code":`)
				_ = http.NewResponseController(w).Flush()
				<-goOn
				w.Header().Set("Sum", "1")
			})
			resp, err := (&Transport{Base: base}).RoundTrip(testkit.RequestTo(t, "GET", url, nil))
			require.NoError(t, err)
			close(goOn)
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
				for name := range resp.Trailer {
					_ = resp.Trailer[name]
				}
				time.Sleep(time.Millisecond) // between looks, over real connections
			}
			require.NoError(t, resp.Body.Close())
		})
	}
}
