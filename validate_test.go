package retrip

import (
	"errors"
	"math"
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

// Each setting outside its range is an error that names it; the ends of a range
// are not.
func TestSettingsOutOfRange(t *testing.T) {
	backoff := func(b Backoff) func(*Strategy) { return func(s *Strategy) { s.Backoff = b } }
	hint := func(h HintReader) func(*Strategy) { return func(s *Strategy) { s.Hints = []HintReader{h} } }
	for _, row := range []struct {
		set  func(*Strategy)
		want string
	}{
		{func(s *Strategy) { s.MaxAttempts, s.Cost, s.ThrottleCost, s.TimeoutCost = 1, 0, 0, 0 }, ""},
		{func(s *Strategy) { s.MaxRetryAfter, s.MaxLimiterWait = 0, 0 }, ""},
		{func(s *Strategy) { s.Classifiers, s.Hints, s.ThrottleBackoff, s.Quota = nil, nil, nil, nil }, ""},
		{func(s *Strategy) { s.Quota = new(Bucket) }, ""},
		{func(s *Strategy) { s.TimeoutCost = -1 }, "TimeoutCost is -1: use 0 for the same as Cost, or more"},
		{func(s *Strategy) { s.Backoff = nil }, "Backoff is nil"},
		{backoff(Constant{}), ""},
		{backoff(Constant{Wait: 1, Period: 1}), ""},
		{backoff(Constant{Period: -1}), "Backoff has a period of -1ns"},
		{backoff(Constant{Period: 1}), "Backoff waits 0s within a period of 1ns"},
		{backoff(Constant{Wait: 2, Period: 1}), "Backoff waits 2ns within a period of 1ns"},
		{backoff(Exponential{}), ""},
		{backoff(Exponential{Base: -1}), "Backoff waits -1ns, which is negative"},
		{backoff(FullJitter{Base: 1, Cap: -1}), "Backoff has a cap of -1ns, which is negative"},
		{backoff(FullJitter{Base: 1, Cap: 1}), ""},
		{backoff(EqualJitter{Base: 2, Cap: 1}), "Backoff starts at 2ns, above its cap of 1ns"},
		{backoff(DecorrelatedJitter{Base: -1}), "Backoff waits -1ns, which is negative"},
		{backoff(CapAfterJitter{Base: 2, Cap: 1}), "Backoff starts at 2ns, above its cap of 1ns"},
		{func(s *Strategy) { s.Classifiers = []Classifier{On(Unknown, StatusIs(500))} }, ""},
		{func(s *Strategy) { s.Classifiers = []Classifier{On(NeedsBody, StatusIs(500))} }, "Classifiers[0] has the class needs body"},
		{hint(HintHeader{Name: "A", MaxExcess: -1}), "Hints[0] has a MaxExcess of -1ns, which is negative"},
		{hint(HintHeader{Name: "A", Format: EpochSeconds + 1}), "Hints[0] has the format retrip.HintFormat(5), which does not exist"},
	} {
		s := Standard()
		row.set(s)
		err := (&Transport{Strategy: s}).Validate()
		if row.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "retrip: Transport.Strategy."+row.want)
		}
	}
}

// A list of no values holds for nothing, and is no error.
func TestConditionsOfNoValues(t *testing.T) {
	a := Attempt{Response: &http.Response{StatusCode: 503, Header: http.Header{"A": {""}}}, Code: "", Body: []byte(`{"a":""}`)}
	for _, c := range []Condition{StatusIs(), HeaderIs("A"), CodeIs(), FieldIs("a"), FieldContains("a")} {
		require.Equal(t, Unknown, On(Transient, c).Classify(a), c)
		s := Standard()
		s.Classifiers = append(s.Classifiers, On(Transient, c))
		require.NoError(t, (&Transport{Strategy: s}).Validate())
	}
}

// Key is asked only where something is kept per key: a strategy, or the skew that
// Prepare is given. A request that brings its own strategy needs none.
func TestKeyIsAskedWhereStateIsKeptPerKey(t *testing.T) {
	prepare := func(*http.Request, PrepareInfo) error { return nil }
	for _, row := range []struct {
		transport     *Transport
		plain, itsOwn int // how often it is asked for a request of either kind
	}{
		{&Transport{}, 1, 0},
		{&Transport{Strategy: noWait()}, 0, 0},
		{&Transport{Prepare: prepare}, 1, 1},
		{&Transport{Strategy: noWait(), Prepare: prepare}, 1, 1},
	} {
		asked := 0
		row.transport.Base, row.transport.Key = script(status(200)), func(*http.Request) string { asked++; return "key" }
		_, err := get(t.Context(), row.transport)
		require.NoError(t, err)
		require.Equal(t, row.plain, asked)
		_, err = get(WithStrategy(t.Context(), noWait()), row.transport)
		require.NoError(t, err)
		require.Equal(t, row.plain+row.itsOwn, asked)
	}
}

// A random number outside 0 to 1 counts as the nearer end.
func TestRandOutOfRange(t *testing.T) {
	for _, b := range []Backoff{FullJitter{Base: 8}, EqualJitter{Base: 8}, DecorrelatedJitter{Base: 8}, CapAfterJitter{Base: 8}} {
		for end, outside := range map[float64][]float64{0: {-1, math.Inf(-1), math.NaN()}, 1: {2, math.Inf(1)}} {
			want, _ := b.Delay(Retry{Rand: end})
			for _, r := range outside {
				got, ok := b.Delay(Retry{Rand: r})
				require.True(t, ok)
				require.Equal(t, want, got, "%T, Rand %v", b, r)
			}
		}
	}
}

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
		require.Empty(t, base.Sent())
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

func TestRequestsThatMakeNoSense(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*http.Request)
		want  string
	}{
		{"no URL", func(r *http.Request) { r.URL = nil }, "retrip: Request.URL is nil: build the request with http.NewRequestWithContext"},
		{"no header", func(r *http.Request) { r.Header = nil }, "retrip: Request.Header is nil: build the request with http.NewRequestWithContext"},
		{"no attempts", func(r *http.Request) { *r = *r.WithContext(WithMaxAttempts(r.Context(), 0)) }, "retrip: WithMaxAttempts got 0: use 1 or more"},
		{"odd strategy", func(r *http.Request) {
			*r = *r.WithContext(WithMaxAttempts(WithStrategy(WithMaxAttempts(r.Context(), 0), new(Strategy)), 2))
		}, "retrip: WithStrategy.MaxAttempts is 0: use 1 for no retries, or more\nretrip: WithStrategy.Backoff is nil: set it, or take a strategy from Standard() or another mode"},
		{"nil strategy", func(r *http.Request) { *r = *r.WithContext(WithStrategy(r.Context(), nil)) }, "retrip: WithStrategy is nil: use Standard() or another mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := script(status(200))
			body := opaque("body")
			req := newRequest(t, "POST", body)
			tt.spoil(req)
			_, err := (&Transport{Base: base}).RoundTrip(req)
			require.EqualError(t, err, tt.want)
			require.Empty(t, base.Sent())
			require.Equal(t, 1, body.Closes())
		})
	}
	_, err := (&Transport{}).RoundTrip(nil)
	require.ErrorContains(t, err, "request is nil")
}

func TestValidate(t *testing.T) {
	spoiled := func(spoil func(*Strategy)) *Transport {
		s := Adaptive()
		spoil(s)
		return &Transport{Strategy: s}
	}
	self := &Transport{}
	self.Base = self
	tests := []struct {
		transport *Transport
		want      string
	}{
		{&Transport{MaxKeys: -1}, "retrip: Transport.MaxKeys is -1: use 0 for 32768, or more"},
		{&Transport{AttemptTimeout: -1}, "retrip: Transport.AttemptTimeout is -1ns: use 0 for none, or more"},
		{&Transport{ReplayBuffer: -1}, "retrip: Transport.ReplayBuffer is -1: use 0 for 1048576, or more"},
		{&Transport{Base: (*http.Transport)(nil)}, "retrip: Transport.Base is a nil *http.Transport: leave the field nil, or set the transport to wrap"},
		{&Transport{Base: step(nil)}, "retrip: Transport.Base is a nil testkit.Step: leave the field nil, or set the transport to wrap"},
		{self, "retrip: Transport.Base is the Transport itself: leave it nil, or set the transport to wrap"},
		{&Transport{Strategy: Standard(), PerKey: func(string) *Strategy { return nil }}, "retrip: Transport.Strategy and PerKey are both set: leave one nil"},
		{&Transport{Strategy: &Strategy{}}, "retrip: Transport.Strategy.MaxAttempts is 0: use 1 for no retries, or more\nStrategy.Backoff is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.MaxRetryAfter = -1 }), "retrip: Transport.Strategy.MaxRetryAfter is -1ns: use 0 or more"},
		{spoiled(func(s *Strategy) { s.MinSkew = -1 }), "retrip: Transport.Strategy.MinSkew is -1ns: use 0 for more than 4 minutes, or more"},
		{spoiled(func(s *Strategy) { s.MaxLimiterWait = -1 }), "retrip: Transport.Strategy.MaxLimiterWait is -1ns: use 0 for no limit, or more"},
		{spoiled(func(s *Strategy) { s.Cost = -1 }), "retrip: Transport.Strategy.Cost is -1: use 0 for free retries, or more"},
		{spoiled(func(s *Strategy) { s.ThrottleCost = -1 }), "retrip: Transport.Strategy.ThrottleCost is -1: use 0 for free retries, or more"},
		{spoiled(func(s *Strategy) { s.Quota = NewBucket(-1) }), "retrip: Transport.Strategy.Quota has a capacity of -1: use 0 or more"},
		{spoiled(func(s *Strategy) { s.Quota = (*Bucket)(nil) }), "retrip: Transport.Strategy.Quota is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.Backoff = FullJitter{2, 1} }), "retrip: Transport.Strategy.Backoff starts at 2ns, above its cap of 1ns: lower the base or raise the cap"},
		{spoiled(func(s *Strategy) { s.ThrottleBackoff = Constant{Wait: -1} }), "retrip: Transport.Strategy.ThrottleBackoff waits -1ns, which is negative: use 0 or more"},
		{spoiled(func(s *Strategy) { s.Classifiers[0] = nil }), "retrip: Transport.Strategy.Classifiers[0] is nil: set it, or take a strategy from Standard() or another mode"},
		{spoiled(func(s *Strategy) { s.Classifiers[0] = On(77, StatusIs(400)) }), "retrip: Transport.Strategy.Classifiers[0] has the class retrip.Class(77), which does not exist: use one of Success to Permanent"},
		{spoiled(func(s *Strategy) { s.Hints[0] = HintHeader{} }), "retrip: Transport.Strategy.Hints[0] has no header name: name the header to read"},
	}
	for _, tt := range tests {
		require.EqualError(t, tt.transport.Validate(), tt.want)
		if tt.transport == self {
			continue // sends nothing, and would not know where
		}
		base := script(status(200))
		if tt.transport.Base == nil {
			tt.transport.Base = base
		}
		_, err := get(t.Context(), tt.transport)
		require.EqualError(t, err, tt.want)
		require.Empty(t, base.Sent())
	}
	require.NoError(t, (&Transport{}).Validate())
}

func TestNilStrategyFromPerKey(t *testing.T) {
	base := script(status(200))
	_, err := get(t.Context(), &Transport{Base: base, PerKey: func(key string) *Strategy {
		if key == "example.com" {
			return nil
		}
		return Standard()
	}})
	require.EqualError(t, err, `retrip: Transport.PerKey("example.com") is nil: use Standard() or another mode`)
	require.Empty(t, base.Sent())
}
