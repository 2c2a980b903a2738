package retrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
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
	return map[string]*Transport{
		"plain":    {},
		"no retry": {Strategy: once()},
		"observed": {Observe: func(Event) {}},
		"timed":    {AttemptTimeout: time.Hour},
		"prepared": {Prepare: func(*http.Request, PrepareInfo) error { return nil }},
		"wrapped": {Prepare: func(req *http.Request, _ PrepareInfo) error {
			req.Body = &progress{ReadCloser: req.Body}
			return nil
		}},
	}
}

func TestBaseThatPanicsLeavesNoBodyOpen(t *testing.T) {
	for state, play := range panickingBases {
		for config := range panickingTransports() {
			for _, reopened := range []bool{false, true} {
				for _, attempt := range []int{1, 2} {
					if state == "copied, forgotten" && reopened {
						continue // a copy of the user's own, which only the base can close
					}
					if config == "no retry" && attempt == 2 {
						continue
					}
					synctest.Test(t, func(t *testing.T) {
						panicOfTheBase(t, panickingTransports()[config], attempt, reopened, play, state == "closed", state+", "+config)
					})
				}
			}
		}
	}
}

func panicOfTheBase(t *testing.T, transport *Transport, attempt int, reopened bool, play func(*http.Request), closed bool, name string) {
	var opened []*testkit.Body
	open := func() (io.ReadCloser, error) {
		opened = append(opened, opaque("body"))
		return opened[len(opened)-1], nil
	}
	body, _ := open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := newRequest(t, "PUT", body).WithContext(ctx)
	if reopened {
		req.GetBody = open
	}
	n := 0
	transport.Base = step(func(req *http.Request) (*http.Response, error) {
		if n++; n < attempt {
			return script(status(503)).RoundTrip(req)
		}
		play(req)
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
		require.Equal(t, "on fire", raised, name)
	}
	synctest.Wait()
	require.Len(t, opened, map[bool]int{false: 1, true: attempt}[reopened], name)
	for _, b := range opened {
		if closed && (reopened || transport.Strategy != nil) {
			require.NotZero(t, b.Closes(), name) // the base was handed it as it is, and closed it itself
			continue
		}
		require.Equal(t, 1, b.Closes(), "%s, GetBody %v, attempt %d", name, reopened, attempt)
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
	require.Eventually(t, func() bool { _, err := f.Stat(); return errors.Is(err, os.ErrClosed) }, 5*time.Second, time.Millisecond)
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
