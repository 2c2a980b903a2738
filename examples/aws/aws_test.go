package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A bench is a cloud and a client for it whose calls of the base are counted.
type bench struct {
	*cloud
	client *http.Client
	calls  atomic.Int64
	base   *http.Transport
}

func newBench(t *testing.T, ahead time.Duration) *bench {
	t.Helper()
	c, err := newCloud(ahead)
	require.NoError(t, err)
	b := &bench{cloud: c, base: c.base()}
	b.client = newClient(b)
	t.Cleanup(func() {
		b.base.CloseIdleConnections()
		b.close()
	})
	return b
}

func (b *bench) RoundTrip(req *http.Request) (*http.Response, error) {
	b.calls.Add(1)
	return b.base.RoundTrip(req)
}

func (b *bench) services() *services { return newServices(newConfig(b.client)) }

// transport is the client's, to be changed before its first use.
func (b *bench) transport() *retrip.Transport { return b.client.Transport.(*retrip.Transport) }

// reset forgets what was counted.
func (b *bench) reset() {
	b.faults.Reset()
	b.calls.Store(0)
}

// requireHits checks that the cloud was reached n times, by as many calls of
// the base, and always by the same request: head, signature and body.
func (b *bench) requireHits(t *testing.T, n int) []faultlayer.Hit {
	t.Helper()
	hits := b.faults.Hits()
	require.Len(t, hits, n)
	require.EqualValues(t, n, b.calls.Load(), "calls of the base")
	for _, hit := range hits[1:] {
		require.Equal(t, hits[0].Method+hits[0].Path, hit.Method+hit.Path)
		require.Equal(t, hits[0].Header, hit.Header)
		require.Equal(t, hits[0].Size, hit.Size)
		require.Equal(t, hits[0].Hash, hit.Hash)
	}
	return hits
}

// last is the last event of a trace with one request.
func last(t *testing.T, trace *retrip.Trace) retrip.Event {
	t.Helper()
	require.Len(t, trace.Requests(), 1)
	events := trace.Requests()[0]
	return events[len(events)-1]
}

const want = `
call                        attempts  answers                                               result
DynamoDB PutItem            3         400 ProvisionedThroughputExceededException, 500, 200  stored
DynamoDB GetItem            2         EOF, 200                                              Ada
S3 PutObject of a file      3         503 SlowDown, EOF, 200                                stored
S3 PutObject, 2 MiB         2         503 SlowDown, 200                                     stored
S3 CopyObject               2         200 with an Error, 200                                copied
S3 GetObject                2         500 InternalError, 200                                the file
SQS ReceiveMessage          3         EOF, 403 RequestThrottled, 200                        do this
KMS Encrypt                 2         400 ThrottlingException, 200                          a secret
KMS GenerateDataKey         3         500, EOF, 200                                         32 bytes
Lambda Invoke               3         429 TooManyRequestsException, 502, 200                "Hello, Ada!"
Lambda Invoke at most once  2         429 TooManyRequestsException, 500                     an error

Lambda Invoke while all fails  attempts  answers                  result
SDK's retries off              3         503, 503, 503            an error
SDK's retries on               5         503, 503, 503; 503; 503  an error

PUT to a server 10 minutes ahead  attempts  answers                        result
without retrip                    1         403                            an error
first                             2         403 RequestTimeTooSkewed, 200  a note
next                              1         200                            a note
32 first ones at once             2         at most, each                  a note
`

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), out.String())
}

// Each call reaches its service once more than it was made to fail, and each
// time as the same request: signed once, with the body that was signed.
func TestCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	services := b.services()
	b.queue <- "do this"
	for _, call := range calls {
		b.reset()
		b.faults.Fail(call.match, call.faults...)
		ctx, trace := retrip.WithTrace(t.Context())
		result, err := call.do(ctx, services)
		require.NoError(t, err, call.name)
		require.Equal(t, call.want, result, call.name)

		attempts := len(call.faults)
		if last(t, trace).Class == retrip.Success {
			attempts++
		}
		for _, hit := range b.requireHits(t, attempts) {
			require.Equal(t, "attempt=1; max=1", hit.Header.Get("Amz-Sdk-Request"), "which the SDK alone counts")
			require.NotEmpty(t, hit.Header.Get("Authorization"))
			require.NotContains(t, hit.Header, "Transfer-Encoding")
			if hit.Method != http.MethodGet {
				require.Equal(t, strconv.FormatInt(hit.Size, 10), hit.Header.Get("Content-Length"), call.name)
			}
			if call.name == "Lambda Invoke" {
				require.Equal(t, hexSum([]byte(`{"name":"Ada"}`)), hit.Hash)
			}
		}
	}
}

// When the attempts are spent, the SDK makes of the last answer the error that
// it always makes of it.
func TestAttemptsSpent(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	services := b.services()

	b.faults.Fail(nil, times(10, headerError(503, "ServiceException"))...)
	_, err := invoke(t.Context(), services)
	b.requireHits(t, 3)
	var failure smithy.APIError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "ServiceException", failure.ErrorCode())
	require.Equal(t, "an error of this example", failure.ErrorMessage())
	var response *smithyhttp.ResponseError
	require.ErrorAs(t, err, &response)
	require.Equal(t, 503, response.HTTPStatusCode())

	b.reset()
	b.faults.Fail(nil, times(10, jsonError(500, "InternalServerError"))...)
	_, err = calls[0].do(t.Context(), services)
	require.Error(t, err)
	b.requireHits(t, 4) // DynamoDB's host has a strategy of its own
}

// The SDK's retries, left on, come on top of retrip's, which sends the SDK's
// second and third attempt once each. Switched off by NopRetryer, they stay off:
// a number of attempts from a profile or AWS_MAX_ATTEMPTS has no say.
func TestSDKRetriesAddUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	config := newConfig(b.client)

	config.Retryer = shortRetries
	b.faults.Fail(nil, times(20, headerError(503, "ServiceException"))...)
	_, err := invoke(t.Context(), newServices(config))
	require.Error(t, err)
	require.EqualValues(t, 5, b.calls.Load())
	seen, signatures := make(map[string]int), make(map[string]bool)
	for _, hit := range b.faults.Hits() {
		seen[hit.Header.Get("Amz-Sdk-Request")]++
		signatures[hit.Header.Get("Authorization")] = true
	}
	require.Equal(t, map[string]int{"attempt=1; max=3": 3, "attempt=2; max=3": 1, "attempt=3; max=3": 1}, seen)
	require.Len(t, signatures, 3, "one for each of the SDK's attempts")

	b.reset()
	config.Retryer, config.RetryMaxAttempts, config.RetryMode = noRetries, 5, aws.RetryModeAdaptive
	b.faults.Fail(nil, times(20, headerError(503, "ServiceException"))...)
	_, err = invoke(t.Context(), newServices(config))
	require.Error(t, err)
	require.Len(t, b.faults.Hits(), 3)
	require.EqualValues(t, 3, b.calls.Load())
}

// A poll that the quota refuses a retry still waits, so that the loop around
// it does not spin; another request is answered at once.
func TestLongPollWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.transport().PerKey = func(host string) *retrip.Strategy {
		s := strategyFor(host)
		s.Quota = retrip.NewBucket(0)
		s.Rand = func() float64 { return 0.5 }
		return s
	}
	services := b.services()
	for _, call := range calls {
		b.reset()
		b.faults.Fail(nil, jsonError(500, "InternalFailure"))
		ctx, trace := retrip.WithTrace(t.Context())
		_, err := call.do(ctx, services)
		if call.name == "Lambda Invoke at most once" {
			continue // not asked for a retry at all
		}
		require.Error(t, err, call.name)
		b.requireHits(t, 1)
		end := last(t, trace)
		require.Equal(t, retrip.QuotaExhausted, end.Reason, call.name)
		require.Equal(t, call.name == "SQS ReceiveMessage", end.Wait > 0, call.name)
	}
}

// A redirect is followed no further than the SDK's own client follows it.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for status, hits := range map[int]int{301: 1, 302: 1, 307: 2, 308: 2} {
		b := newBench(t, 0)
		elsewhere := "https://elsewhere" + domain + "/"
		b.faults.Fail(request(http.MethodGet, "/copy.csv"), faultlayer.Answer(status, "", "Location", elsewhere))
		config := newConfig(b.client)
		config.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			credentials, err := exampleCredentials(ctx)
			credentials.SessionToken = "a-token"
			return credentials, err
		})
		for _, call := range calls {
			if call.name == "S3 GetObject" {
				_, err := call.do(t.Context(), newServices(config))
				require.Error(t, err)
			}
		}
		all := b.faults.Hits()
		require.Len(t, all, hits, status)
		require.Equal(t, "a-token", all[0].Header.Get("X-Amz-Security-Token"))
		for _, hit := range all[1:] {
			require.Empty(t, hit.Header.Get("X-Amz-Security-Token"))
			require.Empty(t, hit.Header.Get("Authorization"))
		}
	}
}

// The SDK still learns from an answer how far its clock is off, but only its
// own retries would use that for the call at hand.
func TestSDKCorrectsItsClockForTheNextCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, 10*time.Minute)
	services := b.services()
	_, err := invoke(t.Context(), services)
	var failure smithy.APIError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "RequestTimeTooSkewed", failure.ErrorCode())
	answer, err := invoke(t.Context(), services)
	require.NoError(t, err)
	require.Equal(t, `"Hello, Ada!"`, answer)
	require.Len(t, b.faults.Hits(), 2)
}

// An answer that breaks off is an error of the caller's: retrip was done when
// the headers came, and the SDK's retries are off.
func TestBrokenAnswerIsNotRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.faults.Fail(nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `"Hello`)
	})
	_, err := invoke(t.Context(), b.services())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	b.requireHits(t, 1)
}
