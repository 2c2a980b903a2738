// Kubernetes counts the requests that client-go makes of one call to an API
// server that fails: alone, over retrip, and over retrip that leaves to client-go
// what client-go retries itself. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in with rest.Config.Wrap. client-go repeats every request up to ten
// times if the answer is a 429 or a 5xx with a Retry-After, and a GET whose
// connection breaks. Nothing in its requests says that they are repeated, so
// retrip can't recognize them, and the attempts multiply: 11 requests become 33.
// Request.MaxRetries(0) switches client-go's retries off, but only for a
// rest.Request that you build yourself. For typed clients use the strategy below.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/retrip-go/retrip"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

// wrap puts retrip under client-go.
func wrap(config *rest.Config, strategy func(host string) *retrip.Strategy) {
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return &retrip.Transport{Base: base, PerKey: strategy}
	})
}

// clientGoRetries is what client-go retries itself (rest/with_retry.go and
// Request.request in rest/request.go).
var clientGoRetries = retrip.StatusIs(http.StatusTooManyRequests).Or(retrip.StatusFrom(500)).And(retrip.HasHeader("Retry-After")).
	Or(isGet.And(retrip.ErrorIs(syscall.ECONNRESET).Or(retrip.ErrorIs(io.EOF)).Or(retrip.ErrorIs(io.ErrUnexpectedEOF))))

var isGet = retrip.ConditionFunc("the method is GET", func(a retrip.Attempt) bool { return a.Request.Method == http.MethodGet })

// besideClientGo is standard mode for the rest: a 5xx without a Retry-After, a
// server that can't be reached, a PUT or DELETE whose connection breaks.
func besideClientGo(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Permanent, clientGoRetries))
	return s
}

// fast takes the waits out of a strategy, as the server here needs no rest.
func fast(strategy func(string) *retrip.Strategy) func(string) *retrip.Strategy {
	return func(host string) *retrip.Strategy {
		s := strategy(host)
		s.Backoff, s.ThrottleBackoff = retrip.Constant{}, nil
		return s
	}
}

func standard(string) *retrip.Strategy { return retrip.Standard() }

// A layering is how client-go and retrip are put together; strategy is nil for
// client-go alone.
type layering struct {
	name     string
	strategy func(string) *retrip.Strategy
}

var layerings = []layering{
	{"client-go", nil},
	{"client-go over retrip.Standard", standard},
	{"client-go over retrip beside it", besideClientGo},
}

// run makes the same calls through each layering, to a server that always fails.
func run(w io.Writer) error {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/throttled" {
			w.Header().Set("Retry-After", "0") // no wait, or the example takes ten seconds
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "requests of one call\t429 with Retry-After\t500")
	for _, l := range layerings {
		config := &rest.Config{Host: server.URL}
		if l.strategy != nil {
			wrap(config, fast(l.strategy))
		}
		client, err := newClient(config)
		if err != nil {
			return err
		}
		fmt.Fprint(table, l.name)
		for _, path := range []string{"/throttled", "/broken"} {
			requests.Store(0)
			if err := get(client, path); err == nil {
				return fmt.Errorf("%s: %s had no error", l.name, path)
			}
			fmt.Fprintf(table, "\t%d", requests.Load())
		}
		fmt.Fprintln(table)
		client.Client.CloseIdleConnections()
	}
	return table.Flush()
}

// newClient makes the part of client-go that sends requests, which its typed and
// dynamic clients share.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	config.QPS = -1 // no limit: the calls here are few
	return rest.RESTClientFor(config)
}

func get(client *rest.RESTClient, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.Get().AbsPath(path).Do(ctx).Error()
}
