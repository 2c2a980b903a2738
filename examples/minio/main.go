// Minio stores objects in a server that speaks S3, and fetches them, with
// minio-go over retrip. The server is gofakes3; it throttles, answers early and hangs
// up. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in as Options.Transport and set MaxRetries to 1, which switches
// minio-go's own retries off. With them, one call could make 10 × 3 requests, and
// they can't resend a reader that can't seek.
//
// A body that minio-go sends can't be reopened. retrip keeps what was read of it, up to
// Transport.ReplayBuffer, so that each attempt sends the same bytes. Make ReplayBuffer as
// large as the parts of an upload; a larger part is sent only once. It may take
// PartSize times NumThreads of memory.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "minio:", err)
		os.Exit(1)
	}
}

// partSize is the least that S3 takes for parts, which are 16 MiB if nothing is
// said. Uploads up to this size are one request.
const partSize = 5 << 20

// newClient is all there is to set up, but for PutObjectOptions.PartSize.
func newClient(url string, t *retrip.Transport) (*minio.Client, error) {
	return minio.New(strings.TrimPrefix(url, "http://"), &minio.Options{
		Creds:      credentials.NewStaticV4("dummy", "dummy-secret", ""),
		Region:     "us-east-1", // or minio-go would ask for it, in a request before the first
		Transport:  t,
		MaxRetries: 1, // 0 would be minio-go's default, which is 10
	})
}

// strategy makes the strategy for one host.
func strategy(string) *retrip.Strategy {
	// This mode knows S3's error codes, also where they come with status 200.
	s := aws.Standard2026()
	// It waits a second after throttling; a demonstration has less time.
	s.Backoff, s.ThrottleBackoff = retrip.FullJitter{Base: 2 * time.Millisecond, Cap: 10 * time.Millisecond}, nil
	return s
}

func newTransport() *retrip.Transport {
	return &retrip.Transport{
		PerKey: strategy,
		// Over plain HTTP minio-go signs the parts in chunks, unless told
		// otherwise, which makes them 0.14 % longer.
		ReplayBuffer: partSize,
	}
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	storage, err := newStorage()
	if err != nil {
		return err
	}
	defer storage.Close()
	t := newTransport()
	defer t.CloseIdleConnections()
	client, err := newClient(storage.URL, t)
	if err != nil {
		return err
	}

	var total show.Tally
	for _, s := range scenes {
		storage.faults.Reset()
		storage.faults.Fail(s.match, s.faults...)
		ctx, trace := retrip.WithTrace(context.Background())
		if err := s.call(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := total.Call(w, s.title, trace.Requests(), storage.faults.Hits()); err != nil {
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
	match  func(*http.Request) bool // the requests that fail; nil is all
	faults []faultlayer.Fault
	call   call
}

// object is more than fits into the buffers of a connection, so that a server
// that answers early does so while it is being sent.
var object = faultlayer.Noise(4 << 20)

var twoParts = faultlayer.Noise(partSize + partSize/2)

var scenes = []scene{{
	// minio-go itself gives up on such a reader after one attempt.
	title:  "PutObject from a reader that can't seek: the server throttles",
	faults: []faultlayer.Fault{slowDown, slowDown},
	call:   putReader(object),
}, {
	title:  "FPutObject: the server answers before it has read the file",
	faults: []faultlayer.Fault{faultlayer.Early(http.StatusServiceUnavailable)},
	call:   putFile(object),
}, {
	title:  "FPutObject in two parts: the connection breaks after the first is sent",
	match:  func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "1" },
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   putFile(twoParts),
}, {
	title:  "GetObject: the server throttles",
	faults: []faultlayer.Fault{slowDown, slowDown},
	call:   get(twoParts),
}, {
	// retrip sees one attempt, the server two.
	title:  "GetObject: a reused connection breaks, and net/http itself resends the GET",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   get(twoParts),
}}
