package retrip_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// failure is a transient one of a request that may take so many attempts.
func failure(at time.Duration, attempt, maxAttempts int) retrip.Failure {
	done := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(at)
	return retrip.Failure{Class: retrip.Transient, Attempt: attempt, MaxAttempts: maxAttempts, Done: done}
}

// hinted is the failure, with a hint like all of its request's before.
func hinted(f retrip.Failure) retrip.Failure {
	f.Hint, f.Hinted = true, f.Attempt
	return f
}

// timedOut is the failure as a timeout.
func timedOut(f retrip.Failure) retrip.Failure {
	f.Timeout = true
	return f
}

// fail tells the gate of a failure, and reports whether a retry follows.
func fail(g *retrip.Gate, f retrip.Failure) bool {
	g.Failed(f)
	return g.Take(context.Background(), f) && f.Attempt < f.MaxAttempts
}

func succeed(g *retrip.Gate) { g.Answered(retrip.Success, 0) }

// A lateGate is one in full doubt, with its first second long over.
func lateGate() *retrip.Gate {
	g := new(retrip.Gate)
	for i := range 20 {
		fail(g, failure(time.Duration(i)*time.Second, 1, 3))
	}
	return g
}

const day = 24 * time.Hour // when nothing of the second is left

// The rule, step by step. Doubt is counted in failures.
func TestGateTimeline(t *testing.T) {
	const answers = time.Duration(-1)
	rows := []struct {
		at          time.Duration
		attempt     int
		change      func(retrip.Failure) retrip.Failure
		maxAttempts int
		retry       bool
		doubt       float64
		shut        bool
	}{
		{at: 0, attempt: 1, maxAttempts: 3, retry: true, doubt: 1},
		{at: 100 * time.Millisecond, attempt: 2, maxAttempts: 3, retry: true, doubt: 2},
		{at: 200 * time.Millisecond, attempt: 3, maxAttempts: 3, retry: false, doubt: 2}, // its third does not count
		{at: answers, doubt: 0},
		{at: 5 * time.Second, attempt: 3, maxAttempts: 4, retry: true, doubt: 0}, // nor does it begin anything
		{at: 10 * time.Second, attempt: 1, maxAttempts: 3, retry: true, doubt: 1},
		{at: 20 * time.Second, attempt: 1, maxAttempts: 3, retry: true, doubt: 2},
		{at: 30 * time.Second, attempt: 1, maxAttempts: 3, retry: true, doubt: 3},
		{at: 40 * time.Second, attempt: 1, maxAttempts: 3, retry: true, doubt: 4, shut: true},
		{at: 50 * time.Second, attempt: 1, maxAttempts: 3, retry: false, doubt: 5, shut: true},
		{at: 51 * time.Second, attempt: 1, change: hinted, maxAttempts: 3, retry: false, doubt: 5.25, shut: true},
		{at: 60 * time.Second, attempt: 1, maxAttempts: 5, retry: true, doubt: 6.25, shut: true},
		{at: 70 * time.Second, attempt: 1, maxAttempts: 9, retry: false, doubt: 7.25, shut: true},
		{at: 80 * time.Second, attempt: 1, maxAttempts: 9, retry: false, doubt: 8, shut: true}, // never more
		{at: answers, doubt: 6, shut: true},
		{at: answers, doubt: 4, shut: true},
		{at: 81 * time.Second, attempt: 1, maxAttempts: 3, retry: false, doubt: 5, shut: true},
		{at: answers, doubt: 3},
		{at: 82 * time.Second, attempt: 1, maxAttempts: 3, retry: true, doubt: 4, shut: true},
		{at: answers, doubt: 2},
		{at: answers, doubt: 0},
		{at: answers, doubt: 0},
	}
	var g retrip.Gate
	for i, row := range rows {
		if row.at == answers {
			succeed(&g)
		} else {
			f := failure(row.at, row.attempt, row.maxAttempts)
			if row.change != nil {
				f = row.change(f)
			}
			require.Equal(t, row.retry, fail(&g, f), "row %d", i)
		}
		require.Equal(t, row.doubt, g.Doubt(), "row %d", i)
		require.Equal(t, row.shut, g.Shut(3), "row %d", i)
		require.Equal(t, row.doubt == 0, g.Full(), "row %d", i)
	}
}

// In the first second every retry is allowed, and what it added must be taken
// away before the next one is.
func TestGateFirstSecond(t *testing.T) {
	var g retrip.Gate
	for i := range 1000 {
		require.True(t, fail(&g, failure(time.Duration(i)*time.Millisecond, 1, 3)))
	}
	require.Equal(t, 1000.0, g.Doubt())
	require.False(t, g.Shut(3))
	require.False(t, fail(&g, failure(time.Second, 1, 3)))
	require.Equal(t, 1000.0, g.Doubt(), "it rises no more")
	answers := 0
	for ; !fail(&g, failure(59*time.Second, 1, 3)); answers++ {
		require.True(t, g.Shut(3))
		succeed(&g)
		succeed(&g)
	}
	require.InDelta(t, 1000/3, answers, 2, "two answers take away 4, and the failure adds 1")
}

// What the first second added counts for a minute. A burst of failures must not stop
// the retries of a client that then makes few requests.
func TestGateForgetsTheFirstSecond(t *testing.T) {
	for _, later := range []time.Duration{time.Minute, time.Hour} {
		var g retrip.Gate
		for range 1000 {
			require.True(t, fail(&g, failure(0, 1, 3)))
		}
		require.False(t, fail(&g, failure(later, 1, 3)))
		require.Equal(t, 8.0, g.Doubt())
		for range 3 {
			require.True(t, g.Shut(3))
			succeed(&g)
		}
		require.True(t, fail(&g, failure(later, 1, 3)))
	}
}

// The same as requests meet it: after a burst that failed, one of ten attempts does.
func TestGatedBurstThenFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, attempts := time.Now(), 0
		transport, gate := newGated(step(func(req *http.Request) (*http.Response, error) {
			if time.Since(start) < time.Second {
				return nil, socketerr.ConnRefused
			}
			if attempts++; attempts%10 == 0 {
				return status(503)(req)
			}
			return status(200)(req)
		}), 3)
		transport.Strategy.Backoff = retrip.Constant{Wait: 100 * time.Millisecond}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { statusOf(t.Context(), transport) })
		}
		wg.Wait()
		require.Equal(t, 400.0, gate.Doubt())
		lost := 0
		for range 300 {
			time.Sleep(time.Second) // in the bubble's time: one request a second
			if statusOf(t.Context(), transport) != 200 {
				lost++
			}
		}
		require.LessOrEqual(t, lost, 7, "those of the first minute, and the one after it")
	})
}

// Timeouts end the second early once they bring doubt to the limit. Other failures
// don't, however long they took.
func TestGateTimeoutsEndTheSecond(t *testing.T) {
	for maxAttempts, allowed := range map[int]int{2: 4, 3: 4, 4: 5, 5: 6, 9: 6} {
		var g retrip.Gate
		n := 0
		for fail(&g, timedOut(failure(time.Duration(n), 1, maxAttempts))) {
			n++
		}
		require.Equal(t, allowed, n, "of %d attempts", maxAttempts)
	}
	var g retrip.Gate
	f := failure(0, 1, 3)
	f.Sent = f.Done.Add(-time.Minute)
	for range 1000 {
		require.True(t, fail(&g, f))
	}
}

// A request that is alone gets all its attempts, however long it takes.
func TestGateNeverRefusesALoneRequest(t *testing.T) {
	for maxAttempts := 2; maxAttempts < 100; maxAttempts++ {
		for _, change := range []func(retrip.Failure) retrip.Failure{func(f retrip.Failure) retrip.Failure { return f }, hinted, timedOut} {
			var g retrip.Gate
			for n := 1; n < maxAttempts; n++ {
				require.True(t, fail(&g, change(failure(time.Duration(n)*time.Minute, n, maxAttempts))), "attempt %d of %d", n, maxAttempts)
			}
		}
	}
}

// A request that is saved in the end leaves no more doubt than it found.
func TestGateSavedRequestLeavesNoDoubt(t *testing.T) {
	for failures := range 10 {
		for found := range 9 {
			var g retrip.Gate
			for i := range found {
				fail(&g, failure(time.Duration(i)*time.Second, 1, 3))
			}
			before := g.Doubt()
			for n := 1; n <= failures; n++ {
				fail(&g, failure(time.Minute, n, 10))
			}
			succeed(&g)
			require.LessOrEqual(t, g.Doubt(), before, "%d failures, %d found", failures, found)
		}
	}
}

// In full doubt no request gets a retry, whatever its own failures. Three
// answers let the next one through again, and four clear all doubt.
func TestGateInFullDoubt(t *testing.T) {
	for maxAttempts := 2; maxAttempts < 20; maxAttempts++ {
		g := lateGate()
		for n := 1; n < maxAttempts; n++ {
			require.False(t, fail(g, failure(day, n, maxAttempts)), "attempt %d of %d", n, maxAttempts)
			require.False(t, fail(g, hinted(failure(day, n, maxAttempts))), "attempt %d of %d", n, maxAttempts)
		}
		require.Equal(t, 8.0, g.Doubt())
		succeed(g)
		require.True(t, g.Shut(maxAttempts))
		succeed(g)
		require.Equal(t, maxAttempts < 4, g.Shut(maxAttempts), "%d attempts", maxAttempts)
		succeed(g)
		require.False(t, g.Shut(maxAttempts))
		succeed(g)
		require.True(t, g.Full())
	}
}

// mostRetries tries all orders of first and second failures. A request that gets
// its second retry gets all.
func mostRetries(limit, maxAttempts int) (most int) {
	var try func(doubt, waiting, granted int)
	try = func(doubt, waiting, granted int) {
		most = max(most, granted)
		if doubt < limit {
			try(doubt+1, waiting+1, granted+1)
		}
		if waiting > 0 && doubt+1-2 < limit {
			try(doubt+1, waiting-1, granted+max(0, maxAttempts-2))
		}
	}
	try(0, 0, 0)
	return most
}

// Between two answers and after the first second, all requests together get only
// so many retries, at the same time or one after another.
func TestGateBoundsRetries(t *testing.T) {
	for _, row := range []struct{ maxAttempts, limit, most, inTurn int }{
		{2, 4, 4, 2}, {3, 4, 5, 4}, {4, 5, 9, 9}, {5, 6, 13, 12}, {8, 6, 22, 21}, {10, 6, 28, 27},
	} {
		t.Run(fmt.Sprint(row.maxAttempts), func(t *testing.T) {
			require.Equal(t, row.most, mostRetries(row.limit, row.maxAttempts))
			for range 30 {
				var g retrip.Gate
				fail(&g, failure(0, 1, row.maxAttempts)) // of another request: a second later, nothing is free
				granted := atomic.Int64{}
				granted.Add(1)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						for n := 1; fail(&g, failure(day, n, row.maxAttempts)); n++ {
							granted.Add(1)
							runtime.Gosched()
						}
					})
				}
				wg.Wait()
				require.LessOrEqual(t, granted.Load(), int64(row.most))
				require.Equal(t, 8.0, g.Doubt())
			}
			var g retrip.Gate
			granted := 0
			for i := range 100 {
				for n := 1; fail(&g, failure(time.Duration(i+1)*time.Hour, n, row.maxAttempts)); n++ {
					granted++
				}
			}
			require.Equal(t, row.inTurn, granted, "one after another")
		})
	}
}

// Nothing of what many tell it at once is lost: in the first second doubt is
// what failures added and answers took away.
func TestGateCountsExactly(t *testing.T) {
	var g retrip.Gate
	fail(&g, failure(0, 1, 3))
	f := failure(time.Millisecond, 1, 3)
	atOnce := func(times int, do func()) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range times {
					do()
				}
			})
		}
		wg.Wait()
	}
	for range 30 { // so that two meet also where one core is free
		atOnce(20_000, func() { g.Failed(f) })
		require.Equal(t, 160_001.0, g.Doubt())
		atOnce(10_000, func() { succeed(&g) })
		require.Equal(t, 1.0, g.Doubt())
	}
}

// Doubt has an end, also in the first second, and does not spill over.
func TestGateHoldsAFloodOfFailures(t *testing.T) {
	var g retrip.Gate
	for range 300_000 {
		g.Failed(failure(0, 1, 3))
	}
	require.InDelta(t, 1<<18, g.Doubt(), 3)
	require.True(t, g.Shut(3))
}

// A clock that is set gives away another first second at most.
func TestGateAndAClockThatIsSet(t *testing.T) {
	for _, jump := range []time.Duration{-time.Millisecond, -time.Hour, -10 * day, time.Hour, 10 * day, 1 << 23 * time.Millisecond} {
		g := lateGate()
		require.False(t, fail(g, failure(jump, 1, 3)), "a late gate stays late")
		g = new(retrip.Gate)
		granted := 0
		for i := range 20 {
			if fail(g, failure(jump+time.Duration(i)*time.Second, 1, 3)) {
				granted++
			}
			if i == 0 {
				fail(g, failure(0, 1, 3))
			}
		}
		require.LessOrEqual(t, granted, 5, "%v", jump)
	}
}

// Whatever a Failure holds, the gate does not panic, and doubt stays in its bounds.
func TestGateTakesAnyFailure(t *testing.T) {
	numbers := []int{math.MinInt, -1, 0, 1, 2, 3, 1000, math.MaxInt}
	var g retrip.Gate
	for _, attempt := range numbers {
		for _, hints := range numbers {
			for _, maxAttempts := range numbers {
				for _, hint := range []bool{false, true} {
					f := retrip.Failure{Attempt: attempt, Hinted: hints, MaxAttempts: maxAttempts, Hint: hint}
					fail(&g, f)
					require.GreaterOrEqual(t, g.Doubt(), 0.0, "%+v", f)
					require.LessOrEqual(t, g.Doubt(), 3000.0, "%+v", f)
				}
			}
		}
	}
}

func TestGatePrintsItsDoubt(t *testing.T) {
	var g retrip.Gate
	require.Equal(t, "gate with doubt 0", g.String())
	g.Failed(failure(0, 1, 3))
	g.Failed(hinted(failure(0, 1, 3)))
	require.Equal(t, "gate with doubt 1.25", g.String())
	require.Contains(t, retrip.Gated().String(), "\nQuota: gate with doubt 0\n")
}

// ---- As requests meet it

// newGated returns a transport over the server, with a gate and so many attempts.
func newGated(server http.RoundTripper, maxAttempts int) (*retrip.Transport, *retrip.Gate) {
	s, g := retrip.Gated(), new(retrip.Gate)
	s.MaxAttempts, s.Quota = maxAttempts, g
	return &retrip.Transport{Base: server, Strategy: s}, g
}

// statusOf makes a request and returns its status, or 0 without a response.
func statusOf(ctx context.Context, transport *retrip.Transport) int {
	resp, err := testkit.Get(ctx, transport)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// A request whose server starts after 5 s is sent as often as it may be.
func TestGatedRequestWaitsForItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := script(func(req *http.Request) (*http.Response, error) {
			if time.Since(start) < 5*time.Second {
				return nil, socketerr.ConnRefused
			}
			return status(200)(req)
		})
		transport, gate := newGated(server, 10)
		transport.Strategy.Backoff = retrip.Constant{Wait: 700 * time.Millisecond}
		require.Equal(t, 200, statusOf(t.Context(), transport))
		require.Equal(t, 9, len(server.Sent()))
		require.True(t, gate.Full())
	})
}

// A server that is down gets a few retries, whatever failed, and then only the
// first attempts of requests.
func TestGatedOutage(t *testing.T) {
	for maxAttempts, retries := range map[int]int{2: 2, 3: 4, 5: 12, 8: 21} {
		for name, play := range map[string]step{
			"503":     status(503),
			"429":     status(429),
			"refused": fails(socketerr.ConnRefused),
		} {
			t.Run(fmt.Sprint(name, " ", maxAttempts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := script(play)
					transport, gate := newGated(server, maxAttempts)
					transport.Strategy.Backoff, transport.Strategy.ThrottleBackoff = retrip.Constant{Wait: 2 * time.Second}, nil
					for range 100 {
						statusOf(t.Context(), transport)
						time.Sleep(time.Second) // in the bubble's time
					}
					require.Equal(t, 100+retries, len(server.Sent()))
					require.True(t, gate.Shut(maxAttempts))
				})
			})
		}
	}
}

// One of several machines breaks off the requests that were under way for long, and
// the others answer. All are retried, whether something times attempts or not.
func TestGatedCrashOfOneMachine(t *testing.T) {
	for name, change := range map[string]func(*retrip.Transport){
		"plain":          func(*retrip.Transport) {},
		"observed":       func(transport *retrip.Transport) { transport.Observe = func(retrip.Event) {} },
		"AttemptTimeout": func(transport *retrip.Transport) { transport.AttemptTimeout = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, lost := time.Now(), atomic.Int64{}
				transport, gate := newGated(step(func(req *http.Request) (*http.Response, error) {
					if left := 10*time.Second - time.Since(start); left > 0 {
						time.Sleep(left) // in the bubble's time, until the machine crashes
						return nil, socketerr.ConnReset
					}
					return status(200)(req)
				}), 3)
				change(transport)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						if statusOf(t.Context(), transport) != 200 {
							lost.Add(1)
						}
					})
				}
				wg.Wait()
				require.Zero(t, lost.Load())
				require.True(t, gate.Full())
			})
		})
	}
}

// A client that makes many requests gets through half a second without a server.
func TestGatedRidesOutAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		transport, gate := newGated(step(func(req *http.Request) (*http.Response, error) {
			if since := time.Since(start); since >= time.Second && since < 1500*time.Millisecond {
				return nil, socketerr.ConnRefused
			}
			return status(200)(req)
		}), 3)
		transport.Strategy.Backoff = retrip.Constant{Wait: 300 * time.Millisecond}
		var wg sync.WaitGroup
		var lost atomic.Int64
		for range 3000 {
			time.Sleep(time.Millisecond) // in the bubble's time: 1000 requests a second
			wg.Go(func() {
				if statusOf(t.Context(), transport) != 200 {
					lost.Add(1)
				}
			})
		}
		wg.Wait()
		require.Zero(t, lost.Load(), "200 requests of the first 300 ms wait twice")
		require.True(t, gate.Full())
	})
}

// A slowBody waits before it is read.
type slowBody struct {
	io.Reader
	after time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.after) // in the bubble's time
	b.after = 0
	return b.Reader.Read(p)
}

func (*slowBody) Close() error { return nil }

// A failure whose answer is looked into reaches the gate after others that ended
// later. That does not end the first second.
func TestGatedFailuresOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		transport, gate := newGated(step(func(req *http.Request) (*http.Response, error) {
			switch since := time.Since(start); {
			case since == 0:
				resp, _ := status(503)(req)
				resp.Header.Set("Content-Type", "application/json")
				resp.Body, resp.ContentLength = &slowBody{strings.NewReader(`{"code":"Late"}`), 20 * time.Millisecond}, -1
				return resp, nil
			case since < 400*time.Millisecond:
				return nil, socketerr.ConnRefused
			}
			return status(200)(req)
		}), 3)
		transport.Strategy.Backoff = retrip.Constant{Wait: 300 * time.Millisecond}
		var wg sync.WaitGroup
		var lost atomic.Int64
		for range 100 {
			wg.Go(func() {
				if statusOf(t.Context(), transport) != 200 {
					lost.Add(1)
				}
			})
			time.Sleep(2 * time.Millisecond) // in the bubble's time
		}
		wg.Wait()
		require.Zero(t, lost.Load())
		require.True(t, gate.Full())
	})
}

// Any answer shows that the server works, be it a 404.
func TestGateTrustsAnyAnswer(t *testing.T) {
	for _, code := range []int{200, 404, 501} {
		gate := lateGate()
		s := retrip.Gated()
		s.Quota = gate
		transport := &retrip.Transport{Base: status(code), Strategy: s}
		for _, doubt := range []float64{6, 4, 2, 0, 0} {
			require.Equal(t, code, statusOf(t.Context(), transport))
			require.Equal(t, doubt, gate.Doubt())
		}
	}
}

// What the caller cancels tells nothing, whether during the attempt or the wait.
func TestGateAndCancelledRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := new(retrip.Gate)
		s := retrip.Gated()
		s.Quota, s.Backoff = gate, retrip.Constant{Wait: time.Minute}
		play := status(503)
		transport := &retrip.Transport{Strategy: s, Base: step(func(req *http.Request) (*http.Response, error) { return play(req) })}
		cancelled := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			time.AfterFunc(time.Second, cancel)
			require.Zero(t, statusOf(ctx, transport))
		}
		cancelled()
		require.Equal(t, 1.0, gate.Doubt(), "the attempt before the wait did fail")
		play = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		for range 20 {
			cancelled()
		}
		require.Equal(t, 1.0, gate.Doubt())
	})
}

// Waits that the server asked for, and that are obeyed, weigh little. One that is
// too long is no hint, and neither is one of 0, which some proxies send with
// every 503.
func TestGateAndHints(t *testing.T) {
	for header, doubt := range map[string]float64{"1": 0.5, "0.001": 0.5, "3600": 1, "0": 2, "Fri, 01 Jan 1999 00:00:00 GMT": 2} {
		synctest.Test(t, func(t *testing.T) {
			transport, gate := newGated(status(429, "Retry-After: "+header), 2)
			require.Equal(t, 429, statusOf(t.Context(), transport))
			require.Equal(t, doubt, gate.Doubt())
		})
	}
}

// A host is forgotten only if there is no doubt about it: a flood of host names
// must not reopen a gate that is shut.
func TestHostInDoubtIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := map[string][]*retrip.Gate{}
		transport := &retrip.Transport{MaxKeys: 2, PerKey: func(key string) *retrip.Strategy {
			s := retrip.Gated()
			gates[key] = append(gates[key], s.Quota.(*retrip.Gate))
			return s
		}}
		transport.Base = step(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "sick" {
				return status(503)(req)
			}
			return status(200)(req)
		})
		ask := func(host string) {
			resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", "http://"+host+"/", nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		ask("sick")
		for i := range 10 {
			ask(fmt.Sprint("well", i))
		}
		ask("sick")
		require.Len(t, gates["sick"], 1)
		require.Len(t, gates["well9"], 1, "those without doubt make room")
		succeed(gates["sick"][0])
		succeed(gates["sick"][0])
		time.Sleep(2 * time.Hour) // it was asked for twice
		for i := range 10 {
			ask(fmt.Sprint("well", i))
		}
		ask("sick")
		require.Len(t, gates["sick"], 2, "nor is it kept for ever")
	})
}

// A clone has a gate of its own.
func TestCloneHasAFreshGate(t *testing.T) {
	s := retrip.Gated()
	fail(s.Quota.(*retrip.Gate), failure(0, 1, 3))
	c := s.Clone()
	require.NotSame(t, s.Quota, c.Quota)
	require.True(t, c.Quota.(*retrip.Gate).Full())
}

// Doubt that requests find is what the order of outcomes makes it: the same
// script gives the same answers.
func TestGateIsDeterministic(t *testing.T) {
	play := func() (answers []bool) {
		rng := rand.New(rand.NewPCG(1, 2))
		var g retrip.Gate
		for i := range 5000 {
			if rng.IntN(3) == 0 {
				succeed(&g)
			} else {
				answers = append(answers, fail(&g, failure(time.Duration(i)*100*time.Millisecond, 1+rng.IntN(3), 3)))
			}
		}
		return answers
	}
	require.Equal(t, play(), play())
}
