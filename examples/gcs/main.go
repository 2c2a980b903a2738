// Gcs stores objects in Google Cloud Storage and reads them, with Google's
// client over retrip. The server is fake-gcs-server; it is busy, answers early, hangs
// up and breaks off. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in with option.WithHTTPClient. Google's credentials then wrap it: the
// client's Transport is google.golang.org/api/transport/http.NewTransport(ctx, t, options...).
//
// Switch the client's own retries off, which otherwise go on until the context ends.
// RetryNever is not enough: it resends the chunks of a resumable upload for 32 seconds
// all the same, unless a function says that no error is worth a retry.
//
// All uploads are POSTs, which retrip does not resend after a 503 by default. Here the
// calls are declared idempotent, because writing the same object twice does no harm.
// That is not always so: if the bucket keeps versions, or others write the object,
// too, set a precondition (Conditions), so that the second write fails. Resending a
// chunk of a resumable upload is what the client itself would do.
//
// The client asks for the rest of an object that broke off while it was read. That is a
// request of its own, which retrip retries if necessary.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
	"google.golang.org/api/option"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gcs:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up. The last three options are for a server
// that is not Google's.
func newClient(ctx context.Context, url string, t *retrip.Transport) (*storage.Client, error) {
	client, err := storage.NewClient(ctx,
		option.WithHTTPClient(&http.Client{Transport: t}),
		option.WithoutAuthentication(),
		option.WithEndpoint(url+"/storage/v1/"),
		storage.WithJSONReads())
	if err != nil {
		return nil, err
	}
	client.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(never))
	return client, nil
}

// never switches off all retries of the client's, where RetryNever would leave
// those of chunks.
func never(error) bool { return false }

// strategy makes the strategy for one host.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	// Standard waits a second after throttling; a demonstration has less time.
	s.Backoff, s.ThrottleBackoff = retrip.FullJitter{Base: 2 * time.Millisecond, Cap: 10 * time.Millisecond}, nil
	return s
}

func newTransport() *retrip.Transport {
	return &retrip.Transport{
		PerKey: strategy,
		// With a ChunkSize of 0 the client streams a body that can't be reopened,
		// and retrip keeps up to so much of it. Chunks need nothing: the client
		// has them in memory.
		ReplayBuffer: 8 << 20,
	}
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	cloud, err := newCloud()
	if err != nil {
		return err
	}
	defer cloud.Close()
	t := newTransport()
	defer t.CloseIdleConnections()
	client, err := newClient(context.Background(), cloud.URL, t)
	if err != nil {
		return err
	}
	defer client.Close()

	var total show.Tally
	for _, s := range scenes {
		cloud.faults.Reset()
		cloud.faults.Fail(s.match, s.faults...)
		ctx, trace := retrip.WithTrace(context.Background())
		if err := s.call(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := total.Call(w, s.title, trace.Requests(), cloud.faults.Hits()); err != nil {
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

// chunks is sent in three.
var chunks = object[:5*chunk/2]

var scenes = []scene{{
	title:  "Writer, all at once: the server is busy and says for how long",
	faults: []faultlayer.Fault{busy("Retry-After", "0.02"), busy()},
	call:   write(object, atOnce),
}, {
	title:  "Writer, all at once: the server answers before it has read the object",
	faults: []faultlayer.Fault{faultlayer.Early(http.StatusServiceUnavailable)},
	call:   write(object, atOnce),
}, {
	title:  "Writer, resumable in three chunks: the connection breaks after the second is sent",
	match:  func(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Content-Range"), "bytes 262144-") },
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   write(chunks, chunk),
}, {
	title:  "Reader: the server is busy",
	faults: []faultlayer.Fault{busy(), busy()},
	call:   read(chunks),
}, {
	// retrip sees one attempt, the server two.
	title:  "Reader: a reused connection breaks, and net/http itself resends the GET",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   read(chunks),
}, {
	title:  "Reader: the object breaks off; the client asks for the rest, and the server is busy",
	faults: []faultlayer.Fault{half(chunks), busy()},
	call:   read(chunks),
}}
