// Stripe takes payments from a server that fails as Stripe's API may, with
// stripe-go over retrip. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in with BackendConfig.HTTPClient and the strategy services.Stripe, and
// switch stripe-go's own two retries off with MaxNetworkRetries: 0. If they stay on,
// they multiply with ours.
//
// stripe-go gives each POST an Idempotency-Key, the same in all attempts, and Stripe
// processes it once. Because of the key, both retrip and net/http may send the POST
// again. Stripe also says whether that helps: its header Stripe-Should-Retry overrules
// the status.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
	"github.com/retrip-go/retrip/services"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stripe:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up. Against Stripe itself, leave out URL.
func newClient(url string, transport http.RoundTripper) *stripe.Client {
	return stripe.NewClient("example", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        &http.Client{Transport: transport, Timeout: 80 * time.Second}, // as stripe-go has it, now for all attempts together
		MaxNetworkRetries: stripe.Int64(0),
		URL:               &url,
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // errors come back as well
	})))
}

// strategy is Stripe's, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := services.Stripe()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

// run makes payments that meet trouble, and prints what became of each.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	transport := &retrip.Transport{PerKey: strategy, Observe: show.Lines(w)}
	defer transport.CloseIdleConnections()
	client := newClient(server.URL, transport)

	trouble := []struct {
		title string
		fault faultlayer.Fault
	}{
		{"while the server is overloaded", answer(503, "api_error", "")},
		{"over the rate limit", answer(429, "invalid_request_error", "")},
		{"while another request holds the lock: Stripe says to retry", answer(409, "invalid_request_error", "true")},
		{"that failed for good: Stripe says not to retry", answer(500, "api_error", "false")},
		{"whose answer is lost: it has a key, so net/http itself resends it, below retrip", server.loseAnswer},
	}
	for i, t := range trouble {
		fmt.Fprintf(w, "Payment %s:\n", t.title)
		before := server.requests.Load()
		server.faults.Fail(nil, t.fault)
		payment, err := pay(context.Background(), client, int64(1000+i))
		failure := new(stripe.Error)
		switch {
		case err == nil:
			fmt.Fprintf(w, "  returned: %s over %d", payment.ID, payment.Amount)
		case errors.As(err, &failure):
			fmt.Fprintf(w, "  returned: %d %s", failure.HTTPStatusCode, failure.Type)
		default:
			return err
		}
		fmt.Fprintf(w, ", requests: %d\n", server.requests.Load()-before)
	}
	_, err := fmt.Fprintf(w, "%d calls, %d requests, %d payments.\n",
		len(trouble), server.requests.Load(), server.count())
	return err
}

func pay(ctx context.Context, client *stripe.Client, amount int64) (*stripe.PaymentIntent, error) {
	return client.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
		Amount:   &amount,
		Currency: stripe.String(stripe.CurrencyEUR),
	})
}
