// Package errorcode finds error codes in HTTP responses: in headers, and in JSON
// and XML bodies as AWS, Alibaba Cloud and compatible servers write them. It
// also has the published lists of codes that ask for a retry.
//
// Servers may be hostile: the time to read a document grows with its length,
// and the number of allocations does not.
package errorcode

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
)

const (
	// maxCode is longer than any error code, and keeps a hostile one cheap. Our choice.
	maxCode = 256
	// maxDocument bounds a document in a header: as much as is read of a body.
	maxDocument = 64 << 10
)

// Throttling returns the codes that mean throttling by the AWS SDKs and Tools
// Reference Guide ("Retry behavior", 2026).
func Throttling() []string {
	return []string{
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException",
		"TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "RequestThrottled", "SlowDown", "PriorRequestNotComplete",
		"EC2ThrottledException",
	}
}

// Transient returns the codes of transient errors (same guide).
func Transient() []string {
	return []string{"RequestTimeout", "RequestTimeoutException", "InternalError", "IDPCommunicationError"}
}

// ClockSkew returns the codes that may mean a wrong clock (aws-sdk-go-v2,
// aws/retry, 2026 rules). None of them does unless the clocks differ.
func ClockSkew() []string {
	return []string{
		"InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure",
		"RequestTimeTooSkewed", "AccessDeniedException",
	}
}

// InHeaders returns the error code in the headers of a response to a request
// with the method, or nothing.
func InHeaders(method string, resp *http.Response) string {
	if code := awsCode(resp.Header); code != "" {
		return code
	}
	return ossCode(method, resp)
}

// awsCode reads the headers of AWS. X-Amzn-Query-Error comes first: services
// that once used another protocol put the code there that their old clients
// know.
func awsCode(h http.Header) string {
	if value := first(h, "X-Amzn-Query-Error"); value != "" {
		if code, fault, _ := strings.Cut(value, ";"); fault == "Sender" || fault == "Receiver" {
			if code = bareCode([]byte(code)); code != "" {
				return code
			}
		}
	}
	if value := first(h, "X-Amzn-Errortype"); value != "" {
		return bareCode([]byte(value))
	}
	return ""
}

// ossCode reads the header of Alibaba Cloud's OSS. A response without a body,
// as to a HEAD, has its XML document there, in base 64.
func ossCode(method string, resp *http.Response) string {
	document := first(resp.Header, "X-Oss-Err")
	if document == "" || base64.StdEncoding.DecodedLen(len(document)) > maxDocument ||
		method != http.MethodHead && resp.ContentLength != 0 {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(document)
	if err != nil {
		return ""
	}
	_, code := InXML(text)
	return code
}

// first is Header.Get for a name in canonical form, which takes a third of the
// time.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// bareCode cuts a code out of "namespace#Code:http://more". It copies the code,
// which is kept in errors and events, so that the rest can be freed.
func bareCode(s []byte) string {
	s, _, _ = bytes.Cut(s, []byte(":"))
	if _, after, ok := bytes.Cut(s, []byte("#")); ok {
		s = after
	}
	if s = bytes.TrimSpace(s); len(s) > maxCode {
		return ""
	}
	return string(s)
}

// A Format is how a response body may write an error code.
type Format uint8

// The formats.
const (
	None Format = iota
	JSON
	XML
)

// FormatOf returns the format of the body of resp by its headers.
func FormatOf(resp *http.Response) Format {
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength == 0 {
		return None
	}
	switch encoding := first(resp.Header, "Content-Encoding"); {
	case encoding == "", strings.EqualFold(encoding, "identity"), strings.EqualFold(encoding, "gzip"):
	default:
		return None // the caller asked for an encoding that only it can decode
	}
	media, _, _ := strings.Cut(first(resp.Header, "Content-Type"), ";")
	_, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	switch {
	case subtype == "json", strings.HasSuffix(subtype, "+json"), strings.HasPrefix(subtype, "x-amz-json"):
		return JSON
	case subtype == "xml", strings.HasSuffix(subtype, "+xml") && subtype != "xhtml+xml":
		return XML
	default:
		return None
	}
}

// InBody returns the error code in a body of the format, or nothing.
func (f Format) InBody(body []byte) (code string) {
	switch f {
	case JSON:
		return inJSON(body)
	case XML:
		_, code = InXML(body)
	}
	return code
}
