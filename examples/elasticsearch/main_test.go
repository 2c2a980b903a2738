package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/stretchr/testify/require"
)

const want = `
Index with an id, a PUT: the proxy finds no node
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        201 Created              success    done
  at the server: PUT 17 bytes 23298e67, PUT 17 bytes 23298e67, PUT 17 bytes 23298e67
  returned: 201 Created

Index from a stream: the connection breaks after everything is sent
  attempt  outcome      class      what next
  1        EOF          transient  again in <wait> (backoff)
  2        201 Created  success    done
  at the server: PUT 15 bytes f3a1d329, PUT 15 bytes f3a1d329
  returned: 201 Created

Bulk, a POST: the cluster rejects it unprocessed
  attempt  outcome                class      what next
  1        429 Too Many Requests  throttled  again in <wait> (backoff)
  2        429 Too Many Requests  throttled  again in <wait> (backoff)
  3        200 OK                 success    done
  at the server: POST 120 bytes ef495e97, POST 120 bytes ef495e97, POST 120 bytes ef495e97
  returned: 200 OK

Bulk: the proxy fails, perhaps after the cluster processed it
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  stop: not idempotent
  at the server: POST 120 bytes ef495e97
  returned: 503 Service Unavailable

Bulk, declared idempotent because each action has an id
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        200 OK                   success    done
  at the server: POST 120 bytes ef495e97, POST 120 bytes ef495e97
  returned: 200 OK

Search, a POST declared idempotent: first rejected, then lost by the proxy
  attempt  outcome                  class      what next
  1        429 Too Many Requests    throttled  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        200 OK                   success    done
  at the server: POST 26 bytes baa6846b, POST 26 bytes baa6846b, POST 26 bytes baa6846b
  returned: 200 OK

Get: a reused connection breaks, and net/http itself resends the GET
  attempt  outcome  class    what next
  1        200 OK   success  done
  at the server: GET, GET
  returned: 200 OK

7 calls made 7 requests in 15 attempts; the server saw 16, 1 of them repeated by net/http.
`

// backoffs are the only times printed that chance has a part in.
var backoffs = regexp.MustCompile(`again in \S+ \(backoff\)`)

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), backoffs.ReplaceAllString(out.String(), "again in <wait> (backoff)"))
}

// A rig is a client of a cluster of its own, with all calls of the base counted.
type rig struct {
	*cluster
	t         *testing.T
	base      *faultlayer.Counter
	transport *retrip.Transport
	client    *elasticsearch.Client
}

func newRig(t *testing.T) *rig {
	r := &rig{cluster: newCluster(), t: t, base: &faultlayer.Counter{Transport: new(http.Transport)}, transport: newTransport()}
	t.Cleanup(r.Close)
	t.Cleanup(r.base.CloseIdleConnections)
	r.transport.Base = r.base
	var err error
	r.client, err = newClient(r.URL, r.transport)
	require.NoError(t, err)
	return r
}

// A seen is what both sides saw of a call.
type seen struct {
	answer
	trips [][]retrip.Event
	hits  []faultlayer.Hit
}

// last is the event with which the call's last request ended.
func (s seen) last() retrip.Event {
	events := s.trips[len(s.trips)-1]
	return events[len(events)-1]
}

// after makes a call during which the next requests fail. It checks what holds
// always: no request takes more than its attempts, and each of them is one call
// of the base.
func (r *rig) after(ctx context.Context, call call, faults ...faultlayer.Fault) seen {
	r.t.Helper()
	r.faults.Reset()
	r.faults.Fail(nil, faults...)
	before := r.base.Calls.Load()
	ctx, trace := retrip.WithTrace(ctx)
	a, err := call(ctx, r.client)
	require.NoError(r.t, err)
	attempts := 0
	for _, events := range trace.Requests() {
		last := events[len(events)-1]
		require.LessOrEqual(r.t, last.Attempt, retrip.Standard().MaxAttempts)
		attempts += last.Attempt
	}
	require.EqualValues(r.t, attempts, r.base.Calls.Load()-before)
	return seen{a, trace.Requests(), r.faults.Hits()}
}

// Every request that may be repeated gets through, with the same bytes, the
// same framing and the same headers each time.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what       string
		call       call
		sent       string
		chunked    bool
		idempotent bool // must be said
		faults     []faultlayer.Fault
	}{
		{"index", index("1", "coffee"), document("coffee"), false, false, []faultlayer.Fault{rejected, noNode}},
		{"index, hang up", index("1", "coffee"), document("coffee"), false, false, []faultlayer.Fault{faultlayer.HangUp, faultlayer.HangUp}},
		{"stream", indexStream("1", "coffee"), document("coffee") + "\n", true, false, []faultlayer.Fault{rejected, noNode}},
		{"stream, hang up", indexStream("1", "coffee"), document("coffee") + "\n", true, false, []faultlayer.Fault{faultlayer.HangUp, faultlayer.HangUp}},
		{"bulk", bulk("coffee", "tea"), actions([]string{"coffee", "tea"}), false, false, []faultlayer.Fault{rejected, rejected}},
		{"bulk, idempotent", bulk("coffee", "tea"), actions([]string{"coffee", "tea"}), false, true, []faultlayer.Fault{noNode, faultlayer.HangUp}},
		{"search", search, query, false, true, []faultlayer.Fault{rejected, noNode}},
		{"search, hang up", search, query, false, true, []faultlayer.Fault{faultlayer.HangUp, noNode}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			ctx, r := t.Context(), newRig(t)
			if test.idempotent {
				ctx = retrip.WithIdempotent(ctx)
			}
			s := r.after(ctx, test.call, test.faults...)
			require.Less(t, s.status, 300)
			require.Len(t, s.trips, 1)
			require.Len(t, s.hits, 3)
			for i, hit := range s.hits {
				require.Equal(t, i < 2, hit.Failed)
				require.Equal(t, faultlayer.Hash([]byte(test.sent)), hit.Hash)
				require.Equal(t, s.hits[0].Header, hit.Header)
				if test.chunked {
					require.NotContains(t, hit.Header, "Content-Length")
				} else {
					require.Equal(t, strconv.Itoa(len(test.sent)), hit.Header.Get("Content-Length"))
				}
			}
		})
	}
}

// What was indexed under trouble comes back as it was sent.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.after(t.Context(), index("1", "coffee"), noNode)
	r.after(t.Context(), indexStream("2", "tea"), faultlayer.HangUp)
	r.after(t.Context(), bulk("milk", "water"), rejected)
	s := r.after(retrip.WithIdempotent(t.Context()), search, rejected)
	var found struct {
		Hits struct {
			Hits []struct {
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.body), &found))
	var documents []string
	for _, hit := range found.Hits.Hits {
		documents = append(documents, string(hit.Source))
	}
	require.Equal(t, []string{document("coffee"), document("tea"), document("milk"), document("water")}, documents)
}

// A bulk that may have been done is not sent again unless it is declared safe.
func TestBulkIsNotRepeatedBySurprise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.after(t.Context(), bulk("coffee"), noNode)
	require.Equal(t, retrip.NotIdempotent, s.last().Reason)
	require.Len(t, s.hits, 1)
	require.Equal(t, answer{503, "no server is available\n"}, s.answer)
}

// A stream longer than what is kept of it is sent all the same, but only once,
// and the caller gets the cluster's answer.
func TestLongStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.transport.ReplayBuffer = 1 << 10
	long := `{"name":"` + strings.Repeat("a", 2<<10) + `"}`
	s := r.after(t.Context(), func(ctx context.Context, client *elasticsearch.Client) (answer, error) {
		body := io.MultiReader(strings.NewReader(long)) // not one that net/http knows to reopen
		return read(client.Index(name, body, client.Index.WithDocumentID("1"), client.Index.WithContext(ctx)))
	}, rejected)
	require.Equal(t, retrip.BodyNotReplayable, s.last().Reason)
	require.Equal(t, 429, s.status)
	require.Contains(t, s.body, "es_rejected_execution_exception")
	require.Len(t, s.hits, 1)
	require.Equal(t, faultlayer.Hash([]byte(long)), s.hits[0].Hash)
}

// When the attempts are spent, the client gets the cluster's last answer.
func TestLastAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.after(t.Context(), index("1", "coffee"), rejected, rejected, rejected, rejected)
	require.Equal(t, retrip.AttemptsExhausted, s.last().Reason)
	require.Len(t, s.hits, 3)
	require.Equal(t, 429, s.status)
	require.Contains(t, s.body, "es_rejected_execution_exception")
}

// net/http repeats a GET by itself if it was sent over a connection that had
// been kept and breaks without an answer: one attempt, two hits. It repeats no
// POST, also not one that we were told is safe.
func TestBelowUs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.after(t.Context(), index("1", "coffee"))
	s := r.after(t.Context(), get("1"), faultlayer.HangUp)
	require.Equal(t, 1, s.last().Attempt)
	require.Len(t, s.hits, 2)

	s = r.after(retrip.WithIdempotent(t.Context()), search, faultlayer.HangUp)
	require.Equal(t, 2, s.last().Attempt)
	require.Len(t, s.hits, 2)
}

// The client looks for Elasticsearch's header in the first answer that is a
// success. What a proxy answered before that is retrip's and does no harm; but a
// success without the header is one, which nobody repeats.
func TestProductCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, 201, r.after(t.Context(), index("1", "coffee"), noNode, noNode).status)

	r = newRig(t)
	r.faults.Fail(nil, faultlayer.Answer(200, "{}"))
	_, err := index("1", "coffee")(t.Context(), r.client)
	require.ErrorContains(t, err, "not Elasticsearch")
	require.Len(t, r.faults.Hits(), 1)
}

// What happens with the client's own retries left on: its 4 attempts times our
// 3. And a bulk that is not ours to repeat, it repeats.
func TestStackedRetries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var err error
	r.client, err = elasticsearch.New(elasticsearch.WithAddresses(r.URL),
		elasticsearch.WithTransportOptions(elastictransport.WithTransport(r.transport)))
	require.NoError(t, err)
	s := r.after(t.Context(), index("1", "coffee"), slices.Repeat([]faultlayer.Fault{noNode}, 20)...)
	require.Equal(t, 503, s.status)
	require.Len(t, s.trips, 4)
	require.Len(t, s.hits, 12)

	s = r.after(t.Context(), bulk("coffee"), noNode)
	require.Equal(t, 200, s.status)
	require.Len(t, s.trips, 2)
	require.Equal(t, retrip.NotIdempotent, s.trips[0][0].Reason)
	require.Len(t, s.hits, 2)
}

// A wait that the cluster's proxy asks for is waited, and not one beyond the cap.
func TestWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.after(t.Context(), index("1", "coffee"), faultlayer.Answer(429, "", "Retry-After", "0.02"))
	require.Equal(t, "Retry-After", s.trips[0][0].WaitFrom)
	require.Equal(t, 20*time.Millisecond, s.trips[0][0].Wait)
	require.Equal(t, 201, s.status)

	s = r.after(t.Context(), index("1", "coffee"), faultlayer.Answer(429, "", "Retry-After", "3600"))
	require.Equal(t, retrip.WaitOverCap, s.last().Reason)
	require.Equal(t, 429, s.status)
	require.Len(t, s.hits, 1)
}
