package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

const (
	region = "us-east-1"
	domain = "." + region + ".amazonaws.com"
	bucket = "reports"
)

// A cloud is an AWS of five services and a few operations in this process. It
// checks every signature, but for the requests that a fault answers.
type cloud struct {
	faults *faultlayer.Layer // in front of everything
	queue  chan string       // what SQS has to give
	ahead  time.Duration     // how far its clock is ahead of ours
	files  http.Handler      // S3
	tables sync.Map          // DynamoDB's items, by table and key

	tls, plain *httptest.Server
}

// newCloud starts a cloud whose clock is ahead of ours.
func newCloud(ahead time.Duration) (*cloud, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		return nil, err
	}
	c := &cloud{
		queue: make(chan string, 1), ahead: ahead,
		files: gofakes3.New(backend, gofakes3.WithHostBucketBase("s3"+domain)).Server(),
	}
	c.faults = faultlayer.New(http.HandlerFunc(c.serve))
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", c.now().UTC().Format(http.TimeFormat))
		c.faults.ServeHTTP(w, r)
	})
	c.tls, c.plain = httptest.NewUnstartedServer(front), httptest.NewUnstartedServer(front)
	// A client that dials and then gets another connection first is no news.
	c.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.tls.StartTLS()
	c.plain.Start()
	return c, nil
}

func (c *cloud) now() time.Time { return time.Now().Add(c.ahead) }

func (c *cloud) close() {
	c.tls.Close()
	c.plain.Close()
}

// base is the SDK's own transport, with its limits for connections; but every
// host of the world is the cloud. It is all that tells this example from
// production.
func (c *cloud) base() *http.Transport {
	base := awshttp.NewBuildableClient().GetTransport()
	base.Proxy = nil
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		server := c.tls
		if strings.HasSuffix(addr, ":80") {
			server = c.plain
		}
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.tls.Certificate())
	base.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"} // the name on httptest's certificate
	return base
}

// serve is AWS, behind the faults.
func (c *cloud) serve(w http.ResponseWriter, r *http.Request) {
	if err := verify(r, c.now()); err != nil {
		refuse(w, r, err)
		return
	}
	switch service := strings.TrimSuffix(r.Host, domain); service {
	case "dynamodb", "sqs", "kms":
		c.serveJSON(w, r)
	case "lambda":
		c.serveLambda(w, r)
	case "s3", bucket + ".s3":
		c.serveS3(w, r)
	default:
		c.serveGateway(w, r)
	}
}

// refuse answers a request that is not believed, as the service does.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	as := headerError
	if strings.HasSuffix(r.Host, "s3"+domain) {
		as = xmlError
	}
	as(http.StatusForbidden, err.Error())(w, r)
}

// jsonError is an error as services with a JSON protocol send it.
func jsonError(status int, code string) faultlayer.Fault {
	return faultlayer.Answer(status, fmt.Sprintf(`{"__type":%q,"message":"an error of this example"}`, code),
		"Content-Type", "application/x-amz-json-1.0")
}

// headerError is an error as services with a REST protocol in JSON send it.
func headerError(status int, code string) faultlayer.Fault {
	return faultlayer.Answer(status, `{"Message":"an error of this example"}`,
		"Content-Type", "application/json", "X-Amzn-Errortype", code)
}

// xmlError is an error as S3 sends it.
func xmlError(status int, code string) faultlayer.Fault {
	return faultlayer.Answer(status, xmlDeclaration+"<Error><Code>"+code+"</Code><Message>an error of this example</Message></Error>",
		"Content-Type", "application/xml")
}

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// times is the same fault n times.
func times(n int, fault faultlayer.Fault) []faultlayer.Fault {
	faults := make([]faultlayer.Fault, n)
	for i := range faults {
		faults[i] = fault
	}
	return faults
}
