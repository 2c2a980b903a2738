package main

import (
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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/stretchr/testify/require"
)

const want = `
UploadBuffer: the server is busy and says for how long
  attempt  outcome         class      what next
  1        503 ServerBusy  throttled  again in 20ms (Retry-After-Ms)
  2        503 ServerBusy  throttled  again in 30ms (X-Ms-Retry-After-Ms)
  3        201 Created     success    done
  at the server: PUT 4194304 bytes eac733c2, PUT 4194304 bytes eac733c2, PUT 4194304 bytes eac733c2

UploadFile: the server answers before it has read the file
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        201 Created              success    done
  at the server: PUT, PUT 4194304 bytes eac733c2

UploadFile: the connection breaks after everything is sent
  attempt  outcome      class      what next
  1        EOF          transient  again in <wait> (backoff)
  2        201 Created  success    done
  at the server: PUT 4194304 bytes eac733c2, PUT 4194304 bytes eac733c2

DownloadStream: a reused connection breaks, and net/http itself resends the GET
  attempt  outcome  class    what next
  1        200 OK   success  done
  at the server: GET, GET

DownloadStream: the blob breaks off; azblob asks for the rest, and the server is busy
  attempt  outcome              class      what next
  1        200 OK               success    done
  1        503 ServerBusy       throttled  again in <wait> (backoff)
  2        206 Partial Content  success    done
  at the server: GET, GET, GET

5 calls made 6 requests in 11 attempts; the server saw 12, 1 of them repeated by net/http.
`

// backoffs are the only times printed that chance has a part in.
var backoffs = regexp.MustCompile(`again in \S+ \(backoff\)`)

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), backoffs.ReplaceAllString(out.String(), "again in <wait> (backoff)"))
}

// A rig is a client of an account of its own, with all calls of the base counted.
type rig struct {
	*account
	t      *testing.T
	base   *faultlayer.Counter
	client *azblob.Client
}

func newRig(t *testing.T) *rig {
	r := &rig{account: newAccount(), t: t, base: &faultlayer.Counter{Transport: new(http.Transport)}}
	t.Cleanup(r.Close)
	t.Cleanup(r.base.CloseIdleConnections)
	transport := newTransport()
	transport.Base = r.base
	var err error
	r.client, err = newClient(r.URL, transport)
	require.NoError(t, err)
	return r
}

// after makes a call after which the next requests fail, and returns what was
// seen of it on both sides. It checks what holds always: no request takes more
// than its attempts, and each of them is one call of the base.
func (r *rig) after(faults []faultlayer.Fault, call call) ([][]retrip.Event, []faultlayer.Hit, error) {
	r.t.Helper()
	r.faults.Reset()
	r.faults.Fail(nil, faults...)
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
	return trace.Requests(), r.faults.Hits(), err
}

// small is a blob for the tests in which the size does not matter.
var small = faultlayer.Noise(64 << 10)

// Every way to upload arrives byte by byte, whatever happens to the attempts
// before, and with the same length and the same headers each time.
func TestUpload(t *testing.T) {
	t.Parallel()
	uploads := map[string]func([]byte) call{
		"UploadBuffer": uploadBuffer,
		"UploadFile":   uploadFile,
		// azcore's own GetBody returns the file as it is, so that net/http closes
		// it after the second attempt.
		"the file as the body": func(content []byte) call {
			return withFile(content, func(ctx context.Context, client *azblob.Client, f *os.File) error {
				blob := client.ServiceClient().NewContainerClient(container).NewBlockBlobClient(name)
				_, err := blob.Upload(ctx, f, nil)
				return err
			})
		},
	}
	for _, test := range []struct {
		what  string
		fault faultlayer.Fault
		size  int
	}{
		{"empty", busy(), 0},
		{"busy", busy(), 64 << 10},
		{"hang up", faultlayer.HangUp, 64 << 10},
		{"early", faultlayer.Early(503), 4 << 20},
	} {
		for how, upload := range uploads {
			t.Run(test.what+"/"+how, func(t *testing.T) {
				t.Parallel()
				r, content := newRig(t), faultlayer.Noise(test.size)
				trips, hits, err := r.after([]faultlayer.Fault{test.fault, test.fault}, upload(content))
				require.NoError(t, err)
				require.Len(t, trips, 1)
				require.Len(t, hits, 3) // net/http repeats no PUT
				for i, hit := range hits {
					require.Equal(t, i < 2, hit.Failed)
					require.Equal(t, hits[0].Header, hit.Header)
					require.Equal(t, strconv.Itoa(test.size), hit.Header.Get("Content-Length"))
					if !hit.Failed || test.what != "early" {
						require.Equal(t, faultlayer.Hash(content), hit.Hash)
					}
				}
				require.NoError(t, download(content)(t.Context(), r.client))
			})
		}
	}
}

// When an attempt is answered early, net/http may be reading its body still.
// With azcore's own GetBody that is a race with the next attempt for the one
// offset they share, and the next attempt's body ends too soon.
func TestEarlyAnswers(t *testing.T) {
	t.Parallel()
	r, content := newRig(t), faultlayer.Noise(4<<20)
	for range 5 {
		_, hits, err := r.after([]faultlayer.Fault{faultlayer.Early(503), faultlayer.Early(503)}, uploadBuffer(content))
		require.NoError(t, err)
		require.Len(t, hits, 3)
		require.Equal(t, faultlayer.Hash(content), hits[2].Hash)
	}
}

// Why azcore's requests get another GetBody: its own returns the same body each
// time. Once this test fails, body.go is no longer needed.
func TestAzcoreGetBodyIsNoCopy(t *testing.T) {
	t.Parallel()
	req, err := runtime.NewRequest(t.Context(), http.MethodPut, "https://example.com")
	require.NoError(t, err)
	require.NoError(t, req.SetBody(streaming.NopCloser(strings.NewReader("body")), "text/plain"))
	first, err := req.Raw().GetBody()
	require.NoError(t, err)
	second, err := req.Raw().GetBody()
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, first)
	require.NoError(t, err)
	rest, err := io.ReadAll(second)
	require.NoError(t, err)
	require.Empty(t, rest, "the first has read what the second should have")
}

// A download arrives byte by byte, whether it fails before its headers, where
// retrip repeats it, or after, where azblob asks for the rest.
func TestDownload(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		faults         []faultlayer.Fault
		requests, hits int
	}{
		"busy":                    {[]faultlayer.Fault{busy(), busy()}, 1, 3},
		"breaks off":              {[]faultlayer.Fault{half(small)}, 2, 2},
		"breaks off, then busy":   {[]faultlayer.Fault{half(small), busy(), busy()}, 2, 4},
		"busy, then breaks off":   {[]faultlayer.Fault{busy(), half(small)}, 2, 3},
		"hang up, after net/http": {[]faultlayer.Fault{faultlayer.HangUp, faultlayer.HangUp}, 1, 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			require.NoError(t, uploadBuffer(small)(t.Context(), r.client))
			trips, hits, err := r.after(test.faults, download(small)) // which compares
			require.NoError(t, err)
			require.Len(t, trips, test.requests)
			require.Len(t, hits, test.hits)
		})
	}
}

// net/http repeats a GET by itself if it was sent over a connection that had
// been kept and breaks without an answer: one attempt, two hits.
func TestBelowUs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, uploadBuffer(small)(t.Context(), r.client))
	trips, hits, err := r.after([]faultlayer.Fault{faultlayer.HangUp}, download(small))
	require.NoError(t, err)
	require.Len(t, trips, 1)
	require.Len(t, trips[0], 1)
	require.Len(t, hits, 2)
}

// Azure's headers are read in the order in which azcore reads them. A wait
// beyond the cap is not waited: the answer comes back at once.
func TestWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		header []string
		wait   time.Duration
		from   string
	}{
		{[]string{"Retry-After-Ms", "20", "X-Ms-Retry-After-Ms", "50", "Retry-After", "9"}, 20 * time.Millisecond, "Retry-After-Ms"},
		{[]string{"X-Ms-Retry-After-Ms", "25", "Retry-After", "9"}, 25 * time.Millisecond, "X-Ms-Retry-After-Ms"},
		{[]string{"Retry-After", "3600"}, time.Hour, "Retry-After"},
	} {
		r := newRig(t)
		trips, hits, err := r.after([]faultlayer.Fault{busy(test.header...)}, uploadBuffer(small))
		require.Len(t, trips, 1)
		require.Equal(t, test.wait, trips[0][0].Wait)
		require.Equal(t, test.from, trips[0][0].WaitFrom)
		if test.wait < time.Minute {
			require.NoError(t, err)
			require.Len(t, hits, 2)
			continue
		}
		require.Equal(t, retrip.WaitOverCap, trips[0][0].Reason)
		require.Len(t, hits, 1)
		requireBusy(t, err)
	}
}

// When the attempts are spent, azblob gets Azure's last answer and makes its
// own error of it.
func TestLastAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	trips, hits, err := r.after([]faultlayer.Fault{busy(), busy(), busy(), busy()}, uploadBuffer(small))
	require.Len(t, hits, 3)
	require.Equal(t, retrip.AttemptsExhausted, trips[0][2].Reason)
	requireBusy(t, err)
}

func requireBusy(t *testing.T, err error) {
	t.Helper()
	var answer *azcore.ResponseError
	require.ErrorAs(t, err, &answer)
	require.Equal(t, "ServerBusy", answer.ErrorCode)
	require.Equal(t, 503, answer.StatusCode)
	text, err := io.ReadAll(answer.RawResponse.Body)
	require.NoError(t, err)
	require.Equal(t, errorBody("ServerBusy"), string(text))
}

// What happens with azcore's own retries left on: its 4 attempts times our 3.
func TestStackedRetries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	trips, hits, err := r.after(slices.Repeat([]faultlayer.Fault{busy()}, 20), func(ctx context.Context, client *azblob.Client) error {
		// No MaxRetries is 3 of them.
		return uploadBuffer(small)(policy.WithRetryOptions(ctx, policy.RetryOptions{RetryDelay: time.Millisecond}), client)
	})
	requireBusy(t, err)
	require.Len(t, trips, 4)
	require.Len(t, hits, 12)
}
