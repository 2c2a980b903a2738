package aws

import (
	"hash/crc32"
	"net/http"
	"strconv"

	"github.com/retrip-go/retrip"
)

const maxBody = 64 << 10 // see retrip.Attempt.Body

// checksum compares a response with its X-Amz-Crc32, which DynamoDB sends. Its
// SDKs retry on a difference. A response that is too long for Attempt.Body, or
// is not as it was on the wire, passes.
type checksum struct{}

func (checksum) Classify(a retrip.Attempt) retrip.Class {
	if a.Response == nil || a.Response.StatusCode != http.StatusOK || a.Response.Uncompressed ||
		a.Response.Header.Get("Content-Encoding") != "" {
		return retrip.Unknown
	}
	text := a.Response.Header.Get("X-Amz-Crc32")
	if text == "" {
		return retrip.Unknown // ParseUint would allocate an error
	}
	want, err := strconv.ParseUint(text, 10, 32)
	if err != nil || a.Response.ContentLength < 0 || a.Response.ContentLength > maxBody {
		return retrip.Unknown
	}
	switch {
	case a.Body == nil:
		return retrip.NeedsBody
	case int64(len(a.Body)) == a.Response.ContentLength && crc32.ChecksumIEEE(a.Body) != uint32(want):
		return retrip.Transient
	default:
		return retrip.Unknown
	}
}

func (checksum) String() string { return "transient: body does not match X-Amz-Crc32" }
