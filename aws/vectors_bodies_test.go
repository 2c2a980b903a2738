package aws_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
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

func s3Request(t *testing.T, op string) *http.Request {
	t.Helper()
	method, target := "POST", "https://service.us-east-1.amazonaws.com/"
	const bucket = "https://bucket.s3.us-east-1.amazonaws.com"
	switch op {
	case "ListBuckets":
		method, target = "GET", "https://s3.us-east-1.amazonaws.com/?x-id=ListBuckets"
	case "HeadBucket":
		method, target = "HEAD", bucket
	case "CopyObject":
		method, target = "PUT", bucket+"/key?x-id=CopyObject"
	case "CompleteMultipartUpload":
		target = bucket + "/key?uploadId=1"
	case "UploadPartCopy":
		method, target = "PUT", bucket+"/key?partNumber=1&uploadId=1"
	case "ListObjectsV2":
		method, target = "GET", bucket+"/?list-type=2"
	case "ListObjects":
		method, target = "GET", bucket+"/?prefix=a"
	case "ListParts":
		method, target = "GET", bucket+"/key?uploadId=1"
	case "GetBucketLocation":
		method, target = "GET", bucket+"/?location"
	case "GetBucketPolicy":
		method, target = "GET", bucket+"/?policy"
	case "GetObjectTorrent":
		method, target = "GET", bucket+"/key?torrent"
	case "SelectObjectContent":
		target = bucket + "/key?select&select-type=2"
	case "CreateMultipartUpload":
		target = bucket + "/key?uploads"
	case "PutObject", "PutObjectTagging", "UploadPart":
		method, target = "PUT", bucket+"/key?x-id="+op
	case "DeleteObjects":
		target = bucket + "/?delete"
	case "GetObject":
		method, target = "GET", bucket+"/key?x-id=GetObject"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, nil)
	require.NoError(t, err)
	return req
}
