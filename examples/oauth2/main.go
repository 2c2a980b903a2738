// Oauth2 calls a server that requires a token, with golang.org/x/oauth2 above and
// below retrip, and counts the requests for tokens and the requests that use them. It
// needs no network but loopback.
//
//	go run .
//
// Prefer oauth2 above (oauth2.Transport.Base is a retrip.Transport), and send its token
// requests through retrip, too: see above. Then each request is retried for its own
// failures only, and no more often than its strategy says. The token is the same in
// all attempts.
//
// Below (retrip.Transport.Base is an oauth2.Transport), each attempt asks for the
// token anew. That helps if tokens may expire or be revoked during a wait. But then a
// failed token request is a failed attempt: a POST is not retried although it was
// never sent. And if the token requests have retries of their own, the two multiply.
// To get a token for each attempt without that, fetch it in Transport.Prepare: see
// prepared.
//
// oauth2 itself repeats a failed token request once, to find out how the server
// wants the client's secret. Set AuthStyle, and it does not.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oauth2:", err)
		os.Exit(1)
	}
}

// above is the order to prefer: oauth2 over retrip, for tokens and all else.
func above(transport *retrip.Transport, config *clientcredentials.Config) *http.Client {
	return &http.Client{Transport: &oauth2.Transport{
		Source: config.TokenSource(throughRetrip(transport)),
		Base:   transport,
	}}
}

// throughRetrip is the context of token requests that retrip sends. They are
// POSTs, but a token more does no harm, so they may be repeated. With refresh
// tokens that are good for one use, leave WithIdempotent out. The timeout is
// there since no caller's deadline reaches a token request, for which they all
// wait.
func throughRetrip(transport *retrip.Transport) context.Context {
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return retrip.WithIdempotent(context.WithValue(context.Background(), oauth2.HTTPClient, client))
}

// below is oauth2 under retrip. The token requests know nothing of retrip.
func below(transport *retrip.Transport, config *clientcredentials.Config) *http.Client {
	return stack(transport, config.TokenSource(context.Background()))
}

// twice is oauth2 under retrip, with token requests that go through another.
func twice(transport *retrip.Transport, config *clientcredentials.Config) *http.Client {
	tokens := &retrip.Transport{Base: transport.Base, PerKey: transport.PerKey, Observe: transport.Observe}
	return stack(transport, config.TokenSource(throughRetrip(tokens)))
}

func stack(transport *retrip.Transport, source oauth2.TokenSource) *http.Client {
	return &http.Client{Transport: &retrip.Transport{
		Base:    &oauth2.Transport{Source: source, Base: transport.Base},
		PerKey:  transport.PerKey,
		Observe: transport.Observe,
	}}
}

// prepared gives each attempt its token without an oauth2.Transport. Like that,
// it gives it to every hop of a redirect, wherever it leads.
func prepared(transport *retrip.Transport, config *clientcredentials.Config) *http.Client {
	source := config.TokenSource(throughRetrip(transport))
	return &http.Client{Transport: &retrip.Transport{
		Base:    transport.Base,
		PerKey:  transport.PerKey,
		Observe: transport.Observe,
		Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
			token, err := source.Token()
			if err == nil {
				token.SetAuthHeader(req)
			}
			return err
		},
	}}
}

// strategy is the standard mode, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

type order struct {
	name string
	make func(*retrip.Transport, *clientcredentials.Config) *http.Client
}

var orders = []order{
	{"above", above},
	{"below", below},
	{"below, tokens through another retrip", twice},
	{"in Prepare", prepared},
}

var failure = faultlayer.Answer(503, "busy")

var troubles = []struct {
	title, method   string
	tokens, answers []faultlayer.Fault
}{
	{"GET: the token request fails once, and so does the GET", http.MethodGet,
		[]faultlayer.Fault{failure}, []faultlayer.Fault{failure}},
	{"POST: the token request fails once", http.MethodPost,
		[]faultlayer.Fault{failure}, nil},
	{"GET: every token request fails", http.MethodGet,
		slices.Repeat([]faultlayer.Fault{failure}, 10), nil},
}

// run meets each trouble in each order, prints the attempts that retrip saw,
// and in the end what arrived at the server.
func run(w io.Writer) error {
	var sum strings.Builder
	table := tabwriter.NewWriter(&sum, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "oauth2\toutcome\ttoken requests\trequests\ttrouble")
	for _, order := range orders {
		for _, trouble := range troubles {
			fmt.Fprintf(w, "oauth2 %s, %s\n", order.name, trouble.title)
			server := newServer()
			server.faults.Fail(isToken, trouble.tokens...)
			server.faults.Fail(isItem, trouble.answers...)
			transport := &retrip.Transport{PerKey: strategy, Observe: attempts(w)}
			outcome, err := call(order.make(transport, server.config()), trouble.method, server.URL)
			if err != nil {
				outcome = "no token" // there is no other trouble
			}
			server.Close()
			tokens, items := server.count()
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", order.name, outcome, tokens, items, trouble.title)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", &sum)
	return err
}

func call(client *http.Client, method, url string) (status string, err error) {
	req, err := http.NewRequest(method, url+"/items", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.Status, nil
}

// attempts prints each attempt and what follows from it.
func attempts(w io.Writer) func(retrip.Event) {
	return func(e retrip.Event) {
		outcome := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
		if e.Err != nil {
			outcome = "no token"
		}
		fmt.Fprintf(w, "  %s %s attempt %d: %s, %v, %s\n",
			e.Request.Method, e.Request.URL.Path, e.Attempt, outcome, e.Class, show.Next(e))
	}
}
