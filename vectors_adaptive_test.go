package retrip

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The vectors of the send-rate limiter, through RoundTrip. The SDKs' own tests
// tell their limiter how attempts end without asking it for a permit first. Here
// such attempts are sent before the first throttle, when no permit is needed, and
// held by the server until their time comes. Time is virtual.

// A heldServer answers when it is told to, the oldest request first.
type heldServer struct {
	mu   sync.Mutex
	held []chan int
}

func (h *heldServer) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := make(chan int)
	h.mu.Lock()
	h.held = append(h.held, answer)
	h.mu.Unlock()
	return status(<-answer)(req)
}

func (h *heldServer) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// answer ends the oldest request with a status.
func (h *heldServer) answer(code int) {
	h.mu.Lock()
	oldest := h.held[0]
	h.held = h.held[1:]
	h.mu.Unlock()
	oldest <- code
	synctest.Wait() // until the limiter has heard of it
}

// A limiterRun sends requests through a Transport with a limiter that is as old
// as the run.
type limiterRun struct {
	*heldServer
	t         *testing.T
	strategy  *Strategy
	transport *Transport
	last      Event
	begun     time.Time
}

// runLimiter calls play in a bubble, at a second of the vectors' clock.
func runLimiter(t *testing.T, start float64, play func(*testing.T, *limiterRun)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &limiterRun{heldServer: new(heldServer), t: t, begun: time.Now()}
		r.at(start)
		r.strategy = Adaptive()
		r.strategy.MaxAttempts = 1
		r.transport = &Transport{Base: r.heldServer, Strategy: r.strategy, Observe: func(e Event) { r.last = e }}
		defer func() {
			for r.requests() > 0 {
				r.answer(200)
			}
		}()
		play(t, r)
	})
}

func (r *limiterRun) at(second float64) {
	time.Sleep(time.Until(r.begun.Add(time.Duration(math.Round(second * 1e9)))))
}

func (r *limiterRun) state() LimiterState { return r.strategy.Limiter.State() }

// send sends n requests that are still to be answered.
func (r *limiterRun) send(n int) {
	for range n {
		go func() { _, _ = get(r.t.Context(), r.transport) }()
	}
	synctest.Wait()
}

// acquire sends a request that is not ready to wait. It reports whether the
// request was sent, and how long it would have waited.
func (r *limiterRun) acquire() (granted bool, wait time.Duration) {
	before := r.requests()
	ctx, cancel := context.WithDeadline(r.t.Context(), time.Now().Add(1))
	r.t.Cleanup(cancel)
	go func() { _, _ = get(ctx, r.transport) }()
	synctest.Wait()
	if granted = r.requests() > before; !granted {
		require.Equal(r.t, WaitOverDeadline, r.last.Reason)
		wait = r.last.Wait
	}
	return granted, wait
}

// throttled makes the limiter meet its first throttle at a rate and returns when
// that was. The request that is answered first in a half second makes the limiter
// measure: 0.8·(2.5·rate in 2 s) is the rate, and 3·rate in the 3 s after keep it.
func (r *limiterRun) throttled(rate float64) (at float64) {
	if rate == 0 { // before anything is measured
		r.at(0.2)
		r.answer(429)
		return 0.2
	}
	several := func(at, n float64) {
		r.at(at)
		for range int(n) {
			r.answer(200)
		}
	}
	several(0.1, 2.5*rate-1)
	several(2.0, 1)
	several(2.1, 3*rate-1)
	r.at(5)
	r.answer(429)
	require.InDelta(r.t, rate, r.state().Measured, 1e-9)
	return 5
}

// success ends a request with a success at a time, after so many others since the
// last that twice what is sent is no bound.
func (r *limiterRun) success(at float64) {
	r.at(at - 0.55) // in an earlier half second
	for range 60 {
		r.answer(200)
	}
	r.at(at)
	r.answer(200)
}

type limiterRow struct {
	T          float64
	Throttled  bool
	Measured   float64 `json:"measured_tx_rate"`
	Fill       float64 `json:"fill_rate"`
	Calculated float64 `json:"calculated_rate"`
	Max        float64 `json:"max_capacity"`
	Enabled    bool

	Op       string
	Granted  bool
	Wait     float64 `json:"wait_s"`
	Capacity float64
}

func (row limiterRow) status() int {
	if row.Throttled {
		return 429
	}
	return 200
}

// requireRates compares the rates after an attempt's end.
func (row limiterRow) requireRates(t *testing.T, got LimiterState, where string) {
	t.Helper()
	require.InDelta(t, row.Measured, got.Measured, nearRate, where)
	require.InDelta(t, row.Fill, got.Rate, nearRate, where)
	require.InDelta(t, row.Max, got.Burst, nearRate, where)
}

// A cubicCurve is how a rate recovers from a throttle.
type cubicCurve struct {
	Max  float64 `json:"last_max_rate"`
	At   float64 `json:"last_throttle_time"`
	Rows []limiterRow
}

const nearRate = 1e-9

func TestVectorsAdaptiveUpdates(t *testing.T) {
	var file struct {
		Rows []limiterRow `json:"update_rows"`
	}
	vectors(t, "adaptive.json", &file)
	runLimiter(t, 0, func(t *testing.T, r *limiterRun) {
		r.send(len(file.Rows))
		for _, row := range file.Rows {
			r.at(row.T)
			r.answer(row.status())
			where := fmt.Sprintf("t=%v", row.T)
			row.requireRates(t, r.state(), where)
			require.Equal(t, row.Enabled, r.state().Enabled, where)
		}
	})
}

func TestVectorsAdaptiveMeasuredRate(t *testing.T) {
	var file struct {
		Clocks []struct {
			ID              string
			Times, Measured []float64
		} `json:"rate_clocker"`
	}
	vectors(t, "adaptive.json", &file)
	for _, c := range file.Clocks {
		runLimiter(t, 0, func(t *testing.T, r *limiterRun) {
			r.send(len(c.Times))
			for i, at := range c.Times {
				r.at(at)
				r.answer(200)
				require.InDelta(t, c.Measured[i], r.state().Measured, nearRate, "%s %d", c.ID, i)
			}
		})
	}
}

func TestVectorsAdaptiveCurve(t *testing.T) {
	var file struct {
		Success       cubicCurve `json:"cubic_success"`
		ThrottleFirst cubicCurve `json:"cubic_throttle_first"`
	}
	vectors(t, "adaptive.json", &file)
	success, first := file.Success, file.ThrottleFirst
	require.NotEmpty(t, success.Rows)
	require.NotEmpty(t, first.Rows)
	runLimiter(t, 0, func(t *testing.T, r *limiterRun) {
		r.send(1000)
		require.Equal(t, success.At, r.throttled(success.Max))
		for i, row := range success.Rows {
			if i > 0 {
				r.success(row.T)
			}
			require.InDelta(t, row.Calculated, r.state().Rate, nearRate, "t=%v", row.T)
		}
	})
	for _, row := range first.Rows {
		runLimiter(t, 0, func(t *testing.T, r *limiterRun) {
			r.send(1)
			r.at(row.T)
			r.answer(429)
			// The rate itself is never below half an attempt per second.
			require.InDelta(t, row.Calculated, beta*r.state().Measured, 1e-8, "published with 8 decimals")
			require.Equal(t, minRate, r.state().Rate)
		})
	}
}

// K seconds after a throttle, the rate at which it came is reached again, and
// after twice as long the rate is as far above it as it was below.
func TestVectorsAdaptiveZeroPoint(t *testing.T) {
	var file struct {
		Rows []struct {
			WMax float64 `json:"w_max"`
			K    float64
		} `json:"zero_point"`
	}
	vectors(t, "adaptive.json", &file)
	for _, row := range file.Rows {
		runLimiter(t, 0, func(t *testing.T, r *limiterRun) {
			r.send(1000)
			at := r.throttled(row.WMax)
			if row.WMax == 0 { // from the throttle on, upwards
				r.success(at + 2)
				require.InDelta(t, cubicScale*8, r.state().Rate, 1e-8)
				return
			}
			for times, want := range []float64{0.7, 1, 1.3} {
				if times > 0 {
					r.success(at + float64(times)*row.K)
				}
				require.InDelta(t, want*row.WMax, r.state().Rate, 1e-8, "%v, %d·K", row.WMax, times)
			}
		})
	}
}

func TestVectorsAdaptiveSequences(t *testing.T) {
	var file struct {
		Sequences []struct {
			ID     string
			Start  float64
			Events []limiterRow
		} `json:"acquire_sequences"`
	}
	vectors(t, "adaptive.json", &file)
	for _, seq := range file.Sequences {
		t.Run(seq.ID, func(t *testing.T) {
			runLimiter(t, seq.Start, func(t *testing.T, r *limiterRun) {
				r.send(len(seq.Events))
				for i, e := range seq.Events {
					where := fmt.Sprint("event ", i)
					r.at(e.T)
					switch e.Op {
					case "update":
						r.answer(e.status())
						e.requireRates(t, r.state(), where)
					case "acquire":
						granted, wait := r.acquire()
						require.Equal(t, e.Granted, granted, where)
						require.InDelta(t, e.Wait, wait.Seconds(), 2*nearRate, where)
					default:
						t.Fatalf("%q?", e.Op)
					}
					require.InDelta(t, e.Capacity, r.state().Tokens, nearRate, where)
				}
			})
		})
	}
}

// The rows of cubic_mixed are not what an SDK does, as their note says, so no
// sequence of requests can show them: a throttle counts there at the rate that it
// has cut already. They check the formula alone.
func TestVectorsAdaptiveFormula(t *testing.T) {
	var file struct {
		Mixed cubicCurve `json:"cubic_mixed"`
	}
	vectors(t, "adaptive.json", &file)
	require.NotEmpty(t, file.Mixed.Rows)
	l := new(Limiter)
	l.throttledFrom(file.Mixed.Max, second(file.Mixed.At))
	for _, r := range file.Mixed.Rows {
		if r.Throttled {
			l.rate *= beta
			l.throttledFrom(l.rate, second(r.T))
		} else {
			l.rate = l.curve(second(r.T))
		}
		require.InDelta(t, r.Calculated, l.rate, nearRate)
	}
}
