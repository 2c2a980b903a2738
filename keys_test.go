package retrip_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
)

// A countingBase answers 503 for hosts that begin with "dead" and 200 for others,
// and counts the attempts.
type countingBase struct {
	mu       sync.Mutex
	attempts map[string]int
	allDead  bool
	hold     chan struct{} // attempts to "dead.held" wait until it is closed
}

func newCountingBase() *countingBase {
	return &countingBase{attempts: map[string]int{}, hold: make(chan struct{})}
}

func (b *countingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Host
	b.mu.Lock()
	b.attempts[host]++
	dead := b.allDead || strings.HasPrefix(host, "dead")
	b.mu.Unlock()
	if host == "dead.held" {
		<-b.hold
	}
	if dead {
		return answer(503, "")(req)
	}
	return answer(200, "")(req)
}

func (b *countingBase) to(host string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts[host]
}

// ask sends a request to each host.
func ask(t *testing.T, rt http.RoundTripper, hosts ...string) {
	for _, host := range hosts {
		_, err := rt.RoundTrip(testkit.RequestTo(t, "GET", "http://"+host+"/", nil))
		assert.NoError(t, err)
	}
}

// retriesOf is how many retries n requests to a dead host have.
func retriesOf(t *testing.T, rt http.RoundTripper, base *countingBase, host string, n int) int {
	before := base.to(host)
	for range n {
		ask(t, rt, host)
	}
	return base.to(host) - before - n
}

// Failures of one host count against one quota, even if the host was forgotten,
// perhaps again and again, while requests to it were under way.
func TestRequestsUnderWayShareOneQuota(t *testing.T) {
	for name, row := range map[string]struct {
		batches, requests int
		pause             time.Duration
	}{
		"one by one": {400, 1, 0},
		"in batches": {8, 50, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := newCountingBase()
				newStrategy := func(string) *retrip.Strategy { return retrip.Standard() }
				transport := &retrip.Transport{Base: base, MaxKeys: 16, PerKey: newStrategy}
				var wg sync.WaitGroup
				for batch := range row.batches {
					for range row.requests {
						wg.Go(func() { ask(t, transport, "dead.held") })
					}
					synctest.Wait() // they wait for their first answers
					time.Sleep(row.pause)
					for i := range 50 {
						ask(t, transport, fmt.Sprintf("well%d-%d", batch, i))
					}
				}
				close(base.hold)
				wg.Wait()
				require.Equal(t, 400+100, base.to("dead.held"))
			})
		})
	}
}

// A throttle and a clock that a request learns of after its host was forgotten
// are not lost.
func TestRequestUnderWayKeepsWhatItLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skews []time.Duration
		next := make(chan step)
		transport := &retrip.Transport{
			MaxKeys: 1,
			PerKey:  func(string) *retrip.Strategy { return retrip.Adaptive() },
			Prepare: func(_ *http.Request, p retrip.PrepareInfo) error { skews = append(skews, p.Skew); return nil },
			Base: step(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "slow" {
					return (<-next)(req)
				}
				return answer(200, "")(req)
			}),
		}
		go ask(t, transport, "slow")
		synctest.Wait()
		ask(t, transport, "other")
		ahead := time.Since(testkit.Epoch.Add(-time.Hour)).Seconds()
		skews = nil
		next <- testkit.Exchange(0, &ahead, 403, map[string]string{"X-Amzn-ErrorType": "RequestTimeTooSkewed"})
		next <- answer(429, "")
		next <- answer(200, "")
		synctest.Wait()
		require.InDelta(t, time.Hour, skews[0], float64(2*time.Second))
		for key := range transport.Keys() {
			require.Equal(t, "slow", key.Key)
			require.True(t, key.Limiter.Enabled)
		}
	})
}

// Hosts that failed once and never came back make room an hour later: churn of
// names does not stop the retries of new hosts for good.
func TestFailedHostsAreForgottenInAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newCountingBase()
		transport := &retrip.Transport{Base: base, MaxKeys: 8}
		for i := range 8 {
			ask(t, transport, fmt.Sprint("dead.pod", i))
		}
		require.Equal(t, 100, retriesOf(t, transport, base, "dead.flood", 60), "what is shared")
		time.Sleep(58 * time.Minute)
		require.Zero(t, retriesOf(t, transport, base, "dead.new", 10), "no room yet")
		time.Sleep(2 * time.Minute)
		for i := range 8 {
			require.Equal(t, 20, retriesOf(t, transport, base, fmt.Sprint("dead.new", i), 10))
		}
	})
}

// A host that comes back within the hour finds its quota as it was, whatever came
// between.
func TestHostThatComesBackFindsItsQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newCountingBase()
		transport := &retrip.Transport{Base: base, MaxKeys: 16}
		require.Equal(t, 100, retriesOf(t, transport, base, "dead", 60))
		for i := range 110 { // minutes
			time.Sleep(time.Minute)
			for j := range 100 {
				ask(t, transport, fmt.Sprintf("well%d-%d", i, j), fmt.Sprintf("dead%d-%d", i, j))
			}
			if i%50 == 49 {
				require.Zero(t, retriesOf(t, transport, base, "dead", 1))
			}
		}
	})
}

// The hour begins with the last failure, however long the request takes.
func TestHostIsRememberedFromItsLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		transport := &retrip.Transport{
			MaxKeys: 1,
			PerKey: func(key string) *retrip.Strategy {
				if key == "dead" {
					made++
				}
				s := retrip.Standard()
				s.MaxRetryAfter = 24 * time.Hour
				return s
			},
			Base: step(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "dead" {
					return answer(503, "", "Retry-After: 3000")(req)
				}
				return answer(200, "")(req)
			}),
		}
		ask(t, transport, "dead") // for 100 minutes
		time.Sleep(59 * time.Minute)
		ask(t, transport, "other", "dead")
		require.Equal(t, 1, made)
	})
}

// The host of a request that has failed is not forgotten until it ends: its retry
// finds the quota from which it was taken.
func TestHostOfAFailedRequestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newCountingBase()
		transport := &retrip.Transport{MaxKeys: 1, Base: base, PerKey: func(string) *retrip.Strategy {
			s := retrip.Standard()
			s.Quota = retrip.NewBucket(0) // full
			s.Cost, s.Backoff = 0, retrip.Constant{Wait: time.Minute}
			return s
		}}
		var wg sync.WaitGroup
		wg.Go(func() { ask(t, transport, "dead") })
		synctest.Wait() // it waits for its retry
		ask(t, transport, "well")
		var keys []string
		for key := range transport.Keys() {
			keys = append(keys, key.Key)
		}
		wg.Wait()
		require.Equal(t, []string{"dead", ""}, keys)
	})
}

// A host that comes into use when the table is full soon has a place.
func TestHostInUseBeyondMaxKeysGetsAnEntry(t *testing.T) {
	transport := &retrip.Transport{MaxKeys: 16, Base: newCountingBase()}
	for i := range 1000 {
		ask(t, transport, fmt.Sprint("once", i))
	}
	for range 5000 { // one in 64 looks for a place
		ask(t, transport, "in-use")
	}
	var keys []string
	for key := range transport.Keys() {
		keys = append(keys, key.Key)
	}
	require.Contains(t, keys, "in-use")
}

// A crawl of sick hosts takes no retries from hosts in use.
func TestSickCrawlLeavesHostsInUseTheirRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newCountingBase()
		transport := &retrip.Transport{Base: base, MaxKeys: 64}
		inUse := []string{"a", "b", "c", "d"}
		ask(t, transport, inUse...)
		for i := range 10_000 { // for some fifty minutes
			if i%5000 == 0 {
				ask(t, transport, inUse...)
			}
			ask(t, transport, fmt.Sprint("dead", i))
		}
		require.Zero(t, retriesOf(t, transport, base, "dead", 1), "the crawl has used up what it shares")
		base.allDead = true
		for _, host := range inUse {
			require.Equal(t, 100, retriesOf(t, transport, base, host, 60))
		}
	})
}

// Hosts in use keep their places also if no new host came for an hour before the
// crawl.
func TestSickCrawlAfterAQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newCountingBase()
		transport := &retrip.Transport{Base: base, MaxKeys: 4}
		inUse := []string{"a", "b", "c", "d"}
		for range 90 {
			for range 100 {
				ask(t, transport, inUse...)
			}
			time.Sleep(time.Minute)
		}
		for i := range 100 {
			ask(t, transport, fmt.Sprint("dead", i))
		}
		base.allDead = true
		for _, host := range inUse {
			require.Equal(t, 100, retriesOf(t, transport, base, host, 60))
		}
	})
}

// However a client waits and whatever names it invents, a dead server gets no
// more than MaxKeys+1 full quotas of retries in an hour, and under one name no
// more than one.
func TestRetriesPerHourAreBounded(t *testing.T) {
	const maxKeys, quota = 8, 100
	for _, pause := range []time.Duration{0, time.Minute, 59 * time.Minute, time.Hour, 90 * time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := newCountingBase()
				transport := &retrip.Transport{Base: base, MaxKeys: maxKeys}
				one, all := new(window), new(window)
				for round := range 10 {
					time.Sleep(pause)
					retries := retriesOf(t, transport, base, "dead", 60)
					one.add(retries)
					all.add(retries)
					for i := range 3 * maxKeys {
						all.add(retriesOf(t, transport, base, fmt.Sprintf("dead%d-%d", round, i), 60))
					}
				}
				require.Equal(t, quota, one.most)
				require.LessOrEqual(t, all.most, (maxKeys+1)*quota)
			})
		})
	}
}

// A window adds up what came within an hour.
type window struct {
	at        []time.Time
	n         []int
	sum, most int
}

func (w *window) add(n int) {
	w.at, w.n, w.sum = append(w.at, time.Now()), append(w.n, n), w.sum+n
	for time.Since(w.at[0]) >= time.Hour {
		w.sum -= w.n[0]
		w.at, w.n = w.at[1:], w.n[1:]
	}
	w.most = max(w.most, w.sum)
}

// Beyond MaxKeys, a request that succeeds costs no memory, whether the hosts that
// are kept are sick or healthy.
func TestRequestsBeyondMaxKeysAllocateNothing(t *testing.T) {
	const maxKeys = 1024
	good, bad := &http.Response{StatusCode: 200, Body: http.NoBody}, &http.Response{StatusCode: 503, Body: http.NoBody}
	for name, kept := range map[string]*http.Response{"sick": bad, "healthy": good} {
		t.Run(name, func(t *testing.T) {
			resp := kept
			base := step(func(*http.Request) (*http.Response, error) { return resp, nil })
			transport := &retrip.Transport{Base: base, MaxKeys: maxKeys}
			ctx := retrip.WithMaxAttempts(t.Context(), 1)
			req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
			require.NoError(t, err)
			hosts := make([]string, 20*maxKeys)
			for i := range hosts {
				hosts[i] = fmt.Sprintf("host%d.example.com", i)
			}
			next := 0
			once := func() {
				req.URL.Host = hosts[next]
				next = (next + 1) % len(hosts)
				if _, err := transport.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
			}
			for range maxKeys {
				once()
			}
			resp = good
			require.Zero(t, testing.AllocsPerRun(10*maxKeys, once))
		})
	}
}

// What is kept for a host of the zero Transport is less than 700 bytes, and no
// more than MaxKeys hosts are kept.
func TestBytesPerHost(t *testing.T) {
	const hosts, maxKeys = 40_000, 20_000
	transport := &retrip.Transport{Base: testkit.Same(&http.Response{StatusCode: 503, Body: http.NoBody}), MaxKeys: maxKeys}
	ctx := retrip.WithMaxAttempts(t.Context(), 1)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
	require.NoError(t, err)
	var kept [2]int64
	before := testkit.HeapInUse()
	for half := range kept {
		for i := range hosts / 2 {
			req.URL.Host = fmt.Sprintf("host%d-%d.example.com", half, i)
			_, err := transport.RoundTrip(req)
			require.NoError(t, err)
		}
		kept[half] = testkit.HeapInUse() - before
	}
	t.Log(kept[0]/maxKeys, "bytes per host")
	require.Less(t, kept[0]/maxKeys, int64(350), "as the documentation of MaxKeys says")
	require.Less(t, kept[1], kept[0]+kept[0]/20)
}

// Many goroutines that come and go with names of all kinds lose no entry and
// leave none pinned, also if a base panics.
func TestChurnOfHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxKeys = 32
		var n atomic.Int64
		var well atomic.Bool
		newStrategy := func(string) *retrip.Strategy { return retrip.Standard() }
		transport := &retrip.Transport{MaxKeys: maxKeys, PerKey: newStrategy, Base: step(func(req *http.Request) (*http.Response, error) {
			switch i := n.Add(1); {
			case well.Load():
			case i%101 == 0:
				panic("base")
			case i%3 == 0:
				return answer(503, "")(req)
			}
			return answer(200, "")(req)
		})}
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Go(func() {
				for i := range 300 {
					func() {
						defer func() { _ = recover() }()
						ask(t, transport, fmt.Sprint("host", (worker*i)%97))
					}()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Hour)
		well.Store(true)
		for i := range maxKeys {
			last := fmt.Sprint("last", i)
			ask(t, transport, last, last, last, last) // room is not always found at once
		}
		kept := map[string]bool{}
		for key := range transport.Keys() {
			require.False(t, kept[key.Key], "it has two entries")
			kept[key.Key] = true
		}
		delete(kept, "") // what is shared
		require.Len(t, kept, maxKeys)
		for i := range maxKeys {
			require.True(t, kept[fmt.Sprint("last", i)], "a pinned entry is in its place")
		}
	})
}
