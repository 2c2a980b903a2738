// Breaker sends requests through retrip over the circuit breakers of failsafe-go
// and gobreaker, while these are open. It needs no network.
//
//	go run .
//
// A breaker below retrip refuses an attempt with an error of its own. Any error
// that retrip does not know is transient: it is retried, and each retry is paid
// for from the quota, although nothing was sent. One rule makes it permanent.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/sony/gobreaker/v2"

	"github.com/retrip-go/retrip"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "breaker:", err)
		os.Exit(1)
	}
}

// breakerOpen are the errors of a breaker that lets no request through.
var breakerOpen = retrip.ErrorIs(circuitbreaker.ErrOpen).
	Or(retrip.ErrorIs(gobreaker.ErrOpenState)).Or(retrip.ErrorIs(gobreaker.ErrTooManyRequests))

// standardOverBreaker is standard mode that retries nothing that a breaker refused.
func standardOverBreaker(string) *retrip.Strategy {
	s := retrip.Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, retrip.On(retrip.Permanent, breakerOpen))
	return s
}

// openFailsafe is an open breaker of failsafe-go before a base.
func openFailsafe(base http.RoundTripper) http.RoundTripper {
	breaker := circuitbreaker.NewWithDefaults[*http.Response]()
	breaker.Open()
	return failsafehttp.NewRoundTripper(base, breaker)
}

// openGobreaker is an open breaker of gobreaker before a base.
func openGobreaker(base http.RoundTripper) http.RoundTripper {
	breaker := gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
		Timeout:     time.Hour,
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
	})
	_, _ = breaker.Execute(func() (*http.Response, error) { return nil, io.EOF }) // it opens
	return guarded{breaker, base}
}

// A guarded base is called through a breaker of gobreaker.
type guarded struct {
	breaker *gobreaker.CircuitBreaker[*http.Response]
	base    http.RoundTripper
}

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.breaker.Execute(func() (*http.Response, error) { return g.base.RoundTrip(req) })
	if err != nil && req.Body != nil {
		_ = req.Body.Close() // the base never saw it
	}
	return resp, err
}

// run sends requests through each breaker, with the rule and without, and prints
// what is left for retries of another kind.
func run(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "20 requests, breaker open\trule\tattempts\tquota left")
	for _, breaker := range []struct {
		name string
		open func(http.RoundTripper) http.RoundTripper
	}{{"failsafe-go", openFailsafe}, {"gobreaker", openGobreaker}} {
		for _, rule := range []struct {
			name     string
			strategy func(string) *retrip.Strategy
		}{{"none", func(string) *retrip.Strategy { return retrip.Standard() }}, {"permanent", standardOverBreaker}} {
			s := rule.strategy("")
			s.Backoff = retrip.Constant{}                                                 // nothing here takes time
			t := &retrip.Transport{Base: breaker.open(nil), Strategy: s, KeepStats: true} // one host: one strategy will do
			for range 20 {
				req, err := http.NewRequest(http.MethodGet, "http://host/", nil)
				if err != nil {
					return err
				}
				if resp, err := t.RoundTrip(req); err == nil {
					return fmt.Errorf("%s let a request through: %s", breaker.name, resp.Status)
				}
			}
			left := s.Quota.(retrip.MeteredQuota).Tokens()
			fmt.Fprintf(table, "%s\t%s\t%d\t%d of 500\n", breaker.name, rule.name, t.Stats().Attempts, left)
		}
	}
	return table.Flush()
}
