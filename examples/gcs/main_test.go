package main

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"
)

const want = `
Writer, all at once: the server is busy and says for how long
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in 20ms (Retry-After)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        200 OK                   success    done
  at the server: POST 4194614 bytes <hash>, POST 4194614 bytes <hash>, POST 4194614 bytes <hash>

Writer, all at once: the server answers before it has read the object
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        200 OK                   success    done
  at the server: POST, POST 4194614 bytes <hash>

Writer, resumable in three chunks: the connection breaks after the second is sent
  attempt  outcome  class      what next
  1        200 OK   success    done
  1        200 OK   success    done
  1        EOF      transient  again in <wait> (backoff)
  2        200 OK   success    done
  1        200 OK   success    done
  at the server: POST 36 bytes 2bbca717, POST 262144 bytes ca5aa3af, POST 262144 bytes 4742b678, POST 262144 bytes 4742b678, POST 131072 bytes bd55c792

Reader: the server is busy
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        200 OK                   success    done
  at the server: GET, GET, GET

Reader: a reused connection breaks, and net/http itself resends the GET
  attempt  outcome  class    what next
  1        200 OK   success  done
  at the server: GET, GET

Reader: the object breaks off; the client asks for the rest, and the server is busy
  attempt  outcome                  class      what next
  1        200 OK                   success    done
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        206 Partial Content      success    done
  at the server: GET, GET, GET

6 calls made 10 requests in 17 attempts; the server saw 18, 1 of them repeated by net/http.
`

// Chance has a part in these: the backoff, and the boundary in the body of an
// upload that is all in one request.
var (
	backoffs = regexp.MustCompile(`again in \S+ \(backoff\)`)
	hashes   = regexp.MustCompile(`4194614 bytes [0-9a-f]{8}`)
)

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	got := backoffs.ReplaceAllString(out.String(), "again in <wait> (backoff)")
	got = hashes.ReplaceAllString(got, "4194614 bytes <hash>")
	require.Equal(t, strings.TrimPrefix(want, "\n"), got)
}

// A rig is a client of a cloud of its own, with all calls of the base counted.
type rig struct {
	*cloud
	t         *testing.T
	base      *faultlayer.Counter
	transport *retrip.Transport
	client    *storage.Client
}

func newRig(t *testing.T) *rig {
	cloud, err := newCloud()
	require.NoError(t, err)
	r := &rig{cloud: cloud, t: t, base: &faultlayer.Counter{Transport: new(http.Transport)}, transport: newTransport()}
	t.Cleanup(r.Close)
	t.Cleanup(r.base.CloseIdleConnections)
	r.transport.Base = r.base
	r.client, err = newClient(t.Context(), r.URL, r.transport)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.client.Close()) })
	return r
}

// A seen is what both sides saw of a call.
type seen struct {
	trips [][]retrip.Event
	hits  []faultlayer.Hit
}

// last is the event with which the call's last request ended.
func (s seen) last() retrip.Event {
	events := s.trips[len(s.trips)-1]
	return events[len(events)-1]
}

// after makes a call during which the next requests that match fail. It checks
// what holds always: no request takes more than its attempts, and each of them
// is one call of the base.
func (r *rig) after(call call, match func(*http.Request) bool, faults ...faultlayer.Fault) (seen, error) {
	r.t.Helper()
	r.faults.Reset()
	r.faults.Fail(match, faults...)
	before := r.base.Calls.Load()
	ctx, trace := retrip.WithTrace(context.Background())
	err := call(ctx, r.client)
	attempts := 0
	for _, events := range trace.Requests() {
		last := events[len(events)-1]
		require.LessOrEqual(r.t, last.Attempt, retrip.Standard().MaxAttempts)
		attempts += last.Attempt
	}
	require.EqualValues(r.t, attempts, r.base.Calls.Load()-before)
	return seen{trace.Requests(), r.faults.Hits()}, err
}

// small is an object for the tests in which the size does not matter.
var small = object[:64<<10]

// An upload in one request is stored byte by byte, and each attempt is the same,
// chunked because its length is not known. With a ChunkSize above the object's
// size the client itself could reopen the body; with 0, it is a stream.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what      string
		fault     faultlayer.Fault
		content   []byte
		chunkSize int
	}{
		{"empty", busy(), nil, atOnce},
		{"stream, busy", busy(), small, atOnce},
		{"stream, hang up", faultlayer.HangUp, small, atOnce},
		{"stream, early", faultlayer.Early(503), object, atOnce},
		{"buffered, busy", busy(), small, chunk},
		{"buffered, hang up", faultlayer.HangUp, small, chunk},
		{"buffered, early", faultlayer.Early(503), object, 2 * len(object)},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s, err := r.after(write(test.content, test.chunkSize), nil, test.fault, test.fault)
			require.NoError(t, err)
			require.Len(t, s.trips, 1)
			require.Len(t, s.hits, 3) // net/http repeats no POST
			for i, hit := range s.hits {
				require.Equal(t, i < 2, hit.Failed)
				require.Equal(t, s.hits[2].Header, hit.Header)
				require.NotContains(t, hit.Header, "Content-Length")
				if !strings.HasSuffix(test.what, "early") {
					require.Equal(t, s.hits[2].Hash, hit.Hash)
				}
			}
			require.NoError(t, read(test.content)(t.Context(), r.client))
		})
	}
}

// Each request of a resumable upload is retried for itself: the one that begins
// it, and every chunk, which is the object's bytes and nothing else.
func TestResumable(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]faultlayer.Fault{"busy": busy(), "hang up": faultlayer.HangUp} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for failing := range 4 { // the request whose first two attempts fail
				match := func(req *http.Request) bool {
					from := req.Header.Get("Content-Range")
					return failing == 0 && from == "" ||
						failing > 0 && strings.HasPrefix(from, "bytes "+strconv.Itoa((failing-1)*chunk)+"-")
				}
				s, err := r.after(write(chunks, chunk), match, fault, fault)
				require.NoError(t, err)
				require.Len(t, s.trips, 4)
				require.Len(t, s.hits, 6)
				sent := []string{"", faultlayer.Hash(chunks[:chunk]), faultlayer.Hash(chunks[chunk : 2*chunk]), faultlayer.Hash(chunks[2*chunk:])}
				sent[0] = s.hits[0].Hash
				for i, hit := range s.hits {
					request := max(min(i, failing), i-2)
					require.Equal(t, sent[request], hit.Hash)
					require.Equal(t, i >= failing && i < failing+2, hit.Failed)
				}
				require.NoError(t, read(chunks)(t.Context(), r.client))
			}
		})
	}
}

// An upload that nobody declared safe is not sent again once it may have been
// stored, but is where Cloud Storage refused it.
func TestUploadIsNotRepeatedBySurprise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain := func(ctx context.Context, client *storage.Client) error {
		w := client.Bucket(bucket).Object(name).NewWriter(ctx)
		w.ChunkSize = atOnce
		_, err := w.Write(small)
		return errors.Join(err, w.Close())
	}
	s, err := r.after(plain, nil, busy())
	requireCode(t, 503, err)
	require.Equal(t, retrip.NotIdempotent, s.last().Reason)
	require.Len(t, s.hits, 1)

	s, err = r.after(plain, nil, faultlayer.Answer(429, ""))
	require.NoError(t, err)
	require.Len(t, s.hits, 2)
}

// A stream longer than what is kept of it is sent all the same, but only once,
// and the client gets the server's answer.
func TestReplayBufferTooSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.transport.ReplayBuffer = int64(len(small)) / 2
	s, err := r.after(write(small, atOnce), nil, busy())
	requireCode(t, 503, err)
	require.Equal(t, retrip.BodyNotReplayable, s.last().Reason)
	require.Len(t, s.hits, 1)
}

// When the attempts are spent, the client gets the server's last answer and
// makes its own error of it.
func TestLastAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.after(write(small, atOnce), nil, busy(), busy(), busy(), busy())
	requireCode(t, 503, err)
	require.Equal(t, retrip.AttemptsExhausted, s.last().Reason)
	require.Len(t, s.hits, 3)
}

func requireCode(t *testing.T, code int, err error) {
	t.Helper()
	var answer *googleapi.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, code, answer.Code)
	require.Contains(t, answer.Body, "Try again.")
}

// An object is read byte by byte, whether it fails before its headers, where
// retrip repeats it, or after, where the client asks for the rest.
func TestRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, write(small, atOnce)(t.Context(), r.client))
	for _, test := range []struct {
		faults         []faultlayer.Fault
		requests, hits int
	}{
		{[]faultlayer.Fault{busy(), busy()}, 1, 3},
		{[]faultlayer.Fault{half(small)}, 2, 2},
		{[]faultlayer.Fault{busy(), half(small), busy(), busy()}, 2, 5},
	} {
		s, err := r.after(read(small), nil, test.faults...)
		require.NoError(t, err)
		require.Len(t, s.trips, test.requests)
		require.Len(t, s.hits, test.hits)
	}
}

// net/http repeats a GET by itself if it was sent over a connection that had
// been kept and breaks without an answer: one attempt, two hits.
func TestBelowUs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, write(small, atOnce)(t.Context(), r.client))
	s, err := r.after(read(small), nil, faultlayer.HangUp)
	require.NoError(t, err)
	require.Len(t, s.trips, 1)
	require.Equal(t, 1, s.last().Attempt)
	require.Len(t, s.hits, 2)
}

// What happens with the client's own retries left on: its attempts, which only
// the context or a maximum ends, times our 3. And RetryNever leaves those of the
// chunks on.
func TestStackedRetries(t *testing.T) {
	t.Parallel()
	quick := storage.WithBackoff(gax.Backoff{Initial: time.Millisecond, Max: time.Millisecond})

	r := newRig(t)
	require.NoError(t, write(small, atOnce)(t.Context(), r.client))
	r.client.SetRetry(storage.WithPolicy(storage.RetryIdempotent), storage.WithErrorFunc(storage.ShouldRetry),
		storage.WithMaxAttempts(4), quick)
	s, err := r.after(read(small), nil, slices.Repeat([]faultlayer.Fault{busy()}, 20)...)
	requireCode(t, 503, err)
	require.Len(t, s.trips, 4)
	require.Len(t, s.hits, 12)

	r = newRig(t)
	r.client.SetRetry(storage.WithPolicy(storage.RetryNever))
	secondChunk := func(req *http.Request) bool {
		return strings.HasPrefix(req.Header.Get("Content-Range"), "bytes 262144-")
	}
	s, err = r.after(write(chunks, chunk), secondChunk, slices.Repeat([]faultlayer.Fault{busy()}, 4)...)
	require.NoError(t, err)
	require.Len(t, s.trips, 5) // begin, and one chunk of the three twice
	require.Len(t, s.hits, 8)  // of these two, 3 and 2
}
