// Azure stores blobs and fetches them with azblob over retrip, at a server that
// is busy, answers early, hangs up and breaks off. It needs no network but
// loopback.
//
//	go run .
//
// Two things make the two fit together. azcore's own retries are off: left on,
// they would make up to 4 × 3 requests of one call, and they know no quota. (With
// them goes azcore's retry of an answer that breaks off after its headers; brokenOff
// in brokenoff_test.go keeps that.) And
// the body that azcore hands down gets a GetBody that is safe; see body.go.
//
// What azblob does above its requests stays its own: it cuts large uploads into
// blocks and, with NewRetryReader, asks for the rest of a download that broke
// off. Each of these is a request, which retrip sends again if need be.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "azure:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up.
func newClient(url string, t *retrip.Transport) (*azblob.Client, error) {
	key, err := azblob.NewSharedKeyCredential("account", "ZHVtbXkga2V5") // "dummy key"
	if err != nil {
		return nil, err
	}
	return azblob.NewClientWithSharedKeyCredential(url+"/account", key, &azblob.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: transporter{&http.Client{Transport: t}},
			Retry:     policy.RetryOptions{MaxRetries: -1}, // 0 would be azcore's default, which is 3
			// A demonstration has no certificate; azcore wants one for its key.
			InsecureAllowCredentialWithHTTP: true,
		},
	})
}

// strategy makes the strategy for one host.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	// Azure throttles with status 503, and this code. The waits it asks for in
	// Retry-After-Ms, X-Ms-Retry-After-Ms and Retry-After every mode knows.
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Throttled, retrip.CodeIs("ServerBusy")))
	// Standard waits a second after throttling; a demonstration has less time.
	s.Backoff, s.ThrottleBackoff = retrip.FullJitter{Base: 2 * time.Millisecond, Cap: 10 * time.Millisecond}, nil
	return s
}

func newTransport() *retrip.Transport {
	return &retrip.Transport{PerKey: strategy}
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	account := newAccount()
	defer account.Close()
	t := newTransport()
	defer t.CloseIdleConnections()
	client, err := newClient(account.URL, t)
	if err != nil {
		return err
	}

	var total show.Tally
	for _, s := range scenes {
		account.faults.Reset()
		account.faults.Fail(nil, s.faults...)
		ctx, trace := retrip.WithTrace(context.Background())
		if err := s.call(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := total.Call(w, s.title, trace.Requests(), account.faults.Hits()); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err = fmt.Fprintln(w, total)
	return err
}

// A scene is a call, and what goes wrong while it is made.
type scene struct {
	title  string
	faults []faultlayer.Fault
	call   call
}

// blob is more than fits into the buffers of a connection, so that a server
// that answers early does so while it is being sent.
var blob = faultlayer.Noise(4 << 20)

var scenes = []scene{{
	title:  "UploadBuffer: the server is busy and says for how long",
	faults: []faultlayer.Fault{busy("Retry-After-Ms", "20"), busy("X-Ms-Retry-After-Ms", "30")},
	call:   uploadBuffer(blob),
}, {
	title:  "UploadFile: the server answers before it has read the file",
	faults: []faultlayer.Fault{faultlayer.Early(http.StatusServiceUnavailable)},
	call:   uploadFile(blob),
}, {
	title:  "UploadFile: the connection breaks after everything is sent",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   uploadFile(blob),
}, {
	// retrip sees one attempt, the server two.
	title:  "DownloadStream: a reused connection breaks, and net/http itself resends the GET",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   download(blob),
}, {
	title:  "DownloadStream: the blob breaks off; azblob asks for the rest, and the server is busy",
	faults: []faultlayer.Fault{half(blob), busy()},
	call:   download(blob),
}}
