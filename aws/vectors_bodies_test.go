package aws_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/testkit"
)

func TestVectorsErrorBodies(t *testing.T) {
	type sample struct {
		ID, Protocol, Op string
		Status           int
		Body             string
		Headers          map[string]string
		Expect           *string
	}
	var file struct{ Samples, Alibaba []sample }
	sdkVectors(t, "error_body.json", &file)
	for _, row := range append(file.Samples, file.Alibaba...) {
		t.Run(row.ID, func(t *testing.T) {
			contentType := "application/x-amz-json-1.1"
			switch {
			case row.Headers["Content-Type"] != "":
				contentType = row.Headers["Content-Type"]
			case strings.HasPrefix(row.Body, "<html"):
				contentType = "text/html"
			case row.Protocol == "restXml":
				contentType = "application/xml"
			case row.Protocol == "awsQuery", row.Protocol == "ec2Query", strings.HasPrefix(row.Body, "<"):
				contentType = "text/xml; charset=utf-8"
			}
			headers := []string{"Content-Type: " + contentType}
			for name, value := range row.Headers {
				headers = append(headers, name+": "+value)
			}
			var code string
			s := aws.Standard2026()
			s.MaxAttempts = 1
			s.Classifiers = append([]retrip.Classifier{retrip.ClassifierFunc(func(a retrip.Attempt) retrip.Class {
				if a.Body != nil || a.Code != "" {
					code = a.Code
				}
				return retrip.Unknown
			})}, s.Classifiers...)
			ctx, trace := retrip.WithTrace(t.Context())
			req := s3Request(t, row.Op).WithContext(ctx)
			resp, err := (&retrip.Transport{Base: script(answer(row.Status, row.Body, headers...)), Strategy: s}).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, row.Body, string(body))

			class := trace.Requests()[0][0].Class
			switch {
			case row.Expect != nil && *row.Expect == "SUCCESS":
				require.Equal(t, retrip.Success, class)
			case row.Status/100 == 2:
				require.Contains(t, []retrip.Class{retrip.Transient, retrip.Throttled}, class, "like a 500")
			case row.Expect == nil:
				require.Empty(t, code)
			default:
				require.Equal(t, *row.Expect, code)
			}
		})
	}
}

// s3Targets are where the operations of S3 go, with their methods.
var s3Targets = map[string]struct{ method, target string }{
	"ListBuckets":             {"GET", "https://s3.us-east-1.amazonaws.com/?x-id=ListBuckets"},
	"HeadBucket":              {"HEAD", "https://bucket.s3.us-east-1.amazonaws.com"},
	"CopyObject":              {"PUT", "https://bucket.s3.us-east-1.amazonaws.com/key?x-id=CopyObject"},
	"CompleteMultipartUpload": {"POST", "https://bucket.s3.us-east-1.amazonaws.com/key?uploadId=1"},
	"UploadPartCopy":          {"PUT", "https://bucket.s3.us-east-1.amazonaws.com/key?partNumber=1&uploadId=1"},
	"ListObjectsV2":           {"GET", "https://bucket.s3.us-east-1.amazonaws.com/?list-type=2"},
	"ListObjects":             {"GET", "https://bucket.s3.us-east-1.amazonaws.com/?prefix=a"},
	"ListParts":               {"GET", "https://bucket.s3.us-east-1.amazonaws.com/key?uploadId=1"},
	"GetBucketLocation":       {"GET", "https://bucket.s3.us-east-1.amazonaws.com/?location"},
	"GetBucketPolicy":         {"GET", "https://bucket.s3.us-east-1.amazonaws.com/?policy"},
	"GetObjectTorrent":        {"GET", "https://bucket.s3.us-east-1.amazonaws.com/key?torrent"},
	"SelectObjectContent":     {"POST", "https://bucket.s3.us-east-1.amazonaws.com/key?select&select-type=2"},
	"CreateMultipartUpload":   {"POST", "https://bucket.s3.us-east-1.amazonaws.com/key?uploads"},
	"PutObject":               {"PUT", "https://bucket.s3.us-east-1.amazonaws.com/key?x-id=PutObject"},
	"PutObjectTagging":        {"PUT", "https://bucket.s3.us-east-1.amazonaws.com/key?x-id=PutObjectTagging"},
	"UploadPart":              {"PUT", "https://bucket.s3.us-east-1.amazonaws.com/key?x-id=UploadPart"},
	"DeleteObjects":           {"POST", "https://bucket.s3.us-east-1.amazonaws.com/?delete"},
	"GetObject":               {"GET", "https://bucket.s3.us-east-1.amazonaws.com/key?x-id=GetObject"},
}

// s3Request makes the request of an operation, of S3 or of any service.
func s3Request(t *testing.T, op string) *http.Request {
	t.Helper()
	row, ok := s3Targets[op]
	if !ok {
		row.method, row.target = "POST", "https://service.us-east-1.amazonaws.com/"
	}
	return testkit.RequestTo(t, row.method, row.target, nil)
}
