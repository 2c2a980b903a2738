package retrip

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The same requests over real connections. Here the oracle knows less: the
// kernel decides which of two things comes first.
func TestModelOverSockets(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			if !*modelSockets {
				t.Skip("over real sockets a verdict can hang on the kernel and on net/http: run with -model.sockets")
			}
			if raceEnabled && protocol == "HTTP/2.0" {
				t.Skip("net/http races with itself when a cached HTTP/2 connection breaks: " +
					"Transport.roundTrip's rewindBody reads what the old stream's writeRequestBody still writes " +
					"(readTrackingBody.didRead); without the detector this runs")
			}
			seed := *modelSeed
			if seed == 0 {
				seed = rand.Uint64() >> 1
			}
			t.Logf("seed: %d", seed)
			playSockets(t, protocol, rand.New(rand.NewPCG(seed, 3)), min(*modelRequests/15, 100_000))
		})
	}
}

// A socketModel is a server and what its requests meet there.
type socketModel struct {
	protocol string
	script   *modelScript
	requests []*modelRequest
	faults   [][]int
	arrivals []atomic.Int32
}

func playSockets(t *testing.T, protocol string, rng *rand.Rand, requests int) {
	before := runtime.NumGoroutine()
	m := &socketModel{protocol: protocol, arrivals: make([]atomic.Int32, requests)}
	srv := httptest.NewUnstartedServer(m)
	srv.EnableHTTP2 = protocol == "HTTP/2.0"
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	m.newScript(t, srv, rng)

	var wg sync.WaitGroup
	next := make(chan *modelRequest)
	for range 64 {
		wg.Go(func() {
			for r := range next {
				r.runOverSocket()
			}
		})
	}
	for _, r := range m.requests {
		next <- r
	}
	close(next)
	wg.Wait()
	m.script.transport.CloseIdleConnections()
	srv.Close()
	m.check(t)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("goroutines are left: %s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// newScript makes the Transport and its requests, one for each of arrivals.
func (m *socketModel) newScript(t *testing.T, srv *httptest.Server, rng *rand.Rand) {
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, modelBytes[:modelFileSize], 0o600))
	ledger := &modelLedger{Bucket: NewBucket(1 << 30)}
	strategy := Standard()
	strategy.Backoff, strategy.ThrottleBackoff, strategy.Quota = Constant{}, nil, ledger
	m.script = &modelScript{ledger: ledger, tally: modelTally{}, observed: true, transport: &Transport{
		Base: srv.Client().Transport, Strategy: strategy, AttemptTimeout: time.Second, ReplayBuffer: 64 << 10,
		Observe: func(e Event) { r := modelRequestOf(e.Request); r.observe(&r.events, e) },
	}}
	for id := range m.arrivals {
		r := newModelRequest(m.script, id, rng, file)
		for r.kind == bodyDeaf { // for minutes, of which there are none here
			r = newModelRequest(m.script, id, rng, file)
		}
		r.url, r.max, r.ownMax, r.start = srv.URL, strategy.MaxAttempts, false, 0
		r.deadline, r.cancel, r.touched, r.dawdle = r.deadline/10, r.cancel/10, 0, 0
		if r.endBy == endDeadline {
			r.endAt = stepNone
		}
		r.impolite = r.impolite || r.kind == bodyDuplex
		m.requests = append(m.requests, r)
		m.faults = append(m.faults, []int{rng.IntN(14), rng.IntN(14), rng.IntN(14)})
	}
}

// check checks what is certain whatever came first.
func (m *socketModel) check(t *testing.T) {
	var taken, given int64
	for _, r := range m.requests {
		if len(r.events) == 0 || !r.events[len(r.events)-1].Final || r.events[len(r.events)-1].Attempt > r.max {
			r.wrong("too many attempts, or no end")
		}
		took, gave := r.account(r.events, ModeStandard)
		taken, given = taken+took, given+gave
	}
	require.Equal(t, m.script.ledger.taken.Load(), taken)
	require.Equal(t, m.script.ledger.given.Load(), given)
	for _, r := range m.requests {
		sources := r.sources
		if !r.wrapped() { // net/http closes it as often as it likes, and may forget copies that it opened for itself
			sources = sources[:min(len(sources), 1)]
		}
		for _, source := range sources {
			require.Eventually(t, func() bool { return source.closes.Load() > 0 }, 10*time.Second, time.Millisecond, "%v", r)
			require.True(t, source.closes.Load() == 1 || !r.wrapped(), "%v", r)
		}
	}
	require.Empty(t, m.script.wrongs)
}

// runOverSocket is the caller.
func (r *modelRequest) runOverSocket() {
	ctx, cancel := r.newContext()
	defer cancel()
	if r.declared {
		ctx = WithIdempotent(ctx)
	}
	r.ctx = ctx
	req := r.build(ctx)
	req.Header.Set("Model-Request", strconv.Itoa(r.id))
	r.at(stepBefore)
	hung := time.AfterFunc(30*time.Second, func() { panic("RoundTrip hangs:" + r.String()) })
	resp, err := r.script.transport.RoundTrip(req)
	hung.Stop()
	close(r.back)
	if (resp == nil) == (err == nil) {
		r.wrong("neither or both of a response and an error")
	}
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == 200 && !r.impolite {
		body, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Equal(body, modelBytes[:20_000]) || err != nil && ctx.Err() == nil && r.kind < bodyFails {
			r.wrong("the answer has %d bytes, %v", len(body), err)
		}
	}
}

// socketThrottled is the fault that proves that nothing was processed.
const socketThrottled = 6

// ServeHTTP is the server.
func (m *socketModel) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id, err := strconv.Atoi(req.Header.Get("Model-Request"))
	if err != nil || req.Proto != m.protocol {
		panic(fmt.Sprint(err, req.Proto))
	}
	r, n := m.requests[id], int(m.arrivals[id].Add(1))
	faults := m.faults[id]
	if last := len(faults); n > 1 && !r.safe() && faults[min(n-2, last-1)] != socketThrottled {
		r.wrong("arrives for the %dth time, though it may have been processed before", n)
	}
	exchange := &socketExchange{m, r, w, req}
	if play, ok := socketFaults[append(faults, 0)[min(n, len(faults)+1)-1]]; ok {
		play(exchange)
	} else if exchange.readBody(-1) {
		_, _ = w.Write(modelBytes[:20_000])
	}
}

// A socketExchange is one arrival of a request at the server.
type socketExchange struct {
	m   *socketModel
	r   *modelRequest
	w   http.ResponseWriter
	req *http.Request
}

// socketFaults are what the server does, by number; other numbers are answered
// with 200.
var socketFaults = map[int]func(*socketExchange){
	3: func(x *socketExchange) { x.w.WriteHeader(503) },
	4: func(x *socketExchange) {
		x.w.Header().Set("Connection", "close")
		x.w.WriteHeader(503)
	},
	5: func(x *socketExchange) {
		x.readBody(-1)
		x.w.WriteHeader(503)
	},
	socketThrottled: func(x *socketExchange) {
		x.w.Header().Set("Retry-After", "0")
		x.w.WriteHeader(429)
	},
	7: func(*socketExchange) { panic(http.ErrAbortHandler) },
	8: func(x *socketExchange) {
		x.readBody(-1)
		panic(http.ErrAbortHandler)
	},
	9: func(x *socketExchange) {
		x.readBody(len(x.r.content) / 2)
		panic(http.ErrAbortHandler)
	},
	10: func(x *socketExchange) { x.stall() }, // until the attempt's time is over
	11: func(x *socketExchange) { // an endless error
		x.w.WriteHeader(503)
		for x.req.Context().Err() == nil {
			if _, err := x.w.Write(modelBytes); err != nil {
				return
			}
		}
	},
	12: func(x *socketExchange) { // an error that stalls
		x.w.WriteHeader(503)
		_ = http.NewResponseController(x.w).Flush()
		x.stall()
	},
	13: func(x *socketExchange) { // an answer that breaks off
		x.readBody(-1)
		x.w.Header().Set("Content-Length", "999")
		x.w.WriteHeader(503)
		_, _ = x.w.Write(modelBytes[:100])
		panic(http.ErrAbortHandler)
	},
}

// stall waits until the client has gone, which a server over HTTP/1 does not
// notice as long as it has not read the body.
func (x *socketExchange) stall() {
	select {
	case <-x.req.Context().Done():
	case <-time.After(1500 * time.Millisecond):
	}
}

// readBody reads and checks the body, to its end or up to a limit. A body that
// fails is not an error of the server's.
func (x *socketExchange) readBody(limit int) (whole bool) {
	from := io.Reader(x.req.Body)
	if limit >= 0 {
		from = io.LimitReader(from, int64(limit))
	}
	body, err := io.ReadAll(from)
	if content := x.r.content; !bytes.HasPrefix(content, body) || err == nil && limit < 0 && len(body) != len(content) {
		x.r.wrong("the server got %d bytes, not the body, %v", len(body), err)
	}
	return err == nil
}
