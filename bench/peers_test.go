package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/retrip-go/retrip"
	retripaws "github.com/retrip-go/retrip/aws"
	"github.com/ybbus/httpretry"
)

// The policy that all peers are given: three attempts, a retry after 5xx and
// after 429 where the peer can tell, and always the same wait.
const attempts = 3

// A peer wraps a base with one library's retries.
type peer struct {
	name string
	wrap func(tb testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper
}

// peers are all that is compared, with two yardsticks in front: bare does
// nothing, floor is the least that retries at all.
var peers = []peer{
	{"bare", func(_ testing.TB, base http.RoundTripper, _ time.Duration) http.RoundTripper { return base }},
	{"floor", func(_ testing.TB, base http.RoundTripper, _ time.Duration) http.RoundTripper { return floor{base} }},
	single("retrip", retrip.Standard),
	{"retrip-perhost", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return &retrip.Transport{Base: base, PerKey: func(string) *retrip.Strategy { return waiting(retrip.Standard(), wait) }}
	}},
	single("retrip-legacy", retrip.Legacy),
	single("retrip-2026", retripaws.Standard2026),
	single("retrip-adaptive", retrip.Adaptive),
	{"retrip-throttled", func(tb testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return &retrip.Transport{Base: base, Strategy: waiting(throttled(tb), wait)}
	}},
	{"aws", newAWS},
	{"azcore", newAzcore},
	{"failsafe", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().
			WithMaxRetries(attempts-1).WithDelay(wait).ReturnLastFailure().Build())
	}},
	{"failsafe-budget", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().
			WithMaxRetries(attempts-1).WithDelay(wait).ReturnLastFailure().WithBudget(budget.New()).Build())
	}},
	{"heimdall", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper { // never after 429
		return tripper(httpclient.NewClient(
			httpclient.WithHTTPClient(doer(base.RoundTrip)),
			httpclient.WithRetryCount(attempts-1),
			httpclient.WithRetrier(heimdall.NewRetrierFunc(func(int) time.Duration { return wait })),
		).Do)
	}},
	{"httpretry", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return httpretry.NewCustomClient(&http.Client{Transport: base},
			httpretry.WithMaxRetryCount(attempts-1),
			httpretry.WithBackoffPolicy(httpretry.ConstantBackoff(wait, 0)),
		).Transport
	}},
	{"rehttp", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return rehttp.NewTransport(base, rehttp.RetryAll(
			rehttp.RetryMaxRetries(attempts-1),
			rehttp.RetryAny(
				rehttp.RetryStatusInterval(500, 600),
				rehttp.RetryStatuses(http.StatusTooManyRequests),
				rehttp.RetryIsErr(func(err error) bool { return err != nil }),
			),
		), rehttp.ConstDelay(wait))
	}},
	{"retryablehttp", func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		client := retryablehttp.NewClient()
		client.HTTPClient = &http.Client{Transport: base}
		client.Logger = nil
		client.RetryMax = attempts - 1
		client.RetryWaitMin, client.RetryWaitMax = wait, wait
		return client.StandardClient().Transport
	}},
}

// libraries are the peers without the modes that differ from others in what
// they decide, not in how they carry requests and bodies.
func libraries() []peer {
	return slices.DeleteFunc(slices.Clone(peers), func(p peer) bool {
		return slices.Contains([]string{"retrip-legacy", "retrip-2026", "retrip-adaptive", "retrip-throttled"}, p.name)
	})
}

// named returns the peers of these names, in this order.
func named(names ...string) []peer {
	var found []peer
	for _, name := range names {
		for _, p := range peers {
			if p.name == name {
				found = append(found, p)
			}
		}
	}
	if len(found) != len(names) {
		panic("a peer of that name does not exist")
	}
	return found
}

func single(name string, mode func() *retrip.Strategy) peer {
	return peer{name, func(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
		return &retrip.Transport{Base: base, Strategy: waiting(mode(), wait)}
	}}
}

// waiting gives a strategy the policy that all peers have.
func waiting(s *retrip.Strategy, wait time.Duration) *retrip.Strategy {
	s.MaxAttempts = attempts
	s.Backoff, s.ThrottleBackoff = retrip.Constant{Wait: wait}, nil
	return s
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(req *http.Request) (*http.Response, error) { return f(req) }

// floor is the least that can be called a retry: no wait, no limits but the
// attempts, no care for what the response leaves behind.
type floor struct{ base http.RoundTripper }

func (f floor) RoundTrip(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		resp, err := f.base.RoundTrip(req)
		if err != nil || resp.StatusCode < 500 || n == attempts || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		_ = resp.Body.Close()
		if req.Body != nil {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}

func newAzcore(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
	// 0 is the default wait, and less than 0, which is none, the longest
	// (TestAzcoreWaitsWhenToldNotTo).
	return azcorePipeline(base, max(wait, 1))
}

// azcorePipeline has no policies but those that are in each of them.
func azcorePipeline(base http.RoundTripper, wait time.Duration) http.RoundTripper {
	options := &policy.ClientOptions{Transport: doer(base.RoundTrip)}
	options.Telemetry.Disabled = true
	options.Retry.MaxRetries = attempts - 1
	options.Retry.RetryDelay = wait
	pipeline := runtime.NewPipeline("bench", "v0", runtime.PipelineOptions{}, options)
	return tripper(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil { // it sets headers, and they are the caller's
			req = req.Clone(req.Context())
			if req.GetBody != nil {
				req.Body = newRewinder(req)
			}
		}
		r, err := runtime.NewRequestFromRequest(req)
		if err != nil {
			return nil, err
		}
		runtime.SkipBodyDownload(r)
		return pipeline.Do(r)
	})
}

// newAWS is the SDK's retry middleware, without the stack of others that the
// SDK builds around it for each call.
func newAWS(_ testing.TB, base http.RoundTripper, wait time.Duration) http.RoundTripper {
	loop := retry.NewAttemptMiddleware(retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return wait, nil })
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}},
		})
	}), smithyhttp.RequestCloner)
	send := middleware.FinalizeHandlerFunc(func(ctx context.Context, in middleware.FinalizeInput) (
		out middleware.FinalizeOutput, m middleware.Metadata, err error,
	) {
		resp, err := base.RoundTrip(in.Request.(*smithyhttp.Request).Build(ctx))
		if err != nil {
			return out, m, &smithyhttp.RequestSendError{Err: err}
		}
		out.Result = resp
		if resp.StatusCode < 400 {
			return out, m, nil
		}
		// The SDK's deserializers read an error's body before it is judged.
		content, err := io.ReadAll(resp.Body)
		if err != nil {
			return out, m, err
		}
		_ = resp.Body.Close() // read to its end
		resp.Body = io.NopCloser(bytes.NewReader(content))
		return out, m, &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: resp}, Err: errors.New(resp.Status),
		}
	})
	return tripper(func(req *http.Request) (*http.Response, error) {
		r := &smithyhttp.Request{Request: req}
		if req.Body != nil {
			body, err := seekable(req)
			if err != nil {
				return nil, err
			}
			if r, err = r.SetStream(body); err != nil {
				return nil, err
			}
		}
		out, _, err := loop.HandleFinalize(req.Context(), middleware.FinalizeInput{Request: r}, send)
		if resp, ok := out.Result.(*http.Response); ok {
			return resp, nil
		}
		return nil, err
	})
}

// seekable is a body as the cloud SDKs want theirs: one that can be sought. It
// takes a copy only if the request has no other way back.
func seekable(req *http.Request) (io.ReadSeeker, error) {
	if body, ok := req.Body.(io.ReadSeeker); ok {
		return body, nil
	}
	if req.GetBody != nil {
		return newRewinder(req), nil
	}
	content, err := io.ReadAll(req.Body)
	_ = req.Body.Close() // read, or broken
	return bytes.NewReader(content), err
}

// A rewinder seeks to the beginning, by GetBody, and tells where the end is.
type rewinder struct {
	io.ReadCloser
	size int64
	open func() (io.ReadCloser, error)
}

func newRewinder(req *http.Request) *rewinder {
	return &rewinder{req.Body, req.ContentLength, req.GetBody}
}

func (r *rewinder) Seek(_ int64, whence int) (_ int64, err error) {
	switch whence {
	case io.SeekEnd:
		return r.size, nil
	case io.SeekStart:
		r.ReadCloser, err = r.open()
	}
	return 0, err
}
