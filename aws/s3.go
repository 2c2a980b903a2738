package aws

import (
	"net/http"
	"slices"
	"strings"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/errorcode"
)

// S3Errors returns a classifier that finds the errors S3 sends with a status of
// 200, because it had begun to answer before it knew: an Error document in
// place of the result. As in the AWS SDKs it counts like a 500 unless its code
// says otherwise. It looks only at answers that are never a user's own data:
// to CopyObject, CompleteMultipartUpload and other writes, and to lists.
func S3Errors() retrip.Classifier { return s3Errors{} }

type s3Errors struct{}

func (s3Errors) Classify(a retrip.Attempt) retrip.Class {
	if a.Response == nil || a.Response.StatusCode/100 != 2 ||
		errorcode.FormatOf(a.Response) != errorcode.XML || !isS3(a.Request) || holdsUserData(a.Request) {
		return retrip.Unknown
	}
	if a.Body == nil {
		return retrip.NeedsBody
	}
	root, code := errorcode.InXML(a.Body)
	if root != "Error" {
		return retrip.Unknown
	}
	if slices.Contains(throttlingCodes, code) {
		return retrip.Throttled
	}
	return retrip.Transient
}

func (s3Errors) String() string { return "transient: S3 errors with status 200" }

// isS3 recognises a request by its host, or elsewhere by what its signature is
// for. (A server that is compatible with S3 and signed for as of old, or not
// at all, is not recognised.)
func isS3(req *http.Request) bool {
	if labels := awsLabels(req); labels != nil {
		return slices.ContainsFunc(labels, isS3Label) && !slices.ContainsFunc(labels, func(label string) bool {
			return label == "elb" || strings.HasPrefix(label, "s3-website") || strings.HasPrefix(label, "s3-object-lambda")
		})
	}
	scope := req.Header.Get("Authorization")
	if scope == "" {
		scope = req.URL.Query().Get("X-Amz-Credential") // presigned
	}
	return strings.Contains(scope, "/s3/aws4_request") || strings.Contains(scope, "/s3express/aws4_request")
}

// awsLabels are the parts of a host name of AWS before its domain, or nil.
func awsLabels(req *http.Request) []string {
	host := strings.TrimSuffix(strings.ToLower(req.URL.Hostname()), ".cn")
	name, ok := strings.CutSuffix(host, ".amazonaws.com")
	if !ok {
		return nil
	}
	return strings.Split(name, ".")
}

// isS3Label knows s3, its older regional names (s3-eu-west-1), and its kinds.
func isS3Label(label string) bool {
	kind, ok := strings.CutPrefix(label, "s3")
	switch {
	case !ok:
		return false
	case kind == "", strings.HasPrefix(kind, "express-"):
		return true
	case kind == "-accelerate", kind == "-accesspoint", kind == "-global", kind == "-fips":
		return true
	}
	region := strings.Split(strings.TrimPrefix(kind, "-"), "-") // eu-west-1
	return len(region) == 3 && len(region[0]) == 2 && len(region[2]) == 1
}

// holdsUserData reports whether the answer to a request of S3 may be what a
// user stored, which can look like anything. A GET counts unless it is certain
// that it is not of an object.
func holdsUserData(req *http.Request) bool {
	query := req.URL.Query()
	has := func(names ...string) bool { return slices.ContainsFunc(names, query.Has) }
	switch req.Method {
	case http.MethodPut, http.MethodDelete:
		return false
	case http.MethodPost:
		return has("select")
	case "", http.MethodGet:
		if isObject(req) {
			return !has("uploadId", "acl", "tagging", "attributes", "retention", "legal-hold")
		}
		return has("policy")
	default:
		return true
	}
}

// isObject reports whether the URL may name an object, rather than a bucket or
// nothing. In a host of AWS that begins with the service, the path begins with
// the bucket; elsewhere that is unknown.
func isObject(req *http.Request) bool {
	path := strings.Trim(req.URL.Path, "/")
	if labels := awsLabels(req); labels != nil && isS3Label(labels[0]) {
		_, path, _ = strings.Cut(path, "/")
	}
	return path != ""
}
