package retrip

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// botocore's table, service by service: what its additions change.
func TestBotocoreTable(t *testing.T) {
	coded := func(status int, code string) step {
		return answer(status, "<ErrorResponse><Error><Code>"+code+"</Code></Error></ErrorResponse>", "Content-Type: text/xml")
	}
	tests := []struct {
		service string
		play    step
		class   Class // elsewhere it is permanent
		general Class
	}{
		{"organizations", coded(400, "TooManyRequestsException"), Throttled, Permanent},
		{"organizations", status(429), Permanent, Throttled},
		{"dynamodb", coded(409, "ReplicatedWriteConflictException"), Transient, Permanent},
		{"dynamodb", coded(400, "ReplicatedWriteConflictException"), Permanent, Permanent},
		{"dynamodb", coded(400, "TransactionInProgressException"), Transient, Permanent},
		{"ec2", coded(503, "RequestLimitExceeded"), Throttled, Transient},
		{"ec2", coded(400, "RequestLimitExceeded"), Permanent, Permanent},
		{"cloudsearch", coded(509, "BandwidthLimitExceeded"), Throttled, Transient},
		{"kinesis", coded(400, "LimitExceededException"), Throttled, Permanent},
		{"sqs", coded(403, "RequestThrottled"), Throttled, Permanent},
		{"s3", coded(400, "RequestTimeout"), Transient, Permanent},
		{"s3", coded(400, "BadDigest"), Transient, Permanent},
		{"glacier", coded(408, "RequestTimeoutException"), Transient, Permanent},
		{"route53", coded(400, "PriorRequestNotComplete"), Throttled, Permanent},
		{"sts", coded(400, "IDPCommunicationError"), Transient, Permanent},
		{"lambda", coded(400, "Throttling"), Throttled, Throttled},
		{"lambda", coded(403, "Throttling"), Permanent, Permanent}, // only with status 400
		{"lambda", status(509), Transient, Transient},
		{"lambda", status(501), Permanent, Permanent},
		{"lambda", fails(&net.DNSError{IsNotFound: true}), Transient, Transient},
	}
	for _, tt := range tests {
		require.Equal(t, tt.class, classOf(t, Botocore(tt.service), tt.play), tt.service)
		require.Equal(t, tt.general, classOf(t, Botocore(""), tt.play), tt.service)
	}
	require.Nil(t, Botocore("").Quota)
	require.True(t, Botocore("").RetryNonIdempotent)
}

// DynamoDB's answers carry a checksum.
func TestChecksum(t *testing.T) {
	const body = `{"Items":[]}`
	sum := fmt.Sprint(crc32.ChecksumIEEE([]byte(body)))
	for _, make := range []func() *Strategy{func() *Strategy { return Botocore("dynamodb") }, JavaScriptV2DynamoDB} {
		require.Equal(t, Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: "+sum)))
		require.Equal(t, Transient, classOf(t, make(), answer(200, body+" ", "X-Amz-Crc32: "+sum)))
		require.Equal(t, Success, classOf(t, make(), answer(200, body)))
		require.Equal(t, Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: x")))
		require.Equal(t, Success, classOf(t, make(), answer(200, body, "X-Amz-Crc32: 1", "Content-Encoding: gzip")), "not as it was on the wire")
		require.Equal(t, Success, classOf(t, make(), answer(200, strings.Repeat("x", readAhead+1), "X-Amz-Crc32: 1")), "too long to be looked at")
	}
	require.Equal(t, Success, classOf(t, Botocore("s3"), answer(200, body, "X-Amz-Crc32: 1")))
}

// What the JavaScript SDK's customBackoff did: a negative number stops.
func TestCustomBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customBackoff := func(retry int) int { return []int{70, 140, -1}[retry] }
		s := JavaScriptV2()
		s.Backoff = BackoffFunc(func(r Retry) (time.Duration, bool) {
			ms := customBackoff(r.Index)
			return time.Duration(ms) * time.Millisecond, ms >= 0
		})
		base := script(status(500))
		_, err := get(t.Context(), &Transport{Base: base, Strategy: s})
		require.NoError(t, err)
		require.Equal(t, milliseconds(70, 140), base.waits())
	})
}

func TestKMS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := answer(429, `{"HttpStatus":429,"Code":"Rejected.Throttling","Message":"QPS Limit Exceeded"}`, "Content-Type: application/json")
		for _, tt := range []struct {
			make  func() *Strategy
			waits []time.Duration
		}{
			{AlibabaKMS, milliseconds(200, 400, 800, 1600)},
			{AlibabaKMSJava, milliseconds(400, 800, 1600, 3200)},
			{func() *Strategy {
				s := AlibabaKMS()
				s.Backoff = Exponential{Base: 200 * time.Millisecond, Cap: 500 * time.Millisecond}
				return s
			}, milliseconds(200, 400, 500, 500)},
		} {
			base := script(throttled)
			resp, err := (&Transport{Base: base, Strategy: tt.make()}).RoundTrip(newRequest(t, "POST", strings.NewReader("body")))
			require.NoError(t, err)
			require.Equal(t, 429, resp.StatusCode)
			require.Equal(t, tt.waits, base.waits())
		}
		require.Equal(t, Throttled, classOf(t, AlibabaKMS(), jsonError(400, "SDK.Rejected.Throttling.Again")))
		require.Equal(t, Throttled, classOf(t, AlibabaKMS(), status(429)), "without a code, too")
		require.Equal(t, Transient, classOf(t, AlibabaKMS(), status(501)))
	})
}

func TestFixedInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(status(503))
		start := time.Now()
		_, err := get(t.Context(), &Transport{Base: base, Strategy: FixedInterval(time.Second, 10*time.Second)})
		require.NoError(t, err)
		require.Len(t, base.sent(), 11)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
	for _, bad := range [][2]time.Duration{{0, time.Second}, {time.Second, 0}, {-1, time.Second}, {time.Second, -1}, {2, 1}} {
		require.Error(t, (&Transport{Strategy: FixedInterval(bad[0], bad[1])}).Validate(), bad)
	}
}

// The limiter of AdaptiveV1 lives as long as its request.
func TestAdaptiveV1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longest(AdaptiveV1())
		transport := &Transport{Base: script(status(429), status(429), status(200)), Strategy: s}
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
		_, err = get(t.Context(), &Transport{Base: script(status(429), status(200)), Strategy: s})
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
		want                       Class
	}{
		{"copy", "PUT", host + "/key", "", slow, Throttled},
		{"copy, other error", "PUT", host + "/key", "", other, Transient},
		{"copy, fine", "PUT", host + "/key", "", fine, Success},
		{"complete upload", "POST", host + "/key?uploadId=1", "", other, Transient},
		{"delete objects", "POST", host + "/?delete", "", other, Transient},
		{"select object content", "POST", host + "/key?select&select-type=2", "", other, Success},
		{"get object", "GET", host + "/key", "", other, Success},
		{"get object, path style", "GET", "https://s3.amazonaws.com/bucket/key", "", other, Success},
		{"list objects", "GET", host + "/?list-type=2", "", other, Transient},
		{"list objects, path style", "GET", "https://s3.us-east-1.amazonaws.com/bucket?list-type=2", "", other, Transient},
		{"list buckets", "GET", "https://s3.amazonaws.com/", "", other, Transient},
		{"list objects, path style, as of old", "GET", "https://s3.amazonaws.com/bucket/?prefix=a", "", other, Transient},
		{"object named like a question", "GET", host + "/key?list-type=2", "", other, Success},
		{"list parts", "GET", host + "/key?uploadId=1", "", other, Transient},
		{"object acl, path style", "GET", "https://s3.amazonaws.com/bucket/key?acl", "", other, Transient},
		{"older region", "PUT", "https://bucket.s3-eu-west-1.amazonaws.com/key", "", other, Transient},
		{"China", "PUT", "https://bucket.s3.cn-north-1.amazonaws.com.cn/key", "", other, Transient},
		{"express", "PUT", "https://b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/key", "", other, Transient},
		{"website", "GET", "https://bucket.s3-website-us-east-1.amazonaws.com/", "", other, Success},
		{"somebody's load balancer", "PUT", "https://s3-front-1234.us-east-1.elb.amazonaws.com/", "", other, Success},
		{"object lambda", "POST", "https://x.s3-object-lambda.us-east-1.amazonaws.com/WriteGetObjectResponse", "", other, Success},
		{"compatible, presigned, as is", "PUT", "http://localhost:9000/b/k?X-Amz-Credential=a/20260101/us-east-1/s3/aws4_request", "", other, Transient},
		{"compatible, object", "GET", "http://localhost:9000/b/k", "Credential=a/20260101/us-east-1/s3/aws4_request", other, Success},
		{"bucket policy", "GET", host + "/?policy", "", other, Success},
		{"other service", "PUT", "https://dynamodb.us-east-1.amazonaws.com/", "", other, Success},
		{"not AWS", "PUT", "https://example.com/key", "", other, Success},
		{"compatible, signed", "PUT", "http://localhost:9000/bucket/key", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, …", other, Transient},
		{"compatible, presigned", "PUT", "http://localhost:9000/b/k?X-Amz-Credential=a%2F20260101%2Fus-east-1%2Fs3%2Faws4_request", "", other, Transient},
	}
	for _, tt := range tests {
		for _, make := range []func() *Strategy{Standard2026, Adaptive2026, AdaptiveV1, func() *Strategy { return Botocore("s3") }, JavaV1, JavaScriptV2} {
			ctx, trace := WithTrace(WithMaxAttempts(t.Context(), 1))
			req, err := http.NewRequestWithContext(ctx, tt.method, tt.target, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", tt.auth)
			base := script(answer(200, tt.body, "Content-Type: application/xml"))
			resp, err := (&Transport{Base: base, Strategy: make()}).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tt.body, string(body), "the caller still reads it")
			require.Equal(t, tt.want, trace.Requests()[0][0].Class, tt.name)
		}
	}
}

// Many requests with a wrong clock at once: each is corrected by the offset it
// was signed with, none is taken for corrected already.
func TestConcurrentSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			signed, err := http.ParseTime(req.Header.Get("Signed"))
			if err != nil {
				return nil, err
			}
			now := time.Now().Add(ahead)
			play := status(200)
			if now.Sub(signed).Abs() > 5*time.Minute {
				play = status(403, "X-Amzn-Errortype: RequestTimeTooSkewed")
			}
			resp, err := play(req)
			resp.Header.Set("Date", now.UTC().Format(http.TimeFormat))
			resp.TLS = tlsState
			return resp, err
		})
		var mu sync.Mutex
		attempts := 0
		transport := &Transport{Base: base, Prepare: func(req *http.Request, p PrepareInfo) error {
			mu.Lock()
			attempts++
			mu.Unlock()
			req.Header.Set("Signed", time.Now().Add(p.Skew).UTC().Format(http.TimeFormat))
			return nil
		}}
		for _, want := range []int{40, 20} { // at first twice each, then all are right at once
			var wg sync.WaitGroup
			attempts = 0
			for range 20 {
				wg.Go(func() {
					resp, err := get(t.Context(), transport)
					assert.NoError(t, err)
					assert.Equal(t, 200, resp.StatusCode)
				})
			}
			wg.Wait()
			require.Equal(t, want, attempts)
		}

		// A connection that breaks teaches nothing, and nothing is unlearnt.
		working := transport.base
		transport.base = script(fails(errReset), func(req *http.Request) (*http.Response, error) { return working.RoundTrip(req) })
		attempts = 0
		resp, err := get(t.Context(), transport)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 2, attempts)
	})
}

func TestJavaV1(t *testing.T) {
	for _, code := range []int{500, 503} {
		require.Equal(t, Transient, classOf(t, JavaV1(), status(code)))
	}
	for _, code := range []int{502, 504, 408, 409, 400} {
		require.Equal(t, Permanent, classOf(t, JavaV1(), status(code)), "the page names 500 and 503")
	}
	require.Equal(t, Throttled, classOf(t, JavaV1(), jsonError(503, "SlowDown")), "which decides its backoff")
	require.Equal(t, Transient, classOf(t, JavaV1(), jsonError(403, "SignatureDoesNotMatch")))
	require.Equal(t, Transient, classOf(t, JavaV1(), fails(syscall.ECONNRESET)))
	require.Equal(t, 11, JavaV1DynamoDB().MaxAttempts)

	// A request whose content can't be repeated is not.
	base := script(status(503))
	_, err := (&Transport{Base: base, Strategy: JavaV1(), ReplayBuffer: 1}).RoundTrip(newRequest(t, "POST", opaque("body")))
	require.NoError(t, err)
	require.Len(t, base.sent(), 1)
}

// The limits of the client that JavaV1 had, on a connection that keeps silent.
func TestJavaV1Base(t *testing.T) {
	base := JavaV1Base()
	require.Equal(t, 50, base.MaxConnsPerHost)
	require.Equal(t, 50, base.MaxIdleConnsPerHost)
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		base := JavaV1Base()
		base.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return silentConn{client, 50 * time.Second}, nil
		}
		go func() {
			r := bufio.NewReader(server)
			for range 2 {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				time.Sleep(49 * time.Second) // just not too long
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				time.Sleep(49 * time.Second)
				_, _ = io.WriteString(server, "ok")
			}
			_, _ = http.ReadRequest(r)
		}()
		fetch := func(method string) error {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://example.com/", nil)
			if err != nil {
				return err
			}
			resp, err := base.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
		require.NoError(t, fetch("GET"))
		require.NoError(t, fetch("GET"))
		start := time.Now()
		err := fetch("POST") // a GET would be replayed on a new connection
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, 50*time.Second, time.Since(start))
		_ = server.Close()
		base.CloseIdleConnections()
	})
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
		base := script(step(respond(200, "application/xml", r)), status(200))
		req := newRequest(t, "PUT", nil)
		req.URL.Host = "bucket.s3.amazonaws.com"
		_, err := (&Transport{Base: base, Strategy: Standard2026()}).RoundTrip(req)
		require.NoError(t, err)
		require.Len(t, base.sent(), 2)
	})
}

// Not even a patient SDK sends again what can't be sent.
func TestAnyErrorButMalformed(t *testing.T) {
	for _, make := range []func() *Strategy{AdaptiveV1, JavaV1, JavaScriptV2, func() *Strategy { return Botocore("") }} {
		require.Equal(t, Transient, classOf(t, make(), fails(x509.UnknownAuthorityError{})))
		require.Equal(t, Permanent, classOf(t, make(), fails(&net.AddrError{Err: "missing port"})))
		require.Equal(t, Permanent, classOf(t, make(), fails(&baseError{"none"})))
	}
}
