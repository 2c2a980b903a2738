package retrip

import (
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The parts below panic in the methods that are called before the first attempt.
type (
	panicsBackoff    struct{}
	panicsClassifier struct{}
	panicsQuota      struct{ Quota }
	panicsOfSuccess  struct{}
)

func (panicsBackoff) Delay(Retry) (time.Duration, bool) { return 0, true }
func (panicsBackoff) Validate() error                   { panic("boom") }
func (panicsBackoff) String() string                    { panic("boom") }
func (panicsClassifier) Classify(Attempt) Class         { return Unknown }
func (panicsClassifier) Validate() error                { panic("boom") }
func (panicsQuota) Validate() error                     { panic("boom") }
func (panicsOfSuccess) Classify(Attempt) Class          { return Unknown }
func (panicsOfSuccess) FailuresOnly() bool              { panic("boom") }

// A part that panics when it is looked at is a clear error, the same each time,
// however its strategy reaches the Transport.
func TestPartsThatPanicWhenLookedAt(t *testing.T) {
	for want, spoil := range map[string]func(*Strategy){
		".Backoff has a method Validate that panicked: boom":            func(s *Strategy) { s.Backoff = panicsBackoff{} },
		".Quota has a method Validate that panicked: boom":              func(s *Strategy) { s.Quota = panicsQuota{} },
		".Classifiers[0] has a method Validate that panicked: boom":     func(s *Strategy) { s.Classifiers = []Classifier{panicsClassifier{}} },
		".Classifiers[0] has a method FailuresOnly that panicked: boom": func(s *Strategy) { s.Classifiers = []Classifier{panicsOfSuccess{}} },
	} {
		s := noWait()
		spoil(s)
		base := script(status(200))
		fixed := &Transport{Base: base, Strategy: s}
		perKey := &Transport{Base: base, PerKey: func(string) *Strategy { return s }}
		for range 2 {
			for name, transport := range map[string]*Transport{"retrip: Transport.Strategy": fixed, `retrip: Transport.PerKey("example.com")`: perKey} {
				_, err := get(t.Context(), transport)
				require.EqualError(t, err, name+want)
			}
			_, err := get(WithStrategy(t.Context(), s), &Transport{Base: base})
			require.EqualError(t, err, "retrip: WithStrategy"+want)
		}
		require.EqualError(t, fixed.Validate(), "retrip: Transport.Strategy"+want)
		require.EqualError(t, perKey.Validate(), `retrip: Transport.PerKey("")`+want)
		require.NotEmpty(t, s.String())
		require.Empty(t, base.sent())
		fixed.CloseIdleConnections()
		require.Same(t, base, fixed.Unwrap())
	}
}

// Validate reports what PerKey raises; RoundTrip raises it, and the Transport
// goes on.
func TestPerKeyThatPanics(t *testing.T) {
	calls := 0
	transport := &Transport{Base: script(status(200)), PerKey: func(string) *Strategy {
		if calls++; calls <= 2 {
			panic("boom")
		}
		return noWait()
	}}
	require.EqualError(t, transport.Validate(), "retrip: Transport.PerKey panicked: boom")
	require.PanicsWithValue(t, "boom", func() { _, _ = get(t.Context(), transport) })
	_, err := get(t.Context(), transport)
	require.NoError(t, err)
	require.NoError(t, transport.Validate())
}

type endsGoroutine struct{ panicsBackoff }

func (endsGoroutine) Validate() error { runtime.Goexit(); return nil }

// A goroutine that ends while it reads the settings leaves an error behind.
func TestSettingsNotReadToTheirEnd(t *testing.T) {
	s := noWait()
	s.Backoff = endsGoroutine{}
	var transport http.RoundTripper = &Transport{Base: script(status(200)), Strategy: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = get(t.Context(), transport)
	}()
	<-done
	_, err := get(t.Context(), transport)
	require.ErrorContains(t, err, "could not be checked")
}

// A Base that Validate finds fault with is not used by other methods either.
func TestCloseIdleConnectionsOverAnInvalidBase(t *testing.T) {
	nothing := &Transport{Base: (*http.Transport)(nil)}
	itself := new(Transport)
	itself.Base = itself
	for _, transport := range []*Transport{nothing, itself} {
		client := &http.Client{Transport: transport}
		client.CloseIdleConnections()
		_, err := client.Get("http://example.com/")
		require.ErrorContains(t, err, "retrip: Transport.Base is")
	}
}

// A type of the user's around a part of ours is checked by both.
func TestValidateOfATypeAroundOurs(t *testing.T) {
	s := Standard()
	s.Backoff = pickyBackoff{FullJitter{Base: time.Second}}
	require.ErrorContains(t, (&Transport{Strategy: s}).Validate(), "Backoff is too picky")
	s.Backoff = pickyBackoff{FullJitter{Base: -1}}
	require.ErrorContains(t, (&Transport{Strategy: s}).Validate(), "Backoff waits -1ns, which is negative")
}

type pickyBackoff struct{ FullJitter }

func (pickyBackoff) Validate() error { return errors.New("is too picky") }
