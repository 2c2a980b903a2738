package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/retrip-go/retrip"
	retripaws "github.com/retrip-go/retrip/aws"
)

// newConfig puts retrip under every client that is made of the configuration.
// With the SDK's config module it is
//
//	config.LoadDefaultConfig(ctx, config.WithHTTPClient(client), config.WithRetryer(noRetries))
func newConfig(client *http.Client) aws.Config {
	return aws.Config{
		Region:      region,
		Credentials: aws.CredentialsProviderFunc(exampleCredentials),
		HTTPClient:  client,
		Retryer:     noRetries,
		// As LoadDefaultConfig has it.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}
}

// noRetries switches the SDK's own retries off. Left on, the two add up: retrip
// sends the SDK's first attempt up to three times, and, seeing in
// Amz-Sdk-Request that it is not alone, its further ones once each. That is five
// attempts, after waits of two minds, from two quotas.
func noRetries() aws.Retryer { return aws.NopRetryer{} }

// newClient makes the one client for all services. In production, base is
// awshttp.NewBuildableClient().GetTransport(), or nil.
func newClient(base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: &retrip.Transport{
			Base: base,
			// Each service and region has a host, and so a strategy and a quota, of
			// its own; with S3, each bucket.
			PerKey: strategyFor,
			// The SDK's client limits the server's silence, http.Client does not. The
			// limit must be above the 20 s of a long poll, and the time an upload takes.
			AttemptTimeout: time.Minute,
		},
		CheckRedirect: redirectAsTheSDK,
	}
}

// strategyFor chooses what the SDK would. RetryNonIdempotent can stay false: the SDK
// marks all it sends with Amz-Sdk-Invocation-Id, which retrip takes for the
// promise that it may be repeated. For an operation that may not, see
// atMostOnce.
func strategyFor(host string) *retrip.Strategy {
	s := retripaws.Standard2026()
	if strings.HasPrefix(host, "dynamodb.") {
		s = retripaws.Standard2026DynamoDB()
	}
	// A demonstration has less time than the mode takes: leave these out.
	s.Backoff = retrip.FullJitter{Base: time.Millisecond, Cap: 10 * time.Millisecond}
	s.ThrottleBackoff = s.Backoff
	return s
}

// redirectAsTheSDK follows what the SDK's own client follows. A client made by
// hand needs it, since http.Client would also follow a 301, with a GET.
func redirectAsTheSDK(req *http.Request, via []*http.Request) error {
	if code := req.Response.StatusCode; code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return http.ErrUseLastResponse
	}
	if req.URL.Host != via[len(via)-1].URL.Host {
		req.Header.Del("X-Amz-Security-Token") // http.Client removes Authorization
	}
	return nil
}

func exampleCredentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: accessKeyID, SecretAccessKey: secretAccessKey}, nil
}

// atMostOnce takes the SDK's mark off the requests of a client or a call, so that
// they count for what they are: a POST that may have had its effect is not
// sent again, one that was throttled is.
func atMostOnce(stack *middleware.Stack) error {
	_, err := stack.Build.Remove((*awsmiddleware.ClientRequestID)(nil).ID())
	return err
}

// reopening lets a file of any size be sent again without a copy in memory.
// The SDK hides its files from the transport and sets no GetBody, so without
// this a body counts as one that can't be reopened: up to
// Transport.ReplayBuffer it is kept, above it is sent only once.
//
// It wants a file that is sent as it is. Over TLS the SDK otherwise wraps it to
// append a checksum: give the checksum with the input instead (ChecksumCRC32).
func reopening(f *os.File) func(*s3.Options) {
	reopen := func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		middleware.FinalizeOutput, middleware.Metadata, error,
	) {
		req, ok := in.Request.(*smithyhttp.Request)
		if !ok || req.GetStream() != io.Reader(f) {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, errors.New("the body is not the file itself")
		}
		start, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, err
		}
		size := req.ContentLength
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(f, start, size)), nil
		}
		return next.HandleFinalize(ctx, in)
	}
	return s3.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("Reopening", reopen), middleware.After)
	})
}
