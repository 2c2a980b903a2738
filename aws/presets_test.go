package aws_test

import (
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

// botocore's table, service by service: what its additions change.
func TestBotocoreTable(t *testing.T) {
	coded := func(status int, code string) step {
		return answer(status, "<ErrorResponse><Error><Code>"+code+"</Code></Error></ErrorResponse>", "Content-Type: text/xml")
	}
	tests := []struct {
		service string
		play    step
		class   retrip.Class // elsewhere it is permanent
		general retrip.Class
	}{
		{"organizations", coded(400, "TooManyRequestsException"), retrip.Throttled, retrip.Permanent},
		{"organizations", status(429), retrip.Permanent, retrip.Throttled},
		{"dynamodb", coded(409, "ReplicatedWriteConflictException"), retrip.Transient, retrip.Permanent},
		{"dynamodb", coded(400, "ReplicatedWriteConflictException"), retrip.Permanent, retrip.Permanent},
		{"dynamodb", coded(400, "TransactionInProgressException"), retrip.Transient, retrip.Permanent},
		{"ec2", coded(503, "RequestLimitExceeded"), retrip.Throttled, retrip.Transient},
		{"ec2", coded(400, "RequestLimitExceeded"), retrip.Permanent, retrip.Permanent},
		{"cloudsearch", coded(509, "BandwidthLimitExceeded"), retrip.Throttled, retrip.Transient},
		{"kinesis", coded(400, "LimitExceededException"), retrip.Throttled, retrip.Permanent},
		{"sqs", coded(403, "RequestThrottled"), retrip.Throttled, retrip.Permanent},
		{"s3", coded(400, "RequestTimeout"), retrip.Transient, retrip.Permanent},
		{"s3", coded(400, "BadDigest"), retrip.Transient, retrip.Permanent},
		{"glacier", coded(408, "RequestTimeoutException"), retrip.Transient, retrip.Permanent},
		{"route53", coded(400, "PriorRequestNotComplete"), retrip.Throttled, retrip.Permanent},
		{"sts", coded(400, "IDPCommunicationError"), retrip.Transient, retrip.Permanent},
		{"lambda", coded(400, "Throttling"), retrip.Throttled, retrip.Throttled},
		{"lambda", coded(403, "Throttling"), retrip.Permanent, retrip.Permanent}, // only with status 400
		{"lambda", status(509), retrip.Transient, retrip.Transient},
		{"lambda", status(501), retrip.Permanent, retrip.Permanent},
		{"lambda", fails(&net.DNSError{IsNotFound: true}), retrip.Transient, retrip.Transient},
	}
	for _, tt := range tests {
		require.Equal(t, tt.class, classOf(t, aws.Botocore(tt.service), tt.play), tt.service)
		require.Equal(t, tt.general, classOf(t, aws.Botocore(""), tt.play), tt.service)
	}
	require.Nil(t, aws.Botocore("").Quota)
	require.True(t, aws.Botocore("").RetryNonIdempotent)
}

// DynamoDB's answers carry a checksum.
func TestWrongChecksumIsRetried(t *testing.T) {
	const body = `{"Items":[]}`
	sum := fmt.Sprint(crc32.ChecksumIEEE([]byte(body)))
	for _, make := range []func() *retrip.Strategy{func() *retrip.Strategy { return aws.Botocore("dynamodb") }, aws.JavaScriptV2DynamoDB} {
		require.Equal(t, retrip.Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: "+sum)))
		require.Equal(t, retrip.Transient, classOf(t, make(), answer(200, body+" ", "X-Amz-Crc32: "+sum)))
		require.Equal(t, retrip.Success, classOf(t, make(), answer(200, body)))
		require.Equal(t, retrip.Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: x")))
		require.Equal(t, retrip.Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: 1", "Content-Encoding: gzip")), "not as it was on the wire")
		require.Equal(t, retrip.Success, classOf(t, make(), answer(200, strings.Repeat("x", 64<<10+1), "X-Amz-Crc32: 1")), "too long to be looked at")
	}
	require.Equal(t, retrip.Success, classOf(t, aws.Botocore("s3"), answer(200, body, "X-Amz-Crc32: 1")))
}

// What the JavaScript SDK's customBackoff did: a negative number stops.
func TestCustomBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customBackoff := func(retry int) int { return []int{70, 140, -1}[retry] }
		s := aws.JavaScriptV2()
		s.Backoff = retrip.BackoffFunc(func(r retrip.Retry) (time.Duration, bool) {
			ms := customBackoff(r.Index)
			return time.Duration(ms) * time.Millisecond, ms >= 0
		})
		base := script(status(500))
		_, err := get(t.Context(), &retrip.Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, milliseconds(70, 140), base.Waits())
	})
}

// The limiter of AdaptiveV1 lives as long as its request.
func TestAdaptiveV1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(aws.AdaptiveV1())
		transport := &retrip.Transport{Base: script(status(429), status(429), status(200)), Strategy: s}
		start := time.Now()
		_, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 3*time.Second, "a backoff of 1 s and 2 s, and the limiter's say")
		require.False(t, s.Limiter.State().Enabled, "it only stands for those of the requests")
		start = time.Now()
		_, err = get(t.Context(), transport)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "nothing is remembered")

		// A retry after a first throttle, with nothing measured, waits two seconds
		// where the backoff alone would be one.
		start = time.Now()
		_, err = get(t.Context(), &retrip.Transport{Base: script(status(429), status(200)), Strategy: s})
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestS3Errors(t *testing.T) {
	const (
		slow  = `<?xml version="1.0"?>` + "\n<Error><Code>SlowDown</Code></Error>"
		other = `<Error><Code>NoSuchUpload</Code></Error>`
		fine  = `<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>`
		host  = "https://bucket.s3.eu-central-1.amazonaws.com"
	)
	tests := []struct {
		name, method, target, auth string
		body                       string
		want                       retrip.Class
	}{
		{"copy", "PUT", host + "/key", "", slow, retrip.Throttled},
		{"copy, other error", "PUT", host + "/key", "", other, retrip.Transient},
		{"copy, fine", "PUT", host + "/key", "", fine, retrip.Success},
		{"complete upload", "POST", host + "/key?uploadId=1", "", other, retrip.Transient},
		{"delete objects", "POST", host + "/?delete", "", other, retrip.Transient},
		{"select object content", "POST", host + "/key?select&select-type=2", "", other, retrip.Success},
		{"get object", "GET", host + "/key", "", other, retrip.Success},
		{"get object, path style", "GET", "https://s3.amazonaws.com/bucket/key", "", other, retrip.Success},
		{"list objects", "GET", host + "/?list-type=2", "", other, retrip.Transient},
		{"list objects, path style", "GET", "https://s3.us-east-1.amazonaws.com/bucket?list-type=2", "", other, retrip.Transient},
		{"list buckets", "GET", "https://s3.amazonaws.com/", "", other, retrip.Transient},
		{"list objects, path style, as of old", "GET", "https://s3.amazonaws.com/bucket/?prefix=a", "", other, retrip.Transient},
		{"object named like a question", "GET", host + "/key?list-type=2", "", other, retrip.Success},
		{"list parts", "GET", host + "/key?uploadId=1", "", other, retrip.Transient},
		{"object acl, path style", "GET", "https://s3.amazonaws.com/bucket/key?acl", "", other, retrip.Transient},
		{"older region", "PUT", "https://bucket.s3-eu-west-1.amazonaws.com/key", "", other, retrip.Transient},
		{"China", "PUT", "https://bucket.s3.cn-north-1.amazonaws.com.cn/key", "", other, retrip.Transient},
		{"express", "PUT", "https://b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/key", "", other, retrip.Transient},
		{"website", "GET", "https://bucket.s3-website-us-east-1.amazonaws.com/", "", other, retrip.Success},
		{"somebody's load balancer", "PUT", "https://s3-front-1234.us-east-1.elb.amazonaws.com/", "", other, retrip.Success},
		{"object lambda", "POST", "https://x.s3-object-lambda.us-east-1.amazonaws.com/WriteGetObjectResponse", "", other, retrip.Success},
		{"compatible, presigned, as is", "PUT", "http://localhost:9000/b/k?X-Amz-Credential=a/20260101/us-east-1/s3/aws4_request", "", other, retrip.Transient},
		{"compatible, object", "GET", "http://localhost:9000/b/k", "Credential=a/20260101/us-east-1/s3/aws4_request", other, retrip.Success},
		{"bucket policy", "GET", host + "/?policy", "", other, retrip.Success},
		{"other service", "PUT", "https://dynamodb.us-east-1.amazonaws.com/", "", other, retrip.Success},
		{"not AWS", "PUT", "https://example.com/key", "", other, retrip.Success},
		{"compatible, signed", "PUT", "http://localhost:9000/bucket/key", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, …", other, retrip.Transient},
		{"compatible, presigned", "PUT", "http://localhost:9000/b/k?X-Amz-Credential=a%2F20260101%2Fus-east-1%2Fs3%2Faws4_request", "", other, retrip.Transient},
	}
	for _, tt := range tests {
		for _, make := range []func() *retrip.Strategy{aws.Standard2026, aws.Adaptive2026, aws.AdaptiveV1, func() *retrip.Strategy { return aws.Botocore("s3") }, aws.JavaV1, aws.JavaScriptV2} {
			ctx, trace := retrip.WithTrace(retrip.WithMaxAttempts(t.Context(), 1))
			req := testkit.RequestTo(t, tt.method, tt.target, nil).WithContext(ctx)
			req.Header.Set("Authorization", tt.auth)
			base := script(answer(200, tt.body, "Content-Type: application/xml"))
			resp, err := (&retrip.Transport{Base: base, Strategy: make()}).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tt.body, string(body), "the caller still reads it")
			require.Equal(t, tt.want, trace.Requests()[0][0].Class, tt.name)
		}
	}
}

func TestJavaV1RetriesWhatItsPageNames(t *testing.T) {
	for _, code := range []int{500, 503} {
		require.Equal(t, retrip.Transient, classOf(t, aws.JavaV1(), status(code)))
	}
	for _, code := range []int{502, 504, 408, 409, 400} {
		require.Equal(t, retrip.Permanent, classOf(t, aws.JavaV1(), status(code)), "the page names 500 and 503")
	}
	require.Equal(t, retrip.Throttled, classOf(t, aws.JavaV1(), jsonError(503, "SlowDown")), "which decides its backoff")
	require.Equal(t, retrip.Transient, classOf(t, aws.JavaV1(), jsonError(403, "SignatureDoesNotMatch")))
	require.Equal(t, retrip.Transient, classOf(t, aws.JavaV1(), fails(socketerr.ConnReset)))
	require.Equal(t, 11, aws.JavaV1DynamoDB().MaxAttempts)

	// A request whose content can't be repeated is not.
	base := script(status(503))
	_, err := (&retrip.Transport{Base: base, Strategy: aws.JavaV1(), ReplayBuffer: 1}).RoundTrip(newRequest(t, "POST", io.MultiReader(strings.NewReader("body"))))
	require.NoError(t, err)
	require.Len(t, base.Sent(), 1)
}

// S3 sends its 200 when it begins to copy, blanks to keep the line alive, and
// much later how it went.
func TestS3ErrorAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			for range 6 {
				time.Sleep(5 * time.Second)
				_, _ = io.WriteString(w, " ")
			}
			_, _ = io.WriteString(w, "<Error><Code>InternalError</Code></Error>")
			_ = w.Close()
		}()
		base := script(testkit.Stream(200, r, "Content-Type: application/xml"), status(200))
		req := newRequest(t, "PUT", nil)
		req.URL.Host = "bucket.s3.amazonaws.com"
		_, err := (&retrip.Transport{Base: base, Strategy: aws.Standard2026()}).RoundTrip(req)
		require.NoError(t, err)
		require.Len(t, base.Sent(), 2)
	})
}

// Not even a patient SDK sends again what can't be sent.
func TestAnyErrorButMalformed(t *testing.T) {
	for _, make := range []func() *retrip.Strategy{aws.AdaptiveV1, aws.JavaV1, aws.JavaScriptV2, func() *retrip.Strategy { return aws.Botocore("") }} {
		require.Equal(t, retrip.Transient, classOf(t, make(), fails(x509.UnknownAuthorityError{})))
		require.Equal(t, retrip.Permanent, classOf(t, make(), fails(&net.AddrError{Err: "missing port"})))
		require.Equal(t, retrip.Permanent, classOf(t, make(), step(func(*http.Request) (*http.Response, error) { return nil, nil })))
	}
}

// A long poll that the quota refuses waits its backoff; other requests don't.
func TestLongPollsWaitTheirBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for target, wait := range map[string]time.Duration{
			"AmazonSQS.ReceiveMessage":                  50 * time.Millisecond,
			"AWSStepFunctions.GetActivityTask":          50 * time.Millisecond,
			"SimpleWorkflowService.PollForActivityTask": 50 * time.Millisecond,
			"SimpleWorkflowService.PollForDecisionTask": 50 * time.Millisecond,
			"AmazonSQS.SendMessage":                     0,
			"DynamoDB_20120810.ReceiveMessage":          0,
		} {
			s := longest(aws.Standard2026())
			s.Quota = retrip.NewBucket(0)
			req := newRequest(t, "GET", nil)
			req.Header.Set("X-Amz-Target", target)
			start := time.Now()
			_, err := (&retrip.Transport{Base: script(status(503)), Strategy: s}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, wait, time.Since(start), target)
		}
	})
}

// The statuses that AWS SDKs retry are fewer than those of retrip.Standard.
func TestStatuses2026(t *testing.T) {
	for _, code := range []int{408, 425, 501, 505, 507, 508, 509, 520, 529, 599} {
		require.Equal(t, retrip.Permanent, classOf(t, aws.Standard2026(), status(code)), code)
	}
	for _, code := range []int{500, 502, 503, 504} {
		require.Equal(t, retrip.Transient, classOf(t, aws.Standard2026(), status(code)), code)
	}
	require.Equal(t, retrip.Throttled, classOf(t, aws.Standard2026(), status(429)))
}

// The modes' numbers against their source.
func TestModes2026(t *testing.T) {
	const ms, cap = time.Millisecond, 20 * time.Second
	for _, tt := range []struct {
		name     string
		s        *retrip.Strategy
		attempts int
		backoff  time.Duration
		limiter  bool
	}{
		{"standard", aws.Standard2026(), 3, 50 * ms, false},
		{"adaptive", aws.Adaptive2026(), 3, 50 * ms, true},
		{"standard, DynamoDB", aws.Standard2026DynamoDB(), 4, 25 * ms, false},
		{"adaptive, DynamoDB", aws.Adaptive2026DynamoDB(), 4, 25 * ms, true},
	} {
		require.Equal(t, tt.attempts, tt.s.MaxAttempts, tt.name)
		require.Equal(t, retrip.FullJitter{Base: tt.backoff, Cap: cap}, tt.s.Backoff, tt.name)
		require.Equal(t, retrip.FullJitter{Base: time.Second, Cap: cap}, tt.s.ThrottleBackoff, tt.name)
		require.Equal(t, 14, tt.s.Cost, tt.name)
		require.Equal(t, 5, tt.s.ThrottleCost, tt.name)
		require.Equal(t, 500, tt.s.Quota.(*retrip.Bucket).Tokens(), tt.name)
		require.Equal(t, time.Minute, tt.s.MaxRetryAfter, tt.name)
		require.Equal(t, tt.limiter, tt.s.Limiter != nil, tt.name)
		require.False(t, tt.s.RetryNonIdempotent, tt.name)
	}
}
