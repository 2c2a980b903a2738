package retrip

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeasureSkew(t *testing.T) {
	sent := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	date := func(offset time.Duration) string { return sent.Add(offset).Format(http.TimeFormat) }
	tests := []struct {
		name string
		date string
		age  string
		took time.Duration
		tls  bool
		want time.Duration
		ok   bool
	}{
		{"in step", date(time.Second), "", 2 * time.Second, true, 0, true},
		{"ahead", date(301 * time.Second), "", 2 * time.Second, true, 300 * time.Second, true},
		{"behind", date(-299 * time.Second), "", 2 * time.Second, true, -300 * time.Second, true},
		{"out of a cache", date(-time.Hour), "3600", 2 * time.Second, true, 0, false},
		{"no date", "", "", 2 * time.Second, true, 0, false},
		{"not a date", "today", "", 2 * time.Second, true, 0, false},
		{"from anybody", date(301 * time.Second), "", 2 * time.Second, false, 0, false},
		{"a quarter of an hour", date(450 * time.Second), "", 15 * time.Minute, true, 0, true},
		{"longer", date(450 * time.Second), "", 15*time.Minute + 1, true, 0, false},
		{"a day", date(24 * time.Hour), "", 0, true, 24 * time.Hour, true},
		{"more than a day", date(24*time.Hour + time.Second), "", 0, true, 0, false},
		{"year 9999", "Fri, 31 Dec 9999 23:59:59 GMT", "", 0, true, 0, false},
		{"year 1", "Mon, 01 Jan 0001 00:00:00 GMT", "", 0, true, 0, false},
	}
	for _, tt := range tests {
		resp := &http.Response{Header: http.Header{}}
		resp.Header.Set("Date", tt.date)
		if tt.age != "" {
			resp.Header.Set("Age", tt.age)
		}
		if tt.tls {
			resp.TLS = tlsState
		}
		got, ok := measureSkew(Attempt{Response: resp, Sent: sent, Done: sent.Add(tt.took)})
		require.Equal(t, tt.ok, ok, tt.name)
		if ok {
			require.Equal(t, tt.want, got, tt.name)
		}
	}
	_, ok := measureSkew(Attempt{})
	require.False(t, ok)
}

// A refused time stamp proves that nothing was done, so that a POST, too, is
// signed anew and sent again.
func TestSkewedPostWasNotProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := func(code int, header ...string) step {
			return func(req *http.Request) (*http.Response, error) {
				date := "Date: " + time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat)
				resp, err := answer(code, "", append(header, date)...)(req)
				resp.TLS = tlsState
				return resp, err
			}
		}
		base := script(ahead(403, "X-Amzn-Errortype: RequestTimeTooSkewed"), ahead(200))
		transport := &Transport{Base: base, Prepare: func(*http.Request, PrepareInfo) error { return nil }}
		resp, err := transport.RoundTrip(newRequest(t, "POST", nil))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// Many requests with a wrong clock at once: each is corrected by the offset it
// was signed with, none is taken for corrected already.
func TestConcurrentSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour
		base := step(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			signed, err := http.ParseTime(req.Header.Get("Signed"))
			if err != nil {
				return nil, err
			}
			now := time.Now().Add(ahead)
			play := status(200)
			if now.Sub(signed).Abs() > 5*time.Minute {
				play = status(403, "X-Amzn-Errortype: RequestTimeTooSkewed")
			}
			resp, err := play(req)
			resp.Header.Set("Date", now.UTC().Format(http.TimeFormat))
			resp.TLS = tlsState
			return resp, err
		})
		var mu sync.Mutex
		attempts := 0
		transport := &Transport{Base: base, Prepare: func(req *http.Request, p PrepareInfo) error {
			mu.Lock()
			attempts++
			mu.Unlock()
			req.Header.Set("Signed", time.Now().Add(p.Skew).UTC().Format(http.TimeFormat))
			return nil
		}}
		for _, want := range []int{40, 20} { // at first twice each, then all are right at once
			var wg sync.WaitGroup
			attempts = 0
			for range 20 {
				wg.Go(func() {
					resp, err := get(t.Context(), transport)
					assert.NoError(t, err)
					assert.Equal(t, 200, resp.StatusCode)
				})
			}
			wg.Wait()
			require.Equal(t, want, attempts)
		}

		// A connection that breaks teaches nothing, and nothing is unlearnt.
		working := transport.base
		transport.base = script(fails(errReset), func(req *http.Request) (*http.Response, error) { return working.RoundTrip(req) })
		attempts = 0
		resp, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 2, attempts)
	})
}

func TestSkewIsMeasuredAndSignedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 10 * time.Minute
		var signed []time.Duration
		refuse := func(req *http.Request) (*http.Response, error) {
			resp, _ := jsonError(403, "RequestTimeTooSkewed")(req)
			return resp, nil
		}
		withDate := func(play step) step {
			return func(req *http.Request) (*http.Response, error) {
				time.Sleep(2 * time.Second)
				resp, err := play(req)
				resp.Header.Set("Date", time.Now().Add(ahead-time.Second).UTC().Format(http.TimeFormat))
				resp.TLS = tlsState
				return resp, err
			}
		}
		base := script(withDate(refuse), withDate(status(200)))
		transport := &Transport{Base: base, Prepare: func(_ *http.Request, p PrepareInfo) error {
			signed = append(signed, p.Skew)
			return nil
		}}
		for range 2 {
			resp, err := get(t.Context(), transport)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
		}
		require.Len(t, signed, 3)
		require.Zero(t, signed[0])
		for _, s := range signed[1:] { // the Date header has no fraction
			require.InDelta(t, ahead.Seconds(), s.Seconds(), 1)
		}

		base = script(withDate(refuse), withDate(status(200)))
		resp, err := get(t.Context(), &Transport{Base: base})
		require.NoError(t, err)
		require.Equal(t, 403, resp.StatusCode, "without Prepare the next signature would be as wrong")
	})
}
