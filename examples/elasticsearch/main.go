// Elasticsearch indexes and searches documents with go-elasticsearch over
// retrip. The cluster is overloaded, and the proxy before it fails. It needs no
// network but loopback.
//
//	go run .
//
// Plug retrip in as the transport and switch the client's own retries off
// (Config.Transport and Config.DisableRetry do the same, but are deprecated). With
// them, one call could make 4 × 3 requests. They also resend every request after
// 502, 503 and 504 at once, even if it may have been processed: a bulk without ids is
// then in the index twice. They can do one thing that retrip can't: try the next
// node. Leave that choice to the client or to a load balancer.
//
// A POST may be anything. retrip retries it if it was certainly not processed, as after
// a 429. After a 503 it retries only a call that is declared idempotent with
// WithIdempotent: a search, or a bulk in which every action has an id.
//
// The client checks a header of the first response with a 2xx status to see that it
// speaks to Elasticsearch. A proxy's 503 before that does no harm.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "elasticsearch:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up. Certificates (WithCACert and its like)
// belong to the TLSClientConfig of retrip's Base: the client would only accept
// them with an *http.Transport.
func newClient(url string, t *retrip.Transport) (*elasticsearch.Client, error) {
	return elasticsearch.New(
		elasticsearch.WithAddresses(url),
		elasticsearch.WithAPIKey("ZHVtbXk6a2V5"), // "dummy:key"
		elasticsearch.WithTransportOptions(
			elastictransport.WithTransport(t),
			elastictransport.WithDisableRetry(),
		),
	)
}

// strategy makes the strategy for one host.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	// Standard waits a second after throttling; a demonstration has less time.
	s.Backoff, s.ThrottleBackoff = retrip.FullJitter{Base: 2 * time.Millisecond, Cap: 10 * time.Millisecond}, nil
	return s
}

func newTransport() *retrip.Transport {
	return &retrip.Transport{PerKey: strategy}
}

// run plays all scenes and prints what happened to w.
func run(w io.Writer) error {
	cluster := newCluster()
	defer cluster.Close()
	t := newTransport()
	defer t.CloseIdleConnections()
	client, err := newClient(cluster.URL, t)
	if err != nil {
		return err
	}

	var total show.Tally
	for _, s := range scenes {
		cluster.faults.Reset()
		cluster.faults.Fail(nil, s.faults...)
		ctx, trace := retrip.WithTrace(context.Background())
		if s.idempotent {
			ctx = retrip.WithIdempotent(ctx)
		}
		res, err := s.call(ctx, client)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := total.Call(w, s.title, trace.Requests(), cluster.faults.Hits()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "  returned: %d %s\n\n", res.status, http.StatusText(res.status)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(w, total)
	return err
}

// A scene is a call, and what goes wrong while it is made.
type scene struct {
	title      string
	faults     []faultlayer.Fault
	idempotent bool
	call       call
}

var scenes = []scene{{
	title:  "Index with an id, a PUT: the proxy finds no node",
	faults: []faultlayer.Fault{noNode, noNode},
	call:   index("1", "coffee"),
}, {
	// retrip keeps what it reads of a body that can't be reopened.
	title:  "Index from a stream: the connection breaks after everything is sent",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   indexStream("2", "tea"),
}, {
	title:  "Bulk, a POST: the cluster rejects it unprocessed",
	faults: []faultlayer.Fault{rejected, rejected},
	call:   bulk("water", "milk"),
}, {
	title:  "Bulk: the proxy fails, perhaps after the cluster processed it",
	faults: []faultlayer.Fault{noNode},
	call:   bulk("water", "milk"),
}, {
	title:      "Bulk, declared idempotent because each action has an id",
	faults:     []faultlayer.Fault{noNode},
	idempotent: true,
	call:       bulk("water", "milk"),
}, {
	title:      "Search, a POST declared idempotent: first rejected, then lost by the proxy",
	faults:     []faultlayer.Fault{rejected, noNode},
	idempotent: true,
	call:       search,
}, {
	// retrip sees one attempt, the cluster two.
	title:  "Get: a reused connection breaks, and net/http itself resends the GET",
	faults: []faultlayer.Fault{faultlayer.HangUp},
	call:   get("1"),
}}
