package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func (b *bench) signingClient() *http.Client { return newSigningClient(b) }

// A first request to a server with another clock takes a second attempt, and
// from then on the first is signed right.
func TestSkew(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		b := newBench(t, ahead)
		status, _, err := put(t.Context(), &http.Client{Transport: signOnce{b}}, strings.NewReader("a note"))
		require.NoError(t, err)
		require.Equal(t, 403, status, "without retrip")

		client := b.signingClient()
		for i, hits := range []int{2, 1, 1, 1} {
			b.reset()
			// Of a body that can't be reopened, Prepare reads what retrip keeps.
			status, answer, err := put(t.Context(), client, io.MultiReader(strings.NewReader("a "), strings.NewReader("note")))
			require.NoError(t, err)
			require.Equal(t, 200, status)
			require.Equal(t, "a note", answer)
			all := b.faults.Hits()
			require.Len(t, all, hits, "request %d", i)
			require.EqualValues(t, hits, b.calls.Load())
			for _, hit := range all {
				require.Equal(t, hexSum([]byte("a note")), hit.Hash)
			}
			signed, err := time.Parse(amzDate, all[hits-1].Header.Get("X-Amz-Date"))
			require.NoError(t, err)
			require.WithinDuration(t, b.now(), signed, time.Minute)
		}
	}
}

// Requests that find out at the same time are each corrected at once.
func TestSkewAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 10*time.Minute)
	client := b.signingClient()
	most, err := putAtOnce(t.Context(), client, 32)
	require.NoError(t, err)
	require.Equal(t, 2, most)
	require.Len(t, b.faults.Hits(), int(b.calls.Load()))

	b.reset()
	most, err = putAtOnce(t.Context(), client, 32)
	require.NoError(t, err)
	require.Equal(t, 1, most, "later first attempts are signed right")
	require.EqualValues(t, 32, b.calls.Load())
}

// Where the clocks agree, a refused signature is refused for good.
func TestNoSkew(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.faults.Fail(nil, xmlError(403, "SignatureDoesNotMatch"))
	status, _, err := put(t.Context(), b.signingClient(), strings.NewReader("a note"))
	require.NoError(t, err)
	require.Equal(t, 403, status)
	require.Len(t, b.faults.Hits(), 1)
}

// What our key signs is not for the host that a redirect leads to.
func TestSignerKeepsToItsHost(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []string{"https://elsewhere" + domain + "/", "http://" + gateway + "/"} {
		b := newBench(t, 0)
		b.faults.Fail(nil, faultlayer.Answer(307, "", "Location", elsewhere))
		_, _, err := put(t.Context(), b.signingClient(), strings.NewReader("a note"))
		require.NoError(t, err)
		hits := b.faults.Hits()
		require.Len(t, hits, 2)
		require.Contains(t, hits[0].Header, "Authorization")
		require.NotContains(t, hits[1].Header, "Authorization")
		require.NotContains(t, hits[1].Header, "X-Amz-Date")
	}
}

// The cloud's own check of signatures sees every change.
func TestVerify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   error
	}{
		"nothing":           {func(*http.Request) {}, nil},
		"an unsigned head":  {func(r *http.Request) { r.Header.Set("User-Agent", "another") }, nil},
		"a signed head":     {func(r *http.Request) { r.Header.Set("X-Amz-Meta-Kind", "another") }, refusal("SignatureDoesNotMatch")},
		"the method":        {func(r *http.Request) { r.Method = http.MethodPost }, refusal("SignatureDoesNotMatch")},
		"the path":          {func(r *http.Request) { r.RequestURI = "/notes/2?by=Ada%20L" }, refusal("SignatureDoesNotMatch")},
		"the query":         {func(r *http.Request) { r.URL.RawQuery = "by=Bob" }, refusal("SignatureDoesNotMatch")},
		"the host":          {func(r *http.Request) { r.Host = "elsewhere" + domain }, refusal("SignatureDoesNotMatch")},
		"the body":          {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a nose")) }, refusal("SignatureDoesNotMatch")},
		"the time":          {func(r *http.Request) { r.Header.Set("X-Amz-Date", "20200101T000000Z") }, refusal("IncompleteSignature")},
		"no signature":      {func(r *http.Request) { r.Header.Del("Authorization") }, refusal("InvalidClientTokenId")},
		"no time":           {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, refusal("IncompleteSignature")},
		"the payload's sum": {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", hexSum(nil)) }, refusal("XAmzContentSHA256Mismatch")},
	} {
		req := httptest.NewRequest(http.MethodPut, "/notes/1?by=Ada%20L", strings.NewReader("a note"))
		req.Host, req.URL.Host, req.URL.Scheme = gateway, gateway, "https"
		req.Header.Set("X-Amz-Meta-Kind", "short")
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("a note")), nil }
		require.NoError(t, newSigner().prepare(req, retrip.PrepareInfo{}))
		test.change(req)
		require.Equal(t, test.want, verify(req, time.Now()), name)
	}
}
