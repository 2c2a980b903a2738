package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/stretchr/testify/require"
)

const want = `
PutObject from a reader that can't seek: the server throttles
  attempt  outcome       class      what next
  1        503 SlowDown  throttled  again in <wait> (backoff)
  2        503 SlowDown  throttled  again in <wait> (backoff)
  3        200 OK        success    done
  at the server: PUT 4194304 bytes eac733c2, PUT 4194304 bytes eac733c2, PUT 4194304 bytes eac733c2

FPutObject: the server answers before it has read the file
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        200 OK                   success    done
  at the server: PUT, PUT 4194304 bytes eac733c2

FPutObject in two parts: the connection breaks after the first is sent
  attempt  outcome  class      what next
  1        200 OK   success    done
  1        EOF      transient  again in <wait> (backoff)
  2        200 OK   success    done
  1        200 OK   success    done
  1        200 OK   success    done
  at the server: POST, PUT 5242880 bytes 0aa8c86e, PUT 5242880 bytes 0aa8c86e, PUT 2621440 bytes cce381a8, POST 267 bytes 18f0913e

GetObject: the server throttles
  attempt  outcome       class      what next
  1        503 SlowDown  throttled  again in <wait> (backoff)
  2        503 SlowDown  throttled  again in <wait> (backoff)
  3        200 OK        success    done
  at the server: GET, GET, GET

GetObject: a reused connection breaks, and net/http itself resends the GET
  attempt  outcome  class    what next
  1        200 OK   success  done
  at the server: GET, GET

5 calls made 8 requests in 14 attempts; the server saw 15, 1 of them repeated by net/http.
`

// TestMain makes minio-go's own waits short. It waits after its last attempt,
// too, and so also where it is to make only one.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit, minio.DefaultRetryCap = time.Millisecond, time.Millisecond
	os.Exit(m.Run())
}

// backoffs are the only times printed that chance has a part in.
var backoffs = regexp.MustCompile(`again in \S+ \(backoff\)`)

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), backoffs.ReplaceAllString(out.String(), "again in <wait> (backoff)"))
}

// A rig is a client of a storage of its own, with all calls of the base counted.
type rig struct {
	*storage
	t         *testing.T
	base      *faultlayer.Counter
	transport *retrip.Transport
	client    *minio.Client
}

func newRig(t *testing.T) *rig {
	s, err := newStorage()
	require.NoError(t, err)
	r := &rig{storage: s, t: t, base: &faultlayer.Counter{Transport: new(http.Transport)}, transport: newTransport()}
	t.Cleanup(r.Close)
	t.Cleanup(r.base.CloseIdleConnections)
	r.transport.Base = r.base
	r.client, err = newClient(r.URL, r.transport)
	require.NoError(t, err)
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

// after makes a call during which the next requests fail. It checks what holds
// always: no request takes more than its attempts, and each of them is one call
// of the base.
func (r *rig) after(call call, faults ...faultlayer.Fault) (seen, error) {
	r.t.Helper()
	r.faults.Reset()
	r.faults.Fail(nil, faults...)
	before := r.base.Calls.Load()
	ctx, trace := retrip.WithTrace(context.Background())
	err := call(ctx, r.client)
	attempts := 0
	for _, events := range trace.Requests() {
		last := events[len(events)-1]
		require.LessOrEqual(r.t, last.Attempt, aws.Standard2026().MaxAttempts)
		attempts += last.Attempt
	}
	require.EqualValues(r.t, attempts, r.base.Calls.Load()-before)
	return seen{trace.Requests(), r.faults.Hits()}, err
}

// small is an object for the tests in which the size does not matter.
var small = faultlayer.Noise(64 << 10)

// Whatever can be read is stored byte by byte, and sent with the same length and
// the same headers each time. minio-go's own signature covers both.
func TestPut(t *testing.T) {
	t.Parallel()
	puts := map[string]func([]byte) call{"reader": putReader, "file": putFile}
	for _, test := range []struct {
		what  string
		fault faultlayer.Fault
		size  int
	}{
		{"empty", slowDown, 0},
		{"slow down", slowDown, 64 << 10},
		{"hang up", faultlayer.HangUp, 64 << 10},
		{"early", faultlayer.Early(503), 4 << 20},
	} {
		for how, put := range puts {
			t.Run(test.what+"/"+how, func(t *testing.T) {
				t.Parallel()
				r, content := newRig(t), faultlayer.Noise(test.size)
				s, err := r.after(put(content), test.fault, test.fault)
				require.NoError(t, err)
				require.Len(t, s.trips, 1)
				require.Len(t, s.hits, 3) // net/http repeats no PUT
				for i, hit := range s.hits {
					require.Equal(t, i < 2, hit.Failed)
					require.Equal(t, s.hits[0].Header, hit.Header)
					require.Equal(t, strconv.Itoa(test.size), hit.Header.Get("Content-Length"))
					if !hit.Failed || test.what != "early" {
						require.Equal(t, faultlayer.Hash(content), hit.Hash)
					}
				}
				require.NoError(t, get(content)(t.Context(), r.client))
			})
		}
	}
}

// Over plain HTTP minio-go signs a body in chunks while it is read. They come
// again as they were. gofakes3 leaves the last one, which is empty, unread: what
// its hit has is the object that it made of them.
func TestSignedChunks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.after(func(ctx context.Context, client *minio.Client) error {
		_, err := client.PutObject(ctx, bucket, name, bytes.NewReader(small), int64(len(small)), minio.PutObjectOptions{})
		return err
	}, slowDown, faultlayer.HangUp)
	require.NoError(t, err)
	require.Len(t, s.hits, 3)
	for _, hit := range s.hits {
		require.Equal(t, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", hit.Header.Get("X-Amz-Content-Sha256"))
		require.Greater(t, hit.Size, int64(len(small)))
		require.Equal(t, s.hits[0].Header, hit.Header)
	}
	require.Equal(t, s.hits[0].Hash, s.hits[1].Hash)
	require.NoError(t, get(small)(t.Context(), r.client))
}

// Each request of an upload in parts is retried for itself, also the POST that
// completes it: SlowDown says that nothing was done.
func TestParts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.after(putFile(twoParts), slowDown, slowDown)
	require.NoError(t, err)
	require.Len(t, s.trips, 4) // begin, two parts, complete
	require.Len(t, s.hits, 6)
	require.NoError(t, get(twoParts)(t.Context(), r.client))
}

// A part longer than what is kept of it is sent all the same, but only once, and
// minio-go gets the server's answer.
func TestReplayBufferTooSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.transport.ReplayBuffer = int64(len(small)) - 1
	s, err := r.after(putFile(small), slowDown)
	require.Equal(t, "SlowDown", minio.ToErrorResponse(err).Code)
	require.Equal(t, retrip.BodyNotReplayable, s.last().Reason)
	require.Len(t, s.hits, 1)
	require.Equal(t, faultlayer.Hash(small), s.hits[0].Hash)
}

// When the attempts are spent, minio-go gets S3's last answer.
func TestLastAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.after(putFile(small), slowDown, slowDown, slowDown, slowDown)
	require.Equal(t, retrip.AttemptsExhausted, s.last().Reason)
	require.Len(t, s.hits, 3)
	require.Equal(t, "SlowDown", minio.ToErrorResponse(err).Code)
	require.Equal(t, "Please reduce your request rate.", minio.ToErrorResponse(err).Message)
}

// net/http repeats a GET by itself if it was sent over a connection that had
// been kept and breaks without an answer: one attempt, two hits.
func TestBelowUs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.after(putFile(small))
	require.NoError(t, err)
	s, err := r.after(get(small), faultlayer.HangUp)
	require.NoError(t, err)
	require.Len(t, s.trips, 1)
	require.Equal(t, 1, s.last().Attempt)
	require.Len(t, s.hits, 2)
}

// What happens with minio-go's own retries left on: its 10 attempts times our 3,
// but not for a reader that can't seek.
func TestStackedRetries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		put         call
		trips, hits int
	}{
		{putFile(small), 10, 30},
		{putReader(small), 1, 3},
	} {
		r := newRig(t)
		var err error
		r.client, err = minio.New(r.Listener.Addr().String(), &minio.Options{Region: "us-east-1", Transport: r.transport})
		require.NoError(t, err)
		s, err := r.after(test.put, slices.Repeat([]faultlayer.Fault{slowDown}, 50)...)
		require.Equal(t, "SlowDown", minio.ToErrorResponse(err).Code)
		require.Len(t, s.trips, test.trips)
		require.Len(t, s.hits, test.hits)
	}
}

// A download arrives byte by byte if it fails before its headers. What breaks
// off later is an error of the reader's: minio-go does not ask for the rest.
func TestGet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.after(putFile(small))
	require.NoError(t, err)
	s, err := r.after(get(small), slowDown, slowDown)
	require.NoError(t, err)
	require.Len(t, s.hits, 3)

	s, err = r.after(get(small), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(small)))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("ETag", `"etag"`)
		_, _ = w.Write(small[:len(small)/2])
		panic(http.ErrAbortHandler)
	})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, s.hits, 1)
}
