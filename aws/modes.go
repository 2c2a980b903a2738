package aws

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/errorcode"
)

const maxBackoff = 20 * time.Second // AWS SDKs and Tools Reference Guide, "Retry behavior"

// Standard2026 returns a new strategy with what most AWS SDKs do by default
// since November 2026 (AWS SDKs and Tools Reference Guide, "Retry behavior"):
// as retrip.Standard, but full jitter from 50 ms, retries that cost 14 and
// throttled ones 5, and no statuses but 500, 502, 503, 504 and 429. Compared with
// retrip.Standard it retries sooner, and gives up sooner when much fails. It
// knows AWS's long polls (LongPoll) and S3's errors with status 200 (S3Errors).
func Standard2026() *retrip.Strategy {
	s := retrip.Standard()
	s.Classifiers = slices.Clone(classifiers2026)
	s.Backoff, s.Cost = fullJitter(50*time.Millisecond), 14
	s.LongPoll = LongPoll
	return s
}

var (
	throttlingCodes = errorcode.Throttling()
	classifiers2026 = rules{
		onCode(throttled, throttlingCodes...),
		onCode(transient, errorcode.Transient()...),
		onCode(clockSkewed, errorcode.ClockSkew()...),
		S3Errors(),
		onStatus(throttled, 429),
		onStatus(transient, 500, 502, 503, 504),
		retrip.TransportErrors(),
	}
)

// Adaptive2026 returns a new strategy like Standard2026 with a send-rate
// limiter, as retrip.Adaptive has it.
func Adaptive2026() *retrip.Strategy { return limited(Standard2026()) }

// Standard2026DynamoDB returns a new strategy like Standard2026 with what the
// AWS SDKs do for DynamoDB and DynamoDB Streams (same guide): 4 attempts, full
// jitter from 25 ms.
func Standard2026DynamoDB() *retrip.Strategy {
	s := Standard2026()
	s.MaxAttempts, s.Backoff = 4, fullJitter(25*time.Millisecond)
	return s
}

// Adaptive2026DynamoDB returns a new strategy like Standard2026DynamoDB with a
// send-rate limiter.
func Adaptive2026DynamoDB() *retrip.Strategy { return limited(Standard2026DynamoDB()) }

func limited(s *retrip.Strategy) *retrip.Strategy {
	s.Limiter = retrip.NewLimiter()
	return s
}

func fullJitter(base time.Duration) retrip.Backoff {
	return retrip.FullJitter{Base: base, Cap: maxBackoff}
}

// LongPoll reports whether a request is one of AWS's long polls, which wait
// on the server for work: SQS ReceiveMessage, Step Functions GetActivityTask,
// SWF PollForActivityTask and PollForDecisionTask, by their X-Amz-Target (AWS
// SDKs and Tools Reference Guide, "Retry behavior"). Use it, or a function of
// your own, as retrip.Strategy.LongPoll.
func LongPoll(req *http.Request) bool {
	service, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	switch operation {
	case "ReceiveMessage":
		return service == "AmazonSQS"
	case "GetActivityTask":
		return service == "AWSStepFunctions"
	case "PollForActivityTask", "PollForDecisionTask":
		return service == "SimpleWorkflowService"
	}
	return false
}
