package main

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	openapiutil "github.com/alibabacloud-go/darabonba-openapi/v2/utils"
	kms "github.com/alibabacloud-go/kms-20160120/v3/client"
	"github.com/alibabacloud-go/tea/dara"
	"github.com/aliyun/credentials-go/credentials"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/services"
)

const (
	regionID = "cn-hangzhou"
	endpoint = "kms." + regionID + ".aliyuncs.com"
)

// newKMS makes a client of the SDK that sends with ours. Its own retries are
// off as long as Config.RetryOptions is nil.
func newKMS(client *http.Client, credential credentials.Credential) (*kms.Client, error) {
	return kms.NewClient(&openapi.Config{
		RegionId:   dara.String(regionID),
		Credential: credential,
		HttpClient: hook{client},
	})
}

// A hook is what the SDK calls in place of its own client. The transport that
// it would have used instead is of no use to us: it is a new one each time.
// With it go the configuration's timeouts, proxies and certificates; who needs
// them sets them on Base.
type hook struct{ *http.Client }

func (h hook) Call(req *http.Request, _ *http.Transport) (*http.Response, error) {
	return h.Do(req)
}

// newClient makes the client for one endpoint. In production, base is nil.
func newClient(base http.RoundTripper, credential credentials.Credential, observe func(retrip.Event)) *http.Client {
	return &http.Client{
		Transport: &retrip.Transport{
			Base:           base,
			PerKey:         strategy,
			AttemptTimeout: 10 * time.Second,
			Prepare:        (&signer{credential, endpoint}).prepare,
			Observe:        observe,
		},
		// For all attempts of a call and the waits between: this SDK's calls have
		// no context to bound them.
		Timeout: 30 * time.Second,
	}
}

func strategy(string) *retrip.Strategy {
	s := services.AlibabaKMS()
	// Alibaba Cloud's code for a time that it doesn't believe.
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.ClockSkewed, retrip.CodeIs("InvalidTimeStamp.Expired")))
	// A demonstration has less time than the 200 ms of the preset: leave this out.
	s.Backoff = retrip.Exponential{Base: time.Millisecond}
	return s
}

// A signer signs each attempt anew, as the SDK's own retries would. It must:
// the SDK signs a request with a nonce, and one that has come as far as the
// service, only to fail there, is refused the next time (SignatureNonceUsed).
type signer struct {
	credential credentials.Credential
	endpoint   string
}

func (s *signer) prepare(req *http.Request, p retrip.PrepareInfo) error {
	if req.URL.Scheme != "https" || req.URL.Host != s.endpoint {
		return nil
	}
	credential, err := s.credential.GetCredential()
	if err != nil {
		return err
	}
	// The SDK writes its names in lower case, where Header.Set would not find
	// them: there would be two of each.
	set := func(name, value string) { req.Header[name] = []string{value} }
	set("x-acs-date", time.Now().Add(p.Skew).UTC().Format(acsDate))
	set("x-acs-signature-nonce", rand.Text())
	if token := dara.StringValue(credential.SecurityToken); token != "" {
		set("x-acs-accesskey-id", dara.StringValue(credential.AccessKeyId))
		set("x-acs-security-token", token)
	}

	signed := dara.NewRequest()
	signed.Method, signed.Pathname = &req.Method, &req.URL.Path
	for name, values := range req.URL.Query() {
		signed.Query[name] = &values[0]
	}
	for name, values := range req.Header {
		signed.Headers[strings.ToLower(name)] = &values[0]
	}
	payload := signed.Headers["x-acs-content-sha256"] // of the body, which is the same
	authorization := openapiutil.GetAuthorization(signed, dara.String(algorithm), payload,
		credential.AccessKeyId, credential.AccessKeySecret)
	set("Authorization", *authorization)
	return nil
}

const (
	algorithm = "ACS3-HMAC-SHA256"
	acsDate   = "2006-01-02T15:04:05Z"
)
