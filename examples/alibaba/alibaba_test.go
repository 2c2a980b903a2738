package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kms "github.com/alibabacloud-go/kms-20160120/v3/client"
	util "github.com/alibabacloud-go/tea-utils/v2/service"
	"github.com/alibabacloud-go/tea/dara"
	"github.com/alibabacloud-go/tea/tea"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A bench is a service and an SDK client for it whose calls of the base are
// counted.
type bench struct {
	*service
	client *http.Client
	sdk    *kms.Client
	calls  atomic.Int64
	heard  listener
	base   *http.Transport
}

func newBench(t *testing.T, ahead time.Duration) *bench {
	t.Helper()
	s := newService(ahead)
	b := &bench{service: s, base: s.base()}
	credential, err := exampleCredential()
	require.NoError(t, err)
	b.client = newClient(b, credential, b.heard.observe)
	b.sdk, err = newKMS(b.client, credential)
	require.NoError(t, err)
	t.Cleanup(func() {
		b.base.CloseIdleConnections()
		s.server.Close()
	})
	return b
}

func (b *bench) RoundTrip(req *http.Request) (*http.Response, error) {
	b.calls.Add(1)
	return b.base.RoundTrip(req)
}

// signedHead are the parts of a request's head that a new signature changes.
var signedHead = []string{"X-Acs-Date", "X-Acs-Signature-Nonce", "Authorization"}

// requireHits checks that the service was reached n times, by as many calls of
// the base, and always by the same request but for the signature.
func (b *bench) requireHits(t *testing.T, n int) []faultlayer.Hit {
	t.Helper()
	hits := b.network.Hits()
	require.Len(t, hits, n)
	require.EqualValues(t, n, b.service.countQueries(), "hits")
	require.EqualValues(t, n, b.calls.Load(), "calls of the base")
	require.Len(t, b.heard.outcomes, n)
	without := func(h http.Header) http.Header {
		h = h.Clone()
		for _, name := range signedHead {
			h.Del(name)
		}
		return h
	}
	for i, hit := range hits {
		require.Equal(t, without(hits[0].Header), without(hit.Header))
		require.Equal(t, hits[0].Hash, hit.Hash)
		require.Equal(t, hexSum(nil), hit.Hash, "KMS has all it sends in the query")
		require.Equal(t, b.queries[0], b.queries[i])
		require.Len(t, hit.Header.Values("X-Acs-Signature-Nonce"), 1)
	}
	return hits
}

func (s *service) countQueries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queries)
}

const want = `
call                     attempts  answers                                                                    result
Encrypt                  3         429 throttled, 500 transient, 200                                          a secret: 100% *+ü&=~
Decrypt                  3         400 throttled, 503 transient, 200                                          a secret: 100% *+ü&=~
GenerateDataKey          3         EOF, 504 transient, 200                                                    32 bytes
Encrypt while all fails  5         503 transient, 503 transient, 503 transient, 503 transient, 503 transient  ServiceUnavailableTemporary
Encrypt, signed once     2         500 transient, 400 permanent                                               SignatureNonceUsed
`

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	require.Equal(t, strings.TrimPrefix(want, "\n"), out.String())
}

// Each call reaches the service once more than it was made to fail, at most
// five times, with the same query and a signature of its own each time.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		b := newBench(t, 0)
		b.network.Fail(nil, c.network...)
		b.faults.Fail(nil, c.faults...)
		result, err := c.do(b.sdk)
		if attempts := len(c.network) + len(c.faults) + 1; attempts <= 5 {
			require.NoError(t, err, c.name)
			require.Equal(t, c.want, result, c.name)
			b.requireHits(t, attempts)
		} else {
			var failed *tea.SDKError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.want, dara.StringValue(failed.Code))
			require.Equal(t, 503, dara.IntValue(failed.StatusCode))
			b.requireHits(t, 5)
		}
		nonces := make(map[string]bool)
		for _, hit := range b.network.Hits() {
			nonces[hit.Header.Get("X-Acs-Signature-Nonce")] = true
		}
		require.Len(t, nonces, len(b.network.Hits()))
	}
}

// Without Prepare, retries repeat the SDK's nonce. That does for a request
// that did not come so far that it was noted.
func TestSignedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.client.Transport.(*retrip.Transport).Prepare = nil
	b.network.Fail(nil, failure(429, "Rejected.Throttling"), faultlayer.Reset)
	result, err := encrypt(b.sdk)
	require.NoError(t, err)
	require.Equal(t, secret, result)
	hits := b.requireHits(t, 3)
	for _, hit := range hits {
		require.Equal(t, hits[0].Header, hit.Header)
	}

	b.faults.Fail(nil, failure(500, "InternalFailure"))
	_, err = encrypt(b.sdk)
	var failed *tea.SDKError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "SignatureNonceUsed", dara.StringValue(failed.Code))
	require.Len(t, b.network.Hits(), 5)
}

// The SDK has no retries of its own unless Config.RetryOptions asks for them;
// RuntimeOptions has no say any more. If it has, they multiply: 3 × 5.
func TestSDKRetriesMultiply(t *testing.T) {
	t.Parallel()
	fail := func(b *bench) error {
		b.faults.Fail(nil, times(20, failure(500, "InternalFailure"))...)
		_, err := b.sdk.EncryptWithOptions(
			&kms.EncryptRequest{KeyId: dara.String("alias/example"), Plaintext: dara.String(secret)},
			&util.RuntimeOptions{Autoretry: dara.Bool(true), MaxAttempts: dara.Int(3)})
		return err
	}
	b := newBench(t, 0)
	require.Error(t, fail(b))
	b.requireHits(t, 5)

	b = newBench(t, 0)
	b.sdk.RetryOptions = &dara.RetryOptions{Retryable: true, RetryCondition: []*dara.RetryCondition{{
		MaxAttempts: 3, ErrorCode: []string{"InternalFailure"}, Backoff: &dara.FixedBackoffPolicy{Period: 1}, MaxDelay: 1,
	}}}
	require.Error(t, fail(b))
	b.requireHits(t, 15)
}

// A first request to a service with another clock takes a second attempt, and
// from then on the first is signed right.
func TestSkew(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20*time.Minute)
	for hits := 2; hits < 5; hits++ {
		result, err := encrypt(b.sdk)
		require.NoError(t, err)
		require.Equal(t, secret, result)
		require.Len(t, b.network.Hits(), hits)
	}
}

// What the key signs is for one host only.
func TestSignerKeepsToItsHost(t *testing.T) {
	t.Parallel()
	credential, err := exampleCredential()
	require.NoError(t, err)
	s := &signer{credential, endpoint}
	for url, signed := range map[string]bool{
		"https://" + endpoint + "/": true, "https://elsewhere.aliyuncs.com/": false, "http://" + endpoint + "/": false,
	} {
		req, err := http.NewRequest(http.MethodPost, url, nil)
		require.NoError(t, err)
		require.NoError(t, s.prepare(req, retrip.PrepareInfo{}))
		require.Equal(t, signed, len(req.Header) > 0, url)
	}
}

// The service's own check of signatures sees every change.
func TestVerify(t *testing.T) {
	t.Parallel()
	credential, err := exampleCredential()
	require.NoError(t, err)
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"nothing":      {func(*http.Request) {}, ""},
		"the action":   {func(r *http.Request) { r.Header["X-Acs-Action"] = []string{"Decrypt"} }, "SignatureDoesNotMatch"},
		"the nonce":    {func(r *http.Request) { r.Header["X-Acs-Signature-Nonce"] = []string{"another"} }, "SignatureDoesNotMatch"},
		"the query":    {func(r *http.Request) { r.URL.RawQuery = "Plaintext=another" }, "SignatureDoesNotMatch"},
		"the method":   {func(r *http.Request) { r.Method = http.MethodGet }, "SignatureDoesNotMatch"},
		"the host":     {func(r *http.Request) { r.Host = "elsewhere.aliyuncs.com" }, "SignatureDoesNotMatch"},
		"the body":     {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a body")) }, "SignatureDoesNotMatch"},
		"the time":     {func(r *http.Request) { r.Header["X-Acs-Date"] = []string{"2020-01-01T00:00:00Z"} }, "InvalidTimeStamp.Expired"},
		"no signature": {func(r *http.Request) { delete(r.Header, "Authorization") }, "InvalidAccessKeyId.NotFound"},
	} {
		req := httptest.NewRequest(http.MethodPost, "/?Plaintext=a%20secret", nil)
		req.Host, req.URL.Host, req.URL.Scheme = endpoint, endpoint, "https"
		req.Header = http.Header{"Host": {endpoint}, "x-acs-action": {"Encrypt"}, "x-acs-content-sha256": {hexSum(nil)}}
		require.NoError(t, (&signer{credential, endpoint}).prepare(req, retrip.PrepareInfo{}))
		arrived := make(http.Header) // as it is read from the wire
		for name, values := range req.Header {
			arrived.Set(name, values[0])
		}
		req.Header = arrived
		test.change(req)
		require.Equal(t, test.want, verify(req, time.Now()), name)
	}
}
