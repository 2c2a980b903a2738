package retrip

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// A base that panics leaves no body open and no goroutine behind, in whatever
// state it has the body, and its panic is what the caller gets.

// panickingBases are what a base may have done with the body by then.
var panickingBases = map[string]func(*http.Request){
	"at once":          func(*http.Request) {},
	"reading":          func(req *http.Request) { _, _ = io.ReadFull(req.Body, make([]byte, 2)) },
	"read":             func(req *http.Request) { _, _ = io.ReadAll(req.Body) },
	"closed":           func(req *http.Request) { _ = req.Body.Close() },
	"still being read": func(req *http.Request) { go func() { _, _ = io.Copy(io.Discard, req.Body) }() },
	"copied, forgotten": func(req *http.Request) {
		if req.GetBody != nil {
			_, _ = req.GetBody()
		}
	},
}

// panickingTransports differ in what they do to the body before the base.
func panickingTransports() map[string]*Transport {
	all := transports(nil)
	all["no retry"] = &Transport{Strategy: noWait(attempts(1))}
	all["observed"] = &Transport{Observe: func(Event) {}}
	all["wrapped"] = &Transport{Prepare: func(req *http.Request, _ PrepareInfo) error {
		req.Body = &progress{ReadCloser: req.Body}
		return nil
	}}
	return all
}

// A panicRow is a request whose base panics.
type panicRow struct {
	config, state string // keys of panickingTransports and panickingBases
	reopened      bool   // the body has GetBody
	attempt       int    // in which the base panics
}

func TestBaseThatPanicsLeavesNoBodyOpen(t *testing.T) {
	for state := range panickingBases {
		for config := range panickingTransports() {
			for reopened, attempt := range testkit.Pairs([]bool{false, true}, []int{1, 2}) {
				if state == "copied, forgotten" && reopened {
					continue // a copy of the user's own, which only the base can close
				}
				if config == "no retry" && attempt == 2 {
					continue
				}
				synctest.Test(t, panicRow{config, state, reopened, attempt}.play)
			}
		}
	}
}

func (row panicRow) play(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bodies := testkit.Reopener{Content: "body"}
	body, _ := bodies.Open()
	req := newRequest(t, "PUT", body).WithContext(ctx)
	if row.reopened {
		req.GetBody = bodies.Open
	}
	closed := row.state == "closed"
	n := 0
	transport := panickingTransports()[row.config]
	transport.Base = step(func(req *http.Request) (*http.Response, error) {
		if n++; n < row.attempt {
			return script(status(503)).RoundTrip(req)
		}
		panickingBases[row.state](req)
		if closed {
			runtime.Goexit() // ends it no less than a panic does
		}
		panic("on fire")
	})
	var raised any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { raised = recover() }()
		_, _ = transport.RoundTrip(req)
	}()
	<-done
	if !closed {
		require.Equal(t, "on fire", raised, row)
	}
	synctest.Wait()
	require.Len(t, bodies.Opened, map[bool]int{false: 1, true: row.attempt}[row.reopened], row)
	for _, b := range bodies.Opened {
		if closed && (row.reopened || transport.Strategy != nil) {
			require.NotZero(t, b.Closes(), row) // the base was handed it as it is, and closed it itself
			continue
		}
		require.Equal(t, 1, b.Closes(), row)
	}
}

// A source that blocks is let go of, and so is a file.
func TestBaseThatPanicsOverABlockedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, w := io.Pipe()
		base := step(func(req *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, req.Body) }()
			synctest.Wait()
			panic("on fire")
		})
		require.PanicsWithValue(t, "on fire", func() {
			_, _ = (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", source))
		})
		synctest.Wait()
		_, err := w.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
	f := testkit.OpenFile(t, "content", 0)
	base := step(func(*http.Request) (*http.Response, error) { panic("on fire") })
	require.Panics(t, func() { _, _ = (&Transport{Base: base}).RoundTrip(newRequest(t, "PUT", f)) })
	testkit.Eventually(t, func() bool { return testkit.Closed(f) }, "the close of the file")
}

// A Close that panics, too, does not hide the first panic.
func TestCloseThatPanicsAfterABaseThatPanics(t *testing.T) {
	for config := range panickingTransports() {
		for _, reopened := range []bool{false, true} {
			transport := panickingTransports()[config]
			req := newRequest(t, "PUT", closePanics{testkit.OnlyReader(http.NoBody)})
			if reopened {
				req.GetBody = func() (io.ReadCloser, error) { return closePanics{http.NoBody}, nil }
			}
			transport.Base = step(func(*http.Request) (*http.Response, error) { panic("base on fire") })
			require.PanicsWithValue(t, "base on fire", func() { _, _ = transport.RoundTrip(req) })
		}
	}
}

// A panic of the body comes up where it would without us.
func TestBodyThatPanics(t *testing.T) {
	source := testkit.ReaderFunc(func([]byte) (int, error) { panic("on fire") })
	require.PanicsWithValue(t, "on fire", func() {
		_, _ = (&Transport{Base: script(status(200))}).RoundTrip(newRequest(t, "PUT", source))
	})
	resp, err := (&Transport{Base: testkit.Stream(503, source, "Content-Type: application/json"), Strategy: noWait(attempts(1))}).RoundTrip(newRequest(t, "GET", nil))
	require.NoError(t, err)
	require.PanicsWithValue(t, "on fire", func() { _, _ = resp.Body.Read(make([]byte, 1)) })
}

// User code that panics leaves nothing open behind it.
func TestPanicsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := func() { panic("boom") }
		for name, transport := range map[string]*Transport{
			"classifier": {Strategy: &Strategy{MaxAttempts: 2, Backoff: Constant{}, Classifiers: []Classifier{
				ClassifierFunc(func(Attempt) Class { boom(); return 0 })}}},
			"backoff": {Strategy: &Strategy{MaxAttempts: 2, Classifiers: []Classifier{On(Transient, StatusIs(503))},
				Backoff: BackoffFunc(func(Retry) (time.Duration, bool) { boom(); return 0, false })}},
			"observer": {Observe: func(Event) { boom() }},
			"prepare":  {Prepare: func(*http.Request, PrepareInfo) error { boom(); return nil }, AttemptTimeout: time.Hour},
		} {
			base := script(status(503))
			transport.Base = base
			body := opaque("body")
			require.PanicsWithValue(t, "boom", func() { _, _ = transport.RoundTrip(newRequest(t, "PUT", body)) }, name)
			synctest.Wait()
			require.Equal(t, 1, body.Closes(), name)
			base.RequireClosed(t, 0)
		}
	})
}

// A retry that was sent is paid for, and one that succeeded paid back once,
// whoever panics then.
func TestPanicsConserveTokens(t *testing.T) {
	onFire := func(*http.Request) (*http.Response, error) { panic("on fire") }
	atTheEnd := func(e Event) {
		if e.Final {
			panic("on fire")
		}
	}
	for name, tt := range map[string]struct {
		retry         step
		observe       func(Event)
		before, after int
	}{
		"base in the retry":             {onFire, nil, 100, 95},
		"observer of a failed retry":    {status(503), atTheEnd, 95, 90},
		"observer of a recovered retry": {status(200), atTheEnd, 50, 50},
		"observer of what is not sent":  {nil, func(Event) { panic("on fire") }, 50, 50},
	} {
		bucket := NewBucket(100)
		require.True(t, bucket.take(100-tt.before))
		s := noWait()
		s.Quota, s.MaxAttempts = bucket, 2
		require.Panics(t, func() {
			_, _ = (&Transport{Base: script(status(503), tt.retry), Strategy: s, Observe: tt.observe}).RoundTrip(newRequest(t, "GET", nil))
		}, name)
		require.Equal(t, tt.after, bucket.Tokens(), name)
	}
}

// What a user's function raises is what the caller gets, and the body is closed
// all the same, and no response twice.
func TestPanicsOfTheUsersFunctions(t *testing.T) {
	secondTime := func(_ *http.Request, p PrepareInfo) error {
		if p.Number == 2 {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	for name, transport := range map[string]*Transport{
		"Key":     {Key: func(*http.Request) string { panic(http.ErrAbortHandler) }},
		"PerKey":  {PerKey: func(string) *Strategy { panic(http.ErrAbortHandler) }},
		"Prepare": {Strategy: noWait(), Prepare: secondTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, reopened := range []bool{false, true} {
				base := script(step(testkit.Stream(503, strings.NewReader("no"), "Content-Type: text/plain")))
				transport.Base = base
				body := opaque("body")
				req := newRequest(t, "PUT", body)
				if reopened {
					req.GetBody = func() (io.ReadCloser, error) { return opaque("body"), nil }
				}
				require.PanicsWithValue(t, http.ErrAbortHandler, func() { _, _ = transport.RoundTrip(req) }, name)
				synctest.Wait()
				require.Equal(t, 1, body.Closes(), name)
				base.RequireClosed(t, 0)
			}
		})
	}
}

// A brokenQuota panics when it gets something back.
type brokenQuota struct{ *Bucket }

func (brokenQuota) Return(int) { panic("broken") }

// A quota that panics when a cancelled retry returns its tokens leaves neither the
// request's body nor the response open.
func TestQuotaThatPanicsLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.Quota = brokenQuota{NewBucket(500)}
		base, body := script(status(503)), opaque("hello")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		require.PanicsWithValue(t, "broken", func() {
			_, _ = (&Transport{Base: base, Strategy: s}).RoundTrip(newRequest(t, "PUT", body).WithContext(ctx))
		})
		synctest.Wait()
		base.RequireClosed(t, 0)
		require.Equal(t, 1, body.Closes())
	})
}

// Nor does it if Observe panics first, before the response is kept for the retry.
func TestQuotaAndObserveThatPanicLeaveNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(Standard())
		s.Quota = brokenQuota{NewBucket(500)}
		base, body := script(status(503)), opaque("hello")
		transport := &Transport{Base: base, Strategy: s, Observe: func(Event) { panic("observed") }}
		require.PanicsWithValue(t, "broken", func() {
			_, _ = transport.RoundTrip(newRequest(t, "PUT", body))
		})
		synctest.Wait()
		base.RequireClosed(t, 0)
		require.Equal(t, 1, body.Closes())
	})
}
