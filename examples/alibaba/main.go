// Alibaba calls Alibaba Cloud's KMS through its SDK for Go, over retrip, with the
// strategy of that service's page on retries. The SDK's own retries are off.
//
//	go run .
//
// It needs no network but loopback. client.go is what a program needs; the rest is
// the calls and the service, a few lines of ours behind a layer of faults.
//
// Plug retrip in as Config.HttpClient, which darabonba-openapi has since version 2.1.
// The KMS SDK itself requires only version 2.0.9, which has no such field, so a
// program has to ask for a later one:
//
//	go get github.com/alibabacloud-go/darabonba-openapi/v2@latest
//
// Since that version, Config.RetryOptions is the only setting for the SDK's retries:
// it ignores RuntimeOptions.Autoretry and MaxAttempts.
package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"

	kms "github.com/alibabacloud-go/kms-20160120/v3/client"
	"github.com/alibabacloud-go/tea/dara"
	"github.com/alibabacloud-go/tea/tea"
	"github.com/aliyun/credentials-go/credentials"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "alibaba:", err)
		os.Exit(1)
	}
}

// A call is one use of the SDK, and what goes wrong at first: in the network,
// then in the service.
type call struct {
	name            string
	network, faults []faultlayer.Fault
	do              func(*kms.Client) (result string, err error)
	want            string
}

var calls = []call{{
	name:   "Encrypt",
	faults: []faultlayer.Fault{failure(429, "Rejected.Throttling"), failure(500, "InternalFailure")},
	do:     encrypt,
	want:   secret,
}, {
	name:   "Decrypt",
	faults: []faultlayer.Fault{failure(400, "Rejected.Throttling"), failure(503, "ServiceUnavailableTemporary")},
	do: func(client *kms.Client) (string, error) {
		out, err := client.Decrypt(&kms.DecryptRequest{CiphertextBlob: dara.String(seal(secret))})
		if err != nil {
			return "", err
		}
		return *out.Body.Plaintext, nil
	},
	want: secret,
}, {
	name:    "GenerateDataKey",
	network: []faultlayer.Fault{faultlayer.Reset},
	faults:  []faultlayer.Fault{faultlayer.Answer(504, "<html>")},
	do: func(client *kms.Client) (string, error) {
		out, err := client.GenerateDataKey(&kms.GenerateDataKeyRequest{KeyId: dara.String("alias/example")})
		if err != nil {
			return "", err
		}
		key, err := unseal(*out.Body.CiphertextBlob)
		if err != nil || key != *out.Body.Plaintext {
			return "two keys", err
		}
		plain, err := base64.StdEncoding.DecodeString(key)
		return fmt.Sprintf("%d bytes", len(plain)), err
	},
	want: "32 bytes",
}, {
	name:   "Encrypt while all fails",
	faults: times(20, failure(503, "ServiceUnavailableTemporary")),
	do:     encrypt,
	want:   "ServiceUnavailableTemporary",
}}

// secret has what is special in a query.
const secret = "a secret: 100% *+ü&=~"

func encrypt(client *kms.Client) (string, error) {
	out, err := client.Encrypt(&kms.EncryptRequest{KeyId: dara.String("alias/example"), Plaintext: dara.String(secret)})
	if err != nil {
		return "", err
	}
	return unseal(*out.Body.CiphertextBlob)
}

// run plays all calls and prints what happened to w.
func run(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "call\tattempts\tanswers\tresult")
	for _, c := range calls {
		if err := play(out, c, true); err != nil {
			return err
		}
	}
	once := calls[0]
	once.name, once.faults, once.want = "Encrypt, signed once", []faultlayer.Fault{failure(500, "InternalFailure")}, "SignatureNonceUsed"
	if err := play(out, once, false); err != nil {
		return err
	}
	return out.Flush()
}

// play makes a call to a service of its own.
func play(w io.Writer, c call, resign bool) error {
	s := newService(0)
	defer s.server.Close()
	s.network.Fail(nil, c.network...)
	s.faults.Fail(nil, c.faults...)

	var heard listener
	credential, err := exampleCredential()
	if err != nil {
		return err
	}
	client := newClient(s.base(), credential, heard.observe)
	defer client.CloseIdleConnections()
	if !resign {
		client.Transport.(*retrip.Transport).Prepare = nil
	}
	sdk, err := newKMS(client, credential)
	if err != nil {
		return err
	}
	result, err := c.do(sdk)
	var failed *tea.SDKError
	if errors.As(err, &failed) {
		result, err = dara.StringValue(failed.Code), nil
	}
	if err == nil && result != c.want {
		err = fmt.Errorf("got %q, want %q", result, c.want)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", c.name, len(heard.outcomes), strings.Join(heard.outcomes, ", "), result)
	return nil
}

// A listener keeps the outcomes of attempts. It stands in for retrip.WithTrace,
// which needs a context.
type listener struct {
	mu       sync.Mutex
	outcomes []string
}

func (l *listener) observe(e retrip.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, outcome(e))
}

func outcome(e retrip.Event) string {
	switch {
	case e.Err != nil:
		return e.ErrorKind() // its text would name a port
	case e.Class == retrip.Success:
		return fmt.Sprint(e.Status)
	default:
		return fmt.Sprintf("%d %v", e.Status, e.Class)
	}
}

func exampleCredential() (credentials.Credential, error) {
	return credentials.NewCredential(&credentials.Config{
		Type: dara.String("access_key"), AccessKeyId: dara.String(accessKeyID), AccessKeySecret: dara.String(accessKeySecret),
	})
}

// times is the same fault n times.
func times(n int, fault faultlayer.Fault) []faultlayer.Fault {
	faults := make([]faultlayer.Fault, n)
	for i := range faults {
		faults[i] = fault
	}
	return faults
}
