package retrip

import (
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// AWSLongPoll reports whether a request is one of AWS's long polls, which wait
// on the server for work: SQS ReceiveMessage, Step Functions GetActivityTask,
// SWF PollForActivityTask and PollForDecisionTask, by their X-Amz-Target (AWS
// SDKs and Tools Reference Guide, "Retry behavior"). Use it, or a function of
// your own, as Strategy.LongPoll.
func AWSLongPoll(req *http.Request) bool {
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

// S3Errors returns a classifier that finds the errors S3 sends with a status of
// 200, because it had begun to answer before it knew: an Error document in
// place of the result. As in the AWS SDKs it counts like a 500 unless its code
// says otherwise. It looks only at answers that are never a user's own data:
// to CopyObject, CompleteMultipartUpload and other writes, and to lists.
func S3Errors() Classifier { return s3Errors{} }

type s3Errors struct{}

func (s3Errors) Classify(a Attempt) Class {
	if a.Response == nil || a.Response.StatusCode/100 != 2 ||
		!isS3(a.Request) || holdsUserData(a.Request) || codeFormat(a.Response) != xmlCode {
		return Unknown
	}
	if a.Body == nil {
		return NeedsBody
	}
	root, code := xmlRootAndCode(a.Body)
	if root != "Error" {
		return Unknown
	}
	if throttlingCodes.Classify(Attempt{Code: code}) == Throttled {
		return Throttled
	}
	return Transient
}

func (s3Errors) String() string { return "transient: S3 errors with status 200" }

// isS3 recognises a request by its host, or by what its signature is for.
func isS3(req *http.Request) bool {
	host := strings.ToLower(req.URL.Hostname())
	if name, ok := strings.CutSuffix(host, ".amazonaws.com"); ok {
		for label := range strings.SplitSeq(name, ".") {
			if label == "s3" || strings.HasPrefix(label, "s3-") {
				return true
			}
		}
		return false
	}
	return strings.Contains(req.Header.Get("Authorization"), "/s3/aws4_request") ||
		strings.Contains(req.URL.RawQuery, "%2Fs3%2Faws4_request")
}

// holdsUserData reports whether the answer to a request of S3 may be what a
// user stored, which can look like anything. A GET counts unless it is certain
// that it lists something.
func holdsUserData(req *http.Request) bool {
	query, _ := url.ParseQuery(req.URL.RawQuery) // of a broken query, the part before the break
	switch req.Method {
	case http.MethodPut, http.MethodDelete:
		return false
	case http.MethodPost:
		return query.Has("select")
	case "", http.MethodGet:
		if slices.ContainsFunc([]string{"list-type", "uploads", "uploadId", "versions", "location"}, query.Has) {
			return false
		}
		bucketLevel := req.URL.Path == "" || req.URL.Path == "/"
		return !bucketLevel || query.Has("policy")
	default:
		return true
	}
}

// checksum compares an answer with its X-Amz-Crc32, which DynamoDB sends. Its
// SDKs retry on a difference. An answer too long to be looked at whole, or not
// as it was on the wire, passes.
type checksum struct{}

func (checksum) Classify(a Attempt) Class {
	if a.Response == nil || a.Response.StatusCode != http.StatusOK || a.Response.Uncompressed ||
		a.Response.Header.Get("Content-Encoding") != "" {
		return Unknown
	}
	want, err := strconv.ParseUint(a.Response.Header.Get("X-Amz-Crc32"), 10, 32)
	if err != nil || a.Response.ContentLength > readAhead {
		return Unknown
	}
	switch {
	case a.Body == nil:
		return NeedsBody
	case int64(len(a.Body)) == a.Response.ContentLength && crc32.ChecksumIEEE(a.Body) != uint32(want):
		return Transient
	default:
		return Unknown
	}
}

func (checksum) String() string { return "transient: body does not match X-Amz-Crc32" }
