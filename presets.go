package retrip

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-cleanhttp"
)

// The presets in this file do what the SDK or page they are named after does,
// the repeating of every request whatever its method included (RetryNonIdempotent): an
// SDK knows its operations (FixedInterval is no SDK's). Two things they don't take over: the caller's
// deadline still holds, and MaxRetryAfter is that of our modes.

// AdaptiveV1 returns a new strategy like the adaptive mode of the AWS SDK for
// Java before 2.26 (RetryMode.ADAPTIVE): as its standard mode, with a limiter
// that lives no longer than one request (NewRequestLimiter).
func AdaptiveV1() *Strategy {
	s := Standard()
	s.RetryNonIdempotent = true
	s.Classifiers = []Classifier{
		// core/aws-core, AwsErrorCode, AwsStatusCode
		OnCode(Throttled, "Throttling", "ThrottlingException", "ThrottledException",
			"ProvisionedThroughputExceededException", "SlowDown", "TooManyRequestsException",
			"RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled",
			"RequestThrottledException", "EC2ThrottledException"),
		OnCode(Transient, "PriorRequestNotComplete", "RequestTimeout", "RequestTimeoutException",
			"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"), // the last three are skew for certain
		OnCode(ClockSkewed, "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure"),
		S3Errors(),
		OnStatus(ClockSkewed, 401, 403),
		OnStatus(Throttled, 429), OnStatus(Transient, 500, 502, 503, 504), anyError{},
	}
	s.Hints = []HintReader{HintHeader{Name: "Retry-After", Format: Seconds}}
	s.Limiter = NewRequestLimiter()
	return s
}

// Botocore returns a new strategy like botocore's and the AWS CLI's legacy mode
// (botocore, data/_retry.json and retryhandler.py): 5 attempts, Rand·2^n
// seconds without a cap, no quota, and the additions for a service, named as
// in botocore ("dynamodb", "ec2", "s3", …). For another name, or none, it is
// the general table.
func Botocore(service string) *Strategy {
	s := &Strategy{
		MaxAttempts:        5,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            FullJitter{Base: time.Second},
		Classifiers: []Classifier{
			onStatusAndCode(Throttled, 400, "Throttling", "ThrottlingException", "ThrottledException",
				"RequestThrottledException", "ProvisionedThroughputExceededException"),
		},
	}
	tooMany := OnStatus(Throttled, 429)
	var extra []Classifier
	switch service {
	case "organizations": // reuses the name of the rule for 429, which thereby ends
		tooMany = onStatusAndCode(Throttled, 400, "TooManyRequestsException")
	case "dynamodb":
		s.MaxAttempts, s.Backoff = 10, Exponential{Base: 50 * time.Millisecond}
		extra = []Classifier{
			onStatusAndCode(Transient, 409, "ReplicatedWriteConflictException"),
			onStatusAndCode(Transient, 400, "TransactionInProgressException"),
			checksum{},
		}
	case "ec2":
		extra = []Classifier{onStatusAndCode(Throttled, 503, "RequestLimitExceeded", "EC2ThrottledException")}
	case "cloudsearch":
		extra = []Classifier{onStatusAndCode(Throttled, 509, "BandwidthLimitExceeded")}
	case "kinesis":
		extra = []Classifier{onStatusAndCode(Throttled, 400, "LimitExceededException")}
	case "sqs":
		extra = []Classifier{onStatusAndCode(Throttled, 403, "RequestThrottled")}
	case "s3":
		extra = []Classifier{onStatusAndCode(Transient, 400, "RequestTimeout", "BadDigest"), S3Errors()}
	case "glacier":
		extra = []Classifier{onStatusAndCode(Transient, 408, "RequestTimeoutException")}
	case "route53":
		extra = []Classifier{onStatusAndCode(Throttled, 400, "Throttling", "PriorRequestNotComplete")}
	case "sts":
		extra = []Classifier{onStatusAndCode(Transient, 400, "IDPCommunicationError")}
	}
	s.Classifiers = append(s.Classifiers, extra...)
	s.Classifiers = append(s.Classifiers, tooMany, OnStatus(Transient, 500, 502, 503, 504, 509), anyError{})
	return s
}

// JavaV1 returns a new strategy like the AWS SDK for Java 1.x's default
// (PredefinedRetryPolicies, PredefinedBackoffStrategies, AmazonHttpClient): 4
// attempts, full jitter from 100 ms, equal jitter from 500 ms and free of
// charge after throttling. It retries what the page names: I/O errors, 500 and
// 503, throttling, clock skew, and no request whose content can't be repeated.
// JavaV1Base makes the base that its client had.
func JavaV1() *Strategy {
	return &Strategy{
		MaxAttempts:        4,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            fullJitter(100 * time.Millisecond),
		ThrottleBackoff:    EqualJitter{Base: 500 * time.Millisecond, Cap: maxBackoff},
		Quota:              NewBucket(quotaCapacity),
		Cost:               5,
		Classifiers: []Classifier{
			// RetryUtils. Throttling comes first, since it decides the backoff also
			// of a 503.
			OnCode(Throttled, "Throttling", "ThrottlingException", "ThrottledException",
				"ProvisionedThroughputExceededException", "SlowDown", "TooManyRequestsException",
				"RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled"),
			OnStatus(Throttled, 429),
			anyError{},
			OnStatus(Transient, 500, 503),
			// Skew for certain, to this SDK, whatever the clocks say.
			OnCode(Transient, "RequestTimeTooSkewed", "RequestExpired", "InvalidSignatureException",
				"SignatureDoesNotMatch", "AuthFailure", "RequestInTheFuture"),
			S3Errors(),
		},
	}
}

// JavaV1DynamoDB returns a new strategy like JavaV1 with what that SDK did for
// DynamoDB: 11 attempts, full jitter from 25 ms.
func JavaV1DynamoDB() *Strategy {
	s := JavaV1()
	s.MaxAttempts, s.Backoff = 11, fullJitter(25*time.Millisecond)
	return s
}

// JavaScriptV2 returns a new strategy like the AWS SDK for JavaScript 2.x
// (lib/service.js, lib/util.js): 4 attempts, Rand·100 ms·2^n without a cap, no
// quota; statuses from 500 and 429, timeouts and other errors, expired
// credentials; a Retry-After is added to the delay (the SDK reads it of its
// metadata calls only). Its customBackoff is a BackoffFunc, which returns false
// where that returned a negative number.
func JavaScriptV2() *Strategy {
	return &Strategy{
		MaxAttempts:        4,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            FullJitter{Base: 100 * time.Millisecond},
		Hints:              []HintReader{HintHeader{Name: "Retry-After", Format: Seconds, Additive: true}},
		Classifiers: []Classifier{
			OnCode(Throttled, "ProvisionedThroughputExceededException", "Throttling", "ThrottlingException",
				"RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
				"TooManyRequestsException", "TransactionInProgressException", "EC2ThrottledException"),
			OnCode(Transient, "ExpiredTokenException", "ExpiredToken", "RequestExpired"),
			OnCode(ClockSkewed, "RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch",
				"AuthFailure", "RequestInTheFuture"), // as with correctClockSkew, if Prepare can sign anew
			S3Errors(), OnStatus(Throttled, 429), serverErrors{}, anyError{},
		},
	}
}

// JavaScriptV2DynamoDB returns a new strategy like JavaScriptV2 with what that
// SDK did for DynamoDB (lib/services/dynamodb.js): 11 attempts, from 50 ms, and
// a retry when the answer's checksum is wrong.
func JavaScriptV2DynamoDB() *Strategy {
	s := JavaScriptV2()
	s.MaxAttempts, s.Backoff = 11, FullJitter{Base: 50 * time.Millisecond}
	s.Classifiers = append(s.Classifiers, checksum{})
	return s
}

// AlibabaKMS returns a new strategy as Alibaba Cloud's page on retries for its
// Key Management Service has it in pseudo code: 5 calls, 200 ms·2^n between
// them, without jitter, when the code contains Rejected.Throttling (whose
// status is 429), or is one that Alibaba's SDKs take for throttling, or the
// status is 5xx. The maximum backoff is the Cap of its Exponential. (The page
// also waits 200 ms ahead of the first call; a Transport does not.) Errors of
// the connection, on which the page is silent, are classified as in Standard.
func AlibabaKMS() *Strategy {
	return &Strategy{
		MaxAttempts:        5,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            Exponential{Base: 200 * time.Millisecond},
		Classifiers: []Classifier{
			codeContains{Throttled, "Rejected.Throttling"},
			OnCode(Throttled, "Throttling", "Throttling.User", "Throttling.Api"), // all its services: darabonba-openapi
			OnStatus(Throttled, 429), serverErrors{}, transportErrors{},
		},
	}
}

// AlibabaKMSJava returns a new strategy like AlibabaKMS with the waits of the
// same page's Java sample, which begin one step later: 400 ms·2^n.
func AlibabaKMSJava() *Strategy {
	s := AlibabaKMS()
	s.Backoff = Exponential{Base: 400 * time.Millisecond}
	return s
}

// FixedInterval returns a new strategy that tries again every interval until
// period has passed since the first attempt ended, however often that is, the
// simple retry of Alibaba Cloud's page. What it retries is as in Standard; it
// does not ask the server how long to wait, repeats only what is safe to, and
// has no quota, so keep it to few clients. An interval that is not above 0, or
// a period shorter than it, is reported by Transport.Validate.
func FixedInterval(interval, period time.Duration) *Strategy {
	if period == 0 {
		period = -1 // which is an error; for a Constant, 0 would be no end at all
	}
	s := Standard()
	s.MaxAttempts = 1 << 30 // the period decides
	s.Backoff, s.ThrottleBackoff = Constant{Wait: interval, Period: period}, nil
	s.Quota, s.Hints = nil, nil
	return s
}

// serverErrors takes every 5xx for transient.
type serverErrors struct{}

func (serverErrors) Classify(a Attempt) Class {
	if a.Response != nil && a.Response.StatusCode >= 500 {
		return Transient
	}
	return Unknown
}

func (serverErrors) String() string     { return "transient: status 5xx" }
func (serverErrors) FailuresOnly() bool { return true }

// anyError takes every error of the base for transient, a bad certificate too,
// but for requests that can't be sent at all.
type anyError struct{}

func (anyError) Classify(a Attempt) Class {
	switch {
	case a.Err == nil:
		return Unknown
	case malformed(a.Err):
		return Permanent
	default:
		return Transient
	}
}

func (anyError) String() string     { return "transient: any error but malformed messages" }
func (anyError) FailuresOnly() bool { return true }

// codeContains looks for a piece of the error code.
type codeContains struct {
	class Class
	piece string
}

func (c codeContains) Classify(a Attempt) Class {
	if strings.Contains(a.Code, c.piece) {
		return c.class
	}
	return Unknown
}

func (c codeContains) FailuresOnly() bool { return true }

func (c codeContains) String() string { return c.class.String() + ": code contains " + c.piece }

func onStatusAndCode(c Class, status int, codes ...string) Classifier {
	r := newCodeRule(c, codes...)
	r.status = status
	return r
}

// JavaV1Base returns a new base for a Transport with the limits of the AWS SDK
// for Java 1.x's client (ClientConfiguration): 10 s to connect, 50 s without a
// byte from the server, 50 connections to a host.
func JavaV1Base() *http.Transport {
	const connect, silence, connections = 10 * time.Second, 50 * time.Second, 50
	base := cleanhttp.DefaultPooledTransport()
	base.MaxConnsPerHost, base.MaxIdleConnsPerHost = connections, connections
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return silentConn{conn, silence}, nil
	}
	return base
}

// A silentConn gives up when the other side is silent for too long. While we
// write, it may be.
type silentConn struct {
	net.Conn
	limit time.Duration
}

func (c silentConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c silentConn) Write(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
