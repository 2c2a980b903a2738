package retrip

import (
	"container/heap"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Published simulations of retries, run again with this package's parts in the
// place of the originals'. The tables in testdata/sim hold what the originals
// printed, as the mean of a few seeds. All chance here comes from fixed seeds,
// so a verdict stays what it is.

// A published row of a table, by column.
type published map[string]string

// publishedRows returns the rows with one of the wanted values in a column. It
// fails if one is in no row.
func publishedRows[V any](t *testing.T, name, column string, wanted map[string]V) (rows []published) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "sim", name))
	require.NoError(t, err)
	defer file.Close()
	reader := csv.NewReader(file)
	reader.TrimLeadingSpace = true
	lines, err := reader.ReadAll()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, line := range lines[1:] {
		row := published{}
		for i, column := range lines[0] {
			row[column] = line[i]
		}
		if _, ok := wanted[row[column]]; ok {
			rows = append(rows, row)
			found[row[column]] = true
		}
	}
	require.Len(t, found, len(wanted), "of %v in %v", wanted, name)
	return rows
}

func (row published) number(t *testing.T, column string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(row[column], 64)
	require.NoError(t, err, "%v in %v", column, row)
	return n
}

// requireNear checks that got is off by no more than the given part.
func (row published) requireNear(t *testing.T, column string, got, part float64) {
	t.Helper()
	want := row.number(t, column)
	require.InDelta(t, want, got, part*want, "%v of %v", column, row)
}

// ---- Backoffs: many clients, one row of a database

// The simulator of "Exponential Backoff And Jitter" (AWS Architecture Blog,
// github.com/aws-samples/aws-arch-backoff-simulator): clients who all start at
// once read a row's version and write the row if it still has that version;
// who is too late backs off and reads again. Counted are the writes tried and
// the time until everyone has written once.
func TestSimulatedContention(t *testing.T) {
	const base, cap = 5 * time.Millisecond, 2000 * time.Millisecond
	backoffs := map[string]Backoff{
		"None":        Constant{},
		"Exponential": Exponential{base, cap},
		"EqualJitter": EqualJitter{base, cap},
		"FullJitter":  FullJitter{base, cap},
		"Decorr":      DecorrelatedJitter{base, cap},
	}
	const trials = 5 * 100 // as many as the table's: 5 seeds of 100
	sizes := map[string]int{"50": 50, "100": 100, "190": 190}
	if raceEnabled {
		sizes = map[string]int{"50": 50} // one goroutine: nothing to find, ten times as slow
	}
	for i, row := range publishedRows(t, "backoff_5seeds.csv", "clients", sizes) {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		var writes int
		var end time.Duration
		for range trials {
			w, e := contend(sizes[row["clients"]], backoffs[row["Algorithm"]], rng)
			writes, end = writes+w, end+e
		}
		// From seed to seed the table's calls range over 1.3 %, its times over 7 %.
		row.requireNear(t, "calls_mean", float64(writes)/trials, 0.02)
		row.requireNear(t, "time_mean", float64(end/time.Millisecond)/trials, 0.05)
	}
}

func contend(clients int, backoff Backoff, rng *rand.Rand) (writes int, end time.Duration) {
	hop := func() time.Duration { // client to server or back
		return time.Duration(math.Abs(10+2*rng.NormFloat64()) * float64(time.Millisecond))
	}
	queue := make(contenders, clients)
	for i := range queue {
		queue[i] = &contender{arrives: hop()}
	}
	heap.Init(&queue)
	for version := 0; len(queue) > 0; {
		c := queue[0]
		switch {
		case !c.hasRead:
			c.hasRead, c.version = true, version
			c.arrives += hop() + hop()
		case c.version == version:
			writes++
			version++
			end = max(end, c.arrives+hop())
			heap.Pop(&queue)
			continue
		default:
			writes++
			c.hasRead = false
			c.retry.Index++ // before the first wait: the article's first exponent is 1
			c.retry.Rand = rng.Float64()
			c.retry.Prev, _ = backoff.Delay(c.retry)
			c.arrives += hop() + c.retry.Prev + hop()
		}
		heap.Fix(&queue, 0)
	}
	return writes, end
}

// A contender has one message under way, to read or, having read, to write.
type contender struct {
	arrives time.Duration // at the server
	hasRead bool
	version int
	retry   Retry
}

// contenders is a heap, the next to arrive first.
type contenders []*contender

func (q contenders) Len() int           { return len(q) }
func (q contenders) Less(i, j int) bool { return q[i].arrives < q[j].arrives }
func (q contenders) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *contenders) Push(c any)        { *q = append(*q, c.(*contender)) }
func (q *contenders) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// ---- Quotas: a server that fails whatever the load

// A coinServer fails each attempt with probability p.
type coinServer struct {
	p                             float64
	rng                           *rand.Rand
	requests, attempts, successes float64
}

func (s *coinServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.attempts++
	if s.rng.Float64() < s.p {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
	}
	s.successes++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// request sends one through client, whose base s is.
func (s *coinServer) request(t *testing.T, client *Transport, req *http.Request) {
	s.requests++
	if _, err := client.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
}

// The token bucket of Marc Brooker's "Fixing retries with token buckets and
// circuit breakers" (brooker.co.za/blog/2022/02/28/retries.html): 10, 100 or
// 1000 clients share 10 000 calls, and each has a bucket of 5 tokens that a
// call fills by 0.1 and a retry empties by 1.
//
// A Bucket counts whole tokens, so all is tenfold. A retry there wants *more*
// than one token in the bucket, so the last is never spent: a bucket of 50 that
// keeps one back is one of 49. Neither the bucket nor the failures know the time,
// so here it only tells how many calls a client makes.
func TestSimulatedBucket(t *testing.T) {
	clients := map[string]int{
		"adaptive_10pct":             100,
		"adaptive_10pct_10clients":   10,
		"adaptive_10pct_100clients":  100,
		"adaptive_10pct_1000clients": 1000,
	}
	req := newRequest(t, "GET", nil)
	for i, row := range publishedRows(t, "brooker_retry.csv", "name", clients) {
		if raceEnabled && i%5 != 0 { // one goroutine: nothing to find, ten times as slow
			continue
		}
		n := clients[row["name"]]
		server := &coinServer{p: row.number(t, "failure_rate"), rng: rand.New(rand.NewPCG(1, uint64(i)))}
		for range 5 * n { // each client five times, against chance
			s := Standard()
			bucket := NewBucket(49)
			s.Quota, s.Cost, s.MaxAttempts, s.Backoff = filledByCalls{bucket}, 10, math.MaxInt, Constant{}
			client := &Transport{Base: server, Strategy: s}
			for at := 0.0; at <= 10_000/float64(n); at += server.rng.ExpFloat64() {
				bucket.give(1)
				server.request(t, client, req)
			}
		}
		// The table's successes have a standard deviation of up to 1 % (at 75 %
		// failures), its amplification one of 0.3 %.
		row.requireNear(t, "amplification_mean", server.attempts/server.requests, 0.01)
		row.requireNear(t, "success_mean", server.successes/server.requests, 0.02)
	}
}

// filledByCalls is a Bucket that takes no tokens back for successes.
type filledByCalls struct{ *Bucket }

func (filledByCalls) Answered(Class, int) {}

// What the AWS SDKs' refill rules come to once the bucket has drained, if it
// does. The SDKs publish no numbers: the table is from a model of one client
// and three attempts that has nothing in common with this package.
//
// Our rule is botocore's and that of the SDKs since 2026: a first attempt that
// succeeds gives 1, a retry that succeeds gives back what it took. The table's
// other columns have other rules and, where they run dry, other numbers: in the
// SDK for Go before 2026 every success gave 1 more (1.428 attempts a request at 40 %
// failures, not 1.300); gRPC and those who take a deposit for each request
// count in tenths.
func TestSimulatedQuota(t *testing.T) {
	strategies := map[string]func() *Strategy{
		"no_retry":                               func() *Strategy { s := Standard(); s.MaxAttempts = 1; return s },
		"3_attempts_unbudgeted":                  func() *Strategy { s := Standard(); s.Quota = nil; return s },
		"aws_std_cost5_inc_first_only(botocore)": Standard,
		"aws_2026_cost14":                        cost14,
	}
	req := newRequest(t, "GET", nil)
	for i, row := range publishedRows(t, "budget_targets.csv", "policy", strategies) {
		if raceEnabled && i%5 != 0 { // one goroutine: nothing to find, ten times as slow
			continue
		}
		s := strategies[row["policy"]]()
		s.Backoff = Constant{}
		server := &coinServer{p: row.number(t, "failure_rate"), rng: rand.New(rand.NewPCG(1, uint64(i)))}
		client := &Transport{Base: server, Strategy: s}
		for range 5000 { // ample for a full bucket to drain
			server.request(t, client, req)
		}
		server.requests, server.attempts, server.successes = 0, 0, 0
		for range 100_000 {
			server.request(t, client, req)
		}
		// Our successes at 75 % failures have a standard deviation of 0.5 %, all else
		// of 0.3 % or less.
		row.requireNear(t, "amplification", server.attempts/server.requests, 0.01)
		row.requireNear(t, "success_rate", server.successes/server.requests, 0.02)
	}
}

// Where everything fails, a full bucket pays for exactly so many retries.
func TestSimulatedOutage(t *testing.T) {
	slow := Standard()
	slow.TimeoutCost = 10 // as in the SDKs before 2026
	tests := []struct {
		strategy *Strategy
		err      error
		retries  int
	}{
		{cost14(), errReset, 35},
		{Standard(), errReset, 100},
		{slow, os.ErrDeadlineExceeded, 50},
	}
	for _, tt := range tests {
		tt.strategy.Backoff = Constant{}
		base := script(fails(tt.err))
		client := &Transport{Base: base, Strategy: tt.strategy}
		const requests = 200
		for range requests {
			_, err := get(t.Context(), client)
			require.Error(t, err)
		}
		require.Equal(t, requests+tt.retries, len(base.Sent()))
	}
}

// With three attempts, a request loses the cost of its first retry with
// probability p², that of its second with p³, and earns a token with 1−p. So
// the bucket begins to drain at the root of cost·p²(1+p) = 1−p.
func TestSimulatedDrain(t *testing.T) {
	req := newRequest(t, "GET", nil)
	for _, tt := range []struct {
		strategy func() *Strategy
		root     float64
	}{{cost14, 0.215}, {Standard, 0.321}} {
		for _, off := range []float64{-0.03, +0.03} {
			s := tt.strategy()
			s.Backoff = Constant{}
			server := &coinServer{p: tt.root + off, rng: rand.New(rand.NewPCG(1, 1))}
			client := &Transport{Base: server, Strategy: s}
			for server.requests < 20_000 && s.tokens() >= s.Cost {
				server.request(t, client, req)
			}
			require.Equal(t, off > 0, s.tokens() < s.Cost, "cost %d, %v failures: %v", s.Cost, server.p, s.Quota)
		}
	}
}
