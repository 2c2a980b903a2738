package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/retrip-go/retrip"
)

// A signer signs the requests to one host with SigV4, each attempt by the
// server's clock. Its prepare is made for Transport.Prepare.
type signer struct {
	credentials           aws.CredentialsProvider
	host, service, region string
	v4                    *v4.Signer
}

func (s *signer) prepare(req *http.Request, p retrip.PrepareInfo) error {
	// Redirects come here, too, and lead anywhere: what our key signs is for one
	// host to see.
	if req.URL.Scheme != "https" || req.URL.Host != s.host || req.Host != "" && req.Host != s.host {
		return nil
	}
	credentials, err := s.credentials.Retrieve(req.Context())
	if err != nil {
		return err
	}
	hash, err := payloadHash(req)
	if err != nil {
		return err
	}
	return s.v4.SignHTTP(req.Context(), credentials, req, hash, s.service, s.region, time.Now().Add(p.Skew))
}

// payloadHash reads a copy of the body. A body that can't be reopened retrip
// keeps for it, up to Transport.ReplayBuffer.
func payloadHash(req *http.Request) (string, error) {
	hash := sha256.New()
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil { // and only one attempt is allowed, so nothing is kept
			return "", errors.New("the body can't be read twice: set Request.GetBody")
		}
		body, err := req.GetBody()
		if err != nil {
			return "", err
		}
		defer body.Close()
		if _, err := io.Copy(hash, body); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// gateway is the host of an API of one's own, which wants SigV4 too.
const gateway = "example.execute-api" + domain

func newSigner() *signer {
	return &signer{
		credentials: aws.CredentialsProviderFunc(exampleCredentials),
		host:        gateway, service: "execute-api", region: region,
		v4: v4.NewSigner(),
	}
}

// newSigningClient is a client for the gateway.
func newSigningClient(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &retrip.Transport{Base: base, PerKey: strategyFor, Prepare: newSigner().prepare}}
}

// signOnce signs and sends, without retrip.
type signOnce struct{ base http.RoundTripper }

func (s signOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if err := newSigner().prepare(req, retrip.PrepareInfo{}); err != nil {
		return nil, err
	}
	return s.base.RoundTrip(req)
}

// put sends a text to the gateway, which sends it back.
func put(ctx context.Context, client *http.Client, body io.Reader) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+gateway+"/notes/1?by=Ada%20L", body)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// playSkew shows what becomes of requests to a server whose clock differs.
func playSkew(ctx context.Context, w io.Writer) error {
	c, err := newCloud(10 * time.Minute)
	if err != nil {
		return err
	}
	defer c.close()
	base := c.base()
	defer base.CloseIdleConnections()

	fmt.Fprintln(w, "\nPUT to a server 10 minutes ahead\tattempts\tanswers\tresult")
	status, _, err := put(ctx, &http.Client{Transport: signOnce{base}}, strings.NewReader("a note"))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "without retrip\t1\t%d\tan error\n", status)

	client := newSigningClient(base)
	for _, name := range []string{"first", "next"} {
		traced, trace := retrip.WithTrace(ctx)
		_, answer, err := put(traced, client, strings.NewReader("a note"))
		if err != nil {
			return err
		}
		printLine(w, name, trace, answer)
	}

	most, err := putAtOnce(ctx, newSigningClient(base), 32)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "32 first ones at once\t%d\tat most, each\ta note\n", most)
	return nil
}

// putAtOnce makes n requests at a time, and returns how many attempts the
// slowest needed. Each is refused and corrected on its own account: that
// another has just corrected the clock is no reason to give up.
func putAtOnce(ctx context.Context, client *http.Client, n int) (most int, err error) {
	traced, trace := retrip.WithTrace(ctx)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			status, answer, err := put(traced, client, strings.NewReader("a note"))
			if err == nil && (status != http.StatusOK || answer != "a note") {
				err = fmt.Errorf("status %d, %q", status, answer)
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, events := range trace.Requests() {
		most = max(most, len(events))
	}
	return most, errors.Join(errs...)
}
