package aws

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/retrip-go/retrip"
)

// The presets in this file do what the SDK that they are named after does,
// repeating every request whatever its method included (RetryNonIdempotent): an
// SDK knows its operations. Two things they don't take over: the caller's
// deadline still holds, and MaxRetryAfter is that of retrip's modes.

const maxServerWait = 60 * time.Second // that of retrip's modes

type rules = []retrip.Classifier

const (
	throttled   = retrip.Throttled
	transient   = retrip.Transient
	clockSkewed = retrip.ClockSkewed
)

func onCode(c retrip.Class, codes ...string) retrip.Classifier {
	return retrip.On(c, retrip.CodeIs(codes...))
}

func onStatus(c retrip.Class, statuses ...int) retrip.Classifier {
	return retrip.On(c, retrip.StatusIs(statuses...))
}

func onStatusAndCode(c retrip.Class, status int, codes ...string) retrip.Classifier {
	return retrip.On(c, retrip.StatusIs(status).And(retrip.CodeIs(codes...)))
}

// AdaptiveV1 returns a new strategy like the adaptive mode of the AWS SDK for
// Java before 2.26 (RetryMode.ADAPTIVE): as its standard mode, with a limiter
// that lives no longer than one request (retrip.NewRequestLimiter).
func AdaptiveV1() *retrip.Strategy {
	s := retrip.Standard()
	s.RetryNonIdempotent = true
	s.Classifiers = rules{
		// core/aws-core, AwsErrorCode, AwsStatusCode
		onCode(throttled, "Throttling", "ThrottlingException", "ThrottledException",
			"ProvisionedThroughputExceededException", "SlowDown", "TooManyRequestsException",
			"RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled",
			"RequestThrottledException", "EC2ThrottledException"),
		onCode(transient, "PriorRequestNotComplete", "RequestTimeout", "RequestTimeoutException",
			"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"), // the last three are skew for certain
		onCode(clockSkewed, "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure"),
		S3Errors(),
		onStatus(clockSkewed, 401, 403),
		onStatus(throttled, 429), onStatus(transient, 500, 502, 503, 504), retrip.AnyError(),
	}
	s.Hints = []retrip.HintReader{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds}}
	s.MinSkew = 4 * time.Minute // ClockSkew.java, isClockSkewed: or more, where aws-sdk-go-v2 wants more than 4
	s.Limiter = retrip.NewRequestLimiter()
	return s
}

// Botocore returns a new strategy like botocore's and the AWS CLI's legacy mode
// (botocore, data/_retry.json and retryhandler.py): 5 attempts, Rand·2^n
// seconds without a cap, no quota, and the additions for a service, named as
// in botocore ("dynamodb", with 10 attempts and 50 ms·2^n; "ec2", "s3", …). For
// another name, or none, it is the general table.
func Botocore(service string) *retrip.Strategy {
	s := &retrip.Strategy{
		MaxAttempts:        5,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            retrip.FullJitter{Base: time.Second},
		Classifiers: rules{
			onStatusAndCode(throttled, 400, "Throttling", "ThrottlingException", "ThrottledException",
				"RequestThrottledException", "ProvisionedThroughputExceededException"),
		},
	}
	tooMany := onStatus(throttled, 429)
	var extra rules
	switch service {
	case "organizations": // reuses the name of the rule for 429, which thereby ends
		tooMany = onStatusAndCode(throttled, 400, "TooManyRequestsException")
	case "dynamodb":
		s.MaxAttempts, s.Backoff = 10, retrip.Exponential{Base: 50 * time.Millisecond}
		extra = rules{
			onStatusAndCode(transient, 409, "ReplicatedWriteConflictException"),
			onStatusAndCode(transient, 400, "TransactionInProgressException"),
			checksum{},
		}
	case "ec2":
		extra = rules{onStatusAndCode(throttled, 503, "RequestLimitExceeded", "EC2ThrottledException")}
	case "cloudsearch":
		extra = rules{onStatusAndCode(throttled, 509, "BandwidthLimitExceeded")}
	case "kinesis":
		extra = rules{onStatusAndCode(throttled, 400, "LimitExceededException")}
	case "sqs":
		extra = rules{onStatusAndCode(throttled, 403, "RequestThrottled")}
	case "s3":
		extra = rules{onStatusAndCode(transient, 400, "RequestTimeout", "BadDigest"), S3Errors()}
	case "glacier":
		extra = rules{onStatusAndCode(transient, 408, "RequestTimeoutException")}
	case "route53":
		extra = rules{onStatusAndCode(throttled, 400, "Throttling", "PriorRequestNotComplete")}
	case "sts":
		extra = rules{onStatusAndCode(transient, 400, "IDPCommunicationError")}
	}
	s.Classifiers = append(s.Classifiers, extra...)
	s.Classifiers = append(s.Classifiers, tooMany, onStatus(transient, 500, 502, 503, 504, 509), retrip.AnyError())
	return s
}

// JavaV1 returns a new strategy like the AWS SDK for Java 1.x's default
// (PredefinedRetryPolicies, PredefinedBackoffStrategies, AmazonHttpClient): 4
// attempts, full jitter from 100 ms, equal jitter from 500 ms and free of
// charge after throttling. It retries I/O errors, 500 and 503, throttling, and
// clock skew, and no request whose content can't be repeated.
// JavaV1Base makes the base that its client had.
func JavaV1() *retrip.Strategy {
	s := retrip.Legacy() // which took these numbers over
	s.RetryNonIdempotent, s.Hints = true, nil
	s.Classifiers = rules{
		// RetryUtils. Throttling comes first, since it decides the backoff also
		// of a 503.
		onCode(throttled, "Throttling", "ThrottlingException", "ThrottledException",
			"ProvisionedThroughputExceededException", "SlowDown", "TooManyRequestsException",
			"RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled"),
		onStatus(throttled, 429),
		retrip.AnyError(),
		onStatus(transient, 500, 503),
		// To this SDK these mean skew for certain, whatever the clocks say.
		onCode(transient, "RequestTimeTooSkewed", "RequestExpired", "InvalidSignatureException",
			"SignatureDoesNotMatch", "AuthFailure", "RequestInTheFuture"),
		S3Errors(),
	}
	return s
}

// JavaV1DynamoDB returns a new strategy like JavaV1 with what that SDK did for
// DynamoDB: 11 attempts, full jitter from 25 ms.
func JavaV1DynamoDB() *retrip.Strategy {
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
func JavaScriptV2() *retrip.Strategy {
	return &retrip.Strategy{
		MaxAttempts:        4,
		RetryNonIdempotent: true,
		MaxRetryAfter:      maxServerWait,
		Backoff:            retrip.FullJitter{Base: 100 * time.Millisecond},
		Hints:              []retrip.HintReader{retrip.HintHeader{Name: "Retry-After", Format: retrip.Seconds, Additive: true}},
		Classifiers: rules{
			onCode(throttled, "ProvisionedThroughputExceededException", "Throttling", "ThrottlingException",
				"RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
				"TooManyRequestsException", "TransactionInProgressException", "EC2ThrottledException"),
			onCode(transient, "ExpiredTokenException", "ExpiredToken", "RequestExpired"),
			onCode(clockSkewed, "RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch",
				"AuthFailure", "RequestInTheFuture"), // as with correctClockSkew, if Prepare can sign anew
			S3Errors(), onStatus(throttled, 429), retrip.On(transient, retrip.StatusFrom(500)), retrip.AnyError(),
		},
	}
}

// JavaScriptV2DynamoDB returns a new strategy like JavaScriptV2 with what that
// SDK did for DynamoDB (lib/services/dynamodb.js): 11 attempts, from 50 ms, and
// a retry when the answer's checksum is wrong.
func JavaScriptV2DynamoDB() *retrip.Strategy {
	s := JavaScriptV2()
	s.MaxAttempts, s.Backoff = 11, retrip.FullJitter{Base: 50 * time.Millisecond}
	s.Classifiers = append(s.Classifiers, checksum{})
	return s
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
