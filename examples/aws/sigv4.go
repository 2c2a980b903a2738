package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The example's credentials, known to both sides.
const (
	accessKeyID     = "AKIDEXAMPLE"
	secretAccessKey = "the-secret-of-the-example"
)

// signatureAge is how far a signature's time may be from the server's: most of
// AWS's services accept five minutes, S3 fifteen.
const signatureAge = 5 * time.Minute

const amzDate = "20060102T150405Z"

// A refusal is the error code of a request that is not believed.
type refusal string

func (code refusal) Error() string { return string(code) }

// verify checks the SigV4 signature in a request's headers as AWS does, and by
// its own means: that what arrives is what was signed is for it to find out.
// It reads the body and puts it back.
func verify(r *http.Request, now time.Time) error {
	algorithm, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	fields := make(map[string]string)
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	keyID, scope, _ := strings.Cut(fields["Credential"], "/")
	if algorithm != "AWS4-HMAC-SHA256" || keyID != accessKeyID {
		return refusal("InvalidClientTokenId")
	}
	date := r.Header.Get("X-Amz-Date")
	signed, err := time.Parse(amzDate, date)
	if err != nil || !strings.HasPrefix(scope, date[:8]+"/") {
		return refusal("IncompleteSignature")
	}
	if now.Sub(signed).Abs() > signatureAge {
		return refusal("RequestTimeTooSkewed") // S3's name for it
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	payload := hexSum(body)
	if declared := r.Header.Get("X-Amz-Content-Sha256"); declared != "" {
		if len(declared) == len(payload) && declared != payload {
			return refusal("XAmzContentSHA256Mismatch")
		}
		payload = declared // a hash, or words such as UNSIGNED-PAYLOAD
	}
	request := canonical(r, strings.Contains(scope, "/s3/"), fields["SignedHeaders"], payload)
	text := strings.Join([]string{algorithm, date, scope, hexSum([]byte(request))}, "\n")
	if want := hex.EncodeToString(sum(signingKey(scope), text)); fields["Signature"] != want {
		return refusal("SignatureDoesNotMatch")
	}
	return nil
}

// canonical is the request in the form that is signed.
func canonical(r *http.Request, isS3 bool, signedHeaders, payload string) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !isS3 {
		path = (&url.URL{Path: path}).EscapedPath() // escaped twice, but for S3
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	var headers strings.Builder
	for name := range strings.SplitSeq(signedHeaders, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	return strings.Join([]string{r.Method, path, query, headers.String(), signedHeaders, payload}, "\n")
}

// signingKey derives the key for a scope: date/region/service/aws4_request.
func signingKey(scope string) []byte {
	key := []byte("AWS4" + secretAccessKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = sum(key, part)
	}
	return key
}

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func hexSum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}
