package retrip

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

// entryOf is the state of a request's key, which it uses.
func entryOf(t *Transport, req *http.Request) *entry {
	t.setUp()
	e, _ := t.entryOf(req)
	return e
}

func send(t *testing.T, rt http.RoundTripper, target string) {
	t.Helper()
	req, err := http.NewRequestWithContext(WithMaxAttempts(t.Context(), 2), "GET", target, nil)
	require.NoError(t, err)
	_, err = rt.RoundTrip(req)
	require.NoError(t, err)
}

func TestEachHostHasItsOwnQuota(t *testing.T) {
	made := map[string]*Strategy{}
	transport := &Transport{Base: script(status(503)), PerKey: func(key string) *Strategy {
		s := noWait()
		s.Quota = NewBucket(20)
		made[key] = s
		return s
	}}
	for range 3 {
		send(t, transport, "http://a.example")
	}
	send(t, transport, "http://B.example:80")
	send(t, transport, "http://b.example")
	require.Len(t, made, 2)
	require.Equal(t, 5, made["a.example"].tokens())
	require.Equal(t, 10, made["b.example"].tokens())
}

func TestOwnKeyDecidesWhatIsShared(t *testing.T) {
	made := 0
	transport := &Transport{
		Base:   script(status(503)),
		Key:    func(req *http.Request) string { return req.URL.Query().Get("table") },
		PerKey: func(string) *Strategy { made++; return noWait() },
	}
	send(t, transport, "http://a.example?table=1")
	send(t, transport, "http://b.example?table=1")
	send(t, transport, "http://b.example?table=2")
	send(t, transport, "http://b.example") // no table: the shared strategy
	require.Equal(t, 3, made)
}

// Sick hosts are never forgotten, healthy ones are when room is needed, and
// made-up names share one quota between them.
func TestKeysAreBounded(t *testing.T) {
	var mu sync.Mutex
	made := map[string][]*Strategy{}
	transport := &Transport{
		MaxKeys: 8,
		PerKey: func(key string) *Strategy {
			s := noWait(tokens(500))
			mu.Lock()
			made[key] = append(made[key], s)
			mu.Unlock()
			return s
		},
	}
	sick := true
	transport.Base = step(func(req *http.Request) (*http.Response, error) {
		if sick {
			return status(503)(req)
		}
		return status(200)(req)
	})
	for i := range 4 {
		send(t, transport, fmt.Sprintf("http://sick%d", i))
	}
	sick = false
	for i := range 100 {
		send(t, transport, fmt.Sprintf("http://well%d", i))
	}
	require.Len(t, transport.keys.all(), 8)
	sick = true
	for i := range 100 {
		send(t, transport, fmt.Sprintf("http://invented%d", i))
	}
	require.Len(t, transport.keys.all(), 8)
	for i := range 4 {
		send(t, transport, fmt.Sprintf("http://sick%d", i))
		of := made[fmt.Sprintf("sick%d", i)]
		require.Len(t, of, 1, "never forgotten")
		require.Equal(t, 490, of[0].tokens())
	}
	require.Equal(t, 500-96*5, made[""][0].tokens(), "four took the room of healthy ones, the others share")
	require.EqualValues(t, 8, transport.keys.size.Load())
}

// keptKeys reports whether a key has an entry, without using it.
func keptKeys(t *Transport, key string) bool {
	return slices.ContainsFunc(t.keys.all(), func(e *entry) bool { return e.key == key })
}

func TestKeysUnderContention(t *testing.T) {
	transport := &Transport{MaxKeys: 16, Base: testkit.Empty(200)}
	var wg sync.WaitGroup
	var n atomic.Int64
	for range 16 {
		wg.Go(func() {
			for range 200 {
				req := newRequest(t, "GET", nil)
				req.URL.Host = fmt.Sprintf("host%d", n.Add(1)%64)
				_, err := transport.RoundTrip(req)
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, transport.keys.all(), 16)
	require.EqualValues(t, 16, transport.keys.size.Load())
	for _, e := range transport.keys.all() {
		require.Same(t, e, transport.keys.get(e.key))
	}
}

// While the table grows and shrinks, a key that is in use is always found.
func TestKeysStayFoundWhileOthersComeAndGo(t *testing.T) {
	transport := &Transport{MaxKeys: 300, Base: testkit.Empty(503)}
	sick := newRequest(t, "GET", nil)
	sick.URL.Host = "sick"
	once := WithMaxAttempts(t.Context(), 1)
	transport.setUp()
	entryOf(transport, sick).policy.Quota.(*Bucket).take(5) // which is never dropped
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 500 {
				req := sick.Clone(once)
				req.URL.Host = fmt.Sprintf("host%d-%d", worker, i)
				_, err := transport.RoundTrip(req)
				assert.NoError(t, err)
				assert.Equal(t, 495, entryOf(transport, sick).policy.tokens())
			}
		})
	}
	wg.Wait()
	require.Len(t, transport.keys.all(), 300)
	require.EqualValues(t, 300, transport.keys.size.Load())
}

func TestIdleHostTakesLittleMemory(t *testing.T) {
	const hosts = 10_000
	transport := &Transport{MaxKeys: hosts, Base: testkit.Empty(200), PerKey: func(string) *Strategy { return Adaptive() }}
	growth := testkit.HeapGrowth(func() {
		for i := range hosts {
			send(t, transport, fmt.Sprintf("http://host%d.example", i))
		}
	})
	require.Len(t, transport.keys.all(), hosts)
	require.Less(t, growth/hosts, int64(1024))
}

// A clock that is off by what Date can't tell is no reason to keep a host.
func TestMeasuredSkewAndRoom(t *testing.T) {
	var seen []time.Duration
	transport := &Transport{
		MaxKeys: 4,
		Base: step(func(req *http.Request) (*http.Response, error) {
			ahead := 300 * time.Millisecond
			if strings.HasPrefix(req.URL.Host, "wrong") {
				ahead = 20 * time.Hour
			}
			resp, err := status(200, "Date: "+time.Now().Add(ahead).UTC().Format(http.TimeFormat))(req)
			resp.TLS = tlsState
			return resp, err
		}),
		Prepare: func(_ *http.Request, p PrepareInfo) error { seen = append(seen, p.Skew); return nil },
	}
	for i := range 3 {
		send(t, transport, fmt.Sprintf("https://wrong%d", i))
	}
	for i := range 10 {
		send(t, transport, fmt.Sprintf("https://right%d", i))
		require.True(t, keptKeys(transport, fmt.Sprintf("right%d", i)), "the last one made room")
	}
	for i := range 3 {
		require.True(t, keptKeys(transport, fmt.Sprintf("wrong%d", i)), "what was learnt of its clock is keptKeys")
	}
	send(t, transport, "https://wrong3")
	send(t, transport, "https://wrong4") // no room: it shares what has no clock
	send(t, transport, "https://right99")
	require.Less(t, seen[len(seen)-1], time.Minute, "one host's clock is not another's")
}

func TestPerKeyIsNotAskedInVain(t *testing.T) {
	asked := map[string]int{}
	transport := &Transport{MaxKeys: 2, Base: script(status(503)), PerKey: func(key string) *Strategy {
		asked[key]++
		return noWait(tokens(500))
	}}
	for range 3 {
		for i := range 5 {
			send(t, transport, fmt.Sprintf("http://sick%d", i))
		}
	}
	require.Equal(t, map[string]int{"sick0": 1, "sick1": 1, "": 1}, asked)
}

// A quota that can't say whether it is full may be spent, so it is kept.
func TestQuotaThatDoesNotTellIsKept(t *testing.T) {
	made := map[string]int{}
	transport := &Transport{Base: script(status(200)), MaxKeys: 2, PerKey: func(key string) *Strategy {
		made[key]++
		s := Standard()
		s.Quota = struct{ Quota }{NewBucket(500)}
		return s
	}}
	for i := range 10 {
		send(t, transport, "http://first")
		send(t, transport, fmt.Sprintf("http://other%d", i))
	}
	require.Equal(t, map[string]int{"first": 1, "other0": 1, "": 1}, made)
}

// MaxKeys holds also if new keys come at once.
func TestNewKeysAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		made := map[string]int{}
		transport := &Transport{Base: script(status(200)), MaxKeys: 1, PerKey: func(key string) *Strategy {
			time.Sleep(time.Second) // so that both find room
			mu.Lock()
			defer mu.Unlock()
			made[key]++
			return Standard()
		}}
		var wg sync.WaitGroup
		for _, host := range []string{"a", "b"} {
			wg.Go(func() { send(t, transport, "http://"+host) })
		}
		wg.Wait()
		require.Equal(t, map[string]int{"a": 1, "b": 1}, made)
		require.Len(t, transport.keys.all(), 1)
	})
}

// With one Strategy for all, a key is nothing but a clock, and makes room for
// another whatever the quota has left.
func TestKeysOfOneStrategyMakeRoom(t *testing.T) {
	s := noWait(tokens(500))
	require.True(t, s.Quota.Take(t.Context(), Failure{Cost: 100}))
	var keys []string
	transport := &Transport{
		Base: script(status(200)), Strategy: s, MaxKeys: 2,
		Prepare: func(*http.Request, PrepareInfo) error { return nil },
		Observe: func(e Event) { keys = append(keys, e.Key) },
	}
	want := []string{"host0", "host1", "host2", "host3", "host4"}
	for _, host := range want {
		send(t, transport, "http://"+host)
	}
	require.Equal(t, want, keys)
}

// PerKey may use the Transport, and may fail, without harm to later requests.
func TestPerKeyOutsideLocks(t *testing.T) {
	var transport *Transport
	transport = &Transport{Base: script(status(200)), PerKey: func(key string) *Strategy {
		_ = transport.Unwrap()
		if key == "bad" {
			panic("no such host")
		}
		return Standard()
	}}
	require.Panics(t, func() { send(t, transport, "http://bad") })
	send(t, transport, "http://good")
}

// A key that is in the table, or just being put there, has one entry, however
// full or growing the table is.
func TestKeysHaveOneEntry(t *testing.T) {
	for range 300 {
		transport := &Transport{MaxKeys: 9, Base: script(status(200))}
		transport.setUp()
		var own [8]*entry
		for i := range own {
			own[i] = entryOf(transport, hostRequest(t, fmt.Sprint("host", i)))
			own[i].policy.Quota.(*Bucket).take(10) // never dropped
		}
		var wg sync.WaitGroup
		for i := range own {
			wg.Go(func() {
				for range 20 {
					assert.Same(t, own[i], transport.keys.find(fmt.Sprint("host", i), false, transport.newEntry))
				}
			})
		}
		var last [2]*entry // the table grows and is full
		for i := range last {
			wg.Go(func() { last[i] = transport.keys.find("new", true, transport.newEntry) })
		}
		wg.Wait()
		require.Same(t, last[0], last[1])
	}
}

// A key that another request made between the look without a lock and the one
// under the lock is found there, and no other key is dropped for it.
func TestKeyMadeInTheMeantimeIsFound(t *testing.T) {
	transport := &Transport{MaxKeys: 1, Base: script(status(200))}
	transport.setUp()
	made := transport.keys.find("host", false, transport.newEntry)
	found, room := transport.keys.place("host", nil)
	require.Same(t, made, found)
	require.False(t, room)
	require.Same(t, made, transport.keys.get("host"))
}

// Forty thousand invented hosts at the default bound: the sick host keeps its
// empty quota, the flood has what the table has room for and one quota more,
// and what is kept of it all stays small.
func TestFloodOfHostsAtTheDefaultBound(t *testing.T) {
	const hosts = 40_000
	attempts := 0
	transport := &Transport{
		Base: step(func(*http.Request) (*http.Response, error) {
			attempts++
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		}),
		PerKey: func(string) *Strategy {
			return noWait(tokens(10))
		},
	}
	for range 3 {
		send(t, transport, "http://sick.example")
	}
	require.Equal(t, 3+2, attempts)
	sick := entryOf(transport, hostRequest(t, "sick.example"))
	growth := testkit.HeapGrowth(func() {
		for i := range hosts { // one by one: a host may be dropped while its first request is on its way
			send(t, transport, fmt.Sprintf("http://invented%d.example", i))
		}
	})
	require.Len(t, transport.keys.all(), defaultMaxKeys)
	require.EqualValues(t, defaultMaxKeys, transport.keys.size.Load())
	require.Equal(t, 5+hosts+(defaultMaxKeys-1)+2, attempts, "a retry for each that had room, two for all others")
	require.Less(t, growth, int64(defaultMaxKeys<<10))
	require.Same(t, sick, entryOf(transport, hostRequest(t, "sick.example")))
	send(t, transport, "http://sick.example")
	require.Equal(t, 5+hosts+(defaultMaxKeys-1)+2+1, attempts, "still no quota")
}

// A host that has throttled is remembered for its limiter, though its quota is
// full, until that was long ago.
func TestThrottledHostIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttling := true
		transport := &Transport{MaxKeys: 2, PerKey: func(string) *Strategy { return Adaptive() }}
		transport.Base = step(func(req *http.Request) (*http.Response, error) {
			if throttling {
				return status(429)(req)
			}
			return status(200)(req)
		})
		ask := func(host string) {
			req := hostRequest(t, host)
			_, err := transport.RoundTrip(req.WithContext(WithMaxAttempts(req.Context(), 1)))
			require.NoError(t, err)
		}
		ask("throttling")
		throttling = false
		e := transport.keys.all()[0]
		require.Equal(t, 500, e.policy.tokens(), "the quota is as new")
		require.True(t, e.policy.sharedLimiter.State().Enabled)
		for i := range 20 {
			ask(fmt.Sprint("well", i))
		}
		require.Len(t, transport.keys.all(), 2)
		require.Contains(t, transport.keys.all(), e, "or a flood would buy it a new limiter")
		time.Sleep(throttleMemory) // in the bubble's time
		for i := range 20 {
			ask(fmt.Sprint("well", i))
		}
		require.NotContains(t, transport.keys.all(), e, "or a few such hosts would take all the room for ever")
	})
}

// A host whose limiter has a queue is remembered, however long ago the throttle
// was: the requests in the queue would compete with a new limiter's.
func TestHostWithAQueueIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[string]int{}
		throttling := true
		transport := &Transport{
			MaxKeys: 2,
			PerKey: func(key string) *Strategy {
				made[key]++
				s := Adaptive()
				s.MaxAttempts = 1
				return s
			},
			Base: step(func(req *http.Request) (*http.Response, error) {
				if throttling {
					return status(429)(req)
				}
				if req.URL.Host == "slow" {
					time.Sleep(time.Hour)
				}
				return status(200)(req)
			}),
		}
		ask := func(host string) {
			_, err := transport.RoundTrip(hostRequest(t, host))
			assert.NoError(t, err)
		}
		ask("slow")
		throttling = false
		var wg sync.WaitGroup
		for range 300 { // at one in two seconds
			wg.Go(func() { ask("slow") })
		}
		time.Sleep(throttleMemory + time.Second)
		for i := range 20 {
			ask(fmt.Sprint("well", i))
		}
		ask("slow")
		wg.Wait()
		require.Equal(t, 1, made["slow"])
	})
}

// A host in use is dropped for others that come once much less often than these.
func TestBusyHostIsKept(t *testing.T) {
	const rounds = 400
	made := map[string]int{}
	transport := &Transport{Base: script(status(200)), MaxKeys: 8, PerKey: func(key string) *Strategy {
		made[key]++
		return Standard()
	}}
	for i := range rounds {
		send(t, transport, "http://busy")
		send(t, transport, fmt.Sprintf("http://once%d", i))
	}
	require.Less(t, made["busy"], rounds/16, "the others are kept for eight rounds")
	require.Len(t, made, rounds+1)
}

// A key may be a piece of a long text, which is not kept.
func TestKeyDoesNotKeepWhatItWasCutFrom(t *testing.T) {
	const keys, long = 64, 1 << 20
	n := 0
	transport := &Transport{Base: script(status(200)), Key: func(*http.Request) string {
		n++
		return strings.Repeat(fmt.Sprintf("%08d", n), long/8)[:8]
	}}
	growth := testkit.HeapGrowth(func() {
		for range keys {
			send(t, transport, "http://example.com")
		}
	})
	require.Less(t, growth, int64(keys*long/2))
	runtime.KeepAlive(transport)
}

// What is kept is bounded in bytes as well: a host may be as long as whoever
// invented it likes.
func TestLongKeysAreShared(t *testing.T) {
	transport := &Transport{Base: script(status(200))}
	longest := strings.Repeat("x", longestKey)
	send(t, transport, "http://"+longest)
	require.Len(t, transport.keys.all(), 1)
	for i := range 10 {
		send(t, transport, fmt.Sprintf("http://%s%d", longest, i))
	}
	require.Len(t, transport.keys.all(), 1)
	require.Empty(t, entryOf(transport, hostRequest(t, longest+"0")).key)
}
