// Openai asks a server that fails as OpenAI's API may, with openai-go over
// retrip. It needs no network but loopback.
//
//	go run .
//
// Plug retrip in with option.WithHTTPClient and the strategy services.OpenAI, and
// switch openai-go's own two retries off with option.WithMaxRetries(0). If they stay
// on, they add to ours. They do not multiply, because openai-go numbers its attempts
// and retrip reads the number. (anthropic-sdk-go and other SDKs made by Stainless have
// the same two options.)
//
// The strategy retries every POST, as openai-go's own retries do: asking again costs
// tokens but does no harm. The server can say whether and when to retry, in
// x-should-retry and retry-after-ms. A streamed answer is handed on as it comes; if it
// breaks off, the caller has to handle that.
//
// option.WithRequestTimeout limits one attempt of openai-go, which now contains all
// attempts and waits of retrip. Transport.AttemptTimeout limits one attempt of retrip.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
	"github.com/retrip-go/retrip/internal/show"
	"github.com/retrip-go/retrip/services"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openai:", err)
		os.Exit(1)
	}
}

// newClient is all there is to set up. Against OpenAI itself, leave out the
// base URL.
func newClient(url string, transport http.RoundTripper, more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithMaxRetries(0),
		option.WithBaseURL(url + "/v1/"),
		option.WithAPIKey("example"),
	}, more...)...)
}

// strategy is OpenAI's, in a hurry: the server is ours.
func strategy(string) *retrip.Strategy {
	s := services.OpenAI()
	s.Backoff = retrip.FullJitter{Base: 20 * time.Millisecond, Cap: time.Second}
	s.ThrottleBackoff = nil // as Backoff
	return s
}

// run makes calls that meet trouble, and prints what became of each.
func run(w io.Writer) error {
	server := newServer()
	defer server.Close()
	transport := &retrip.Transport{PerKey: strategy, Observe: show.Lines(w)}
	defer transport.CloseIdleConnections()
	client := newClient(server.URL, transport)
	ctx := context.Background()

	trouble := []struct {
		title string
		fault faultlayer.Fault
	}{
		{"over the rate limit: the server says when to retry", answer(429, "Retry-After-Ms", "30")},
		{"while the server is overloaded", answer(503)},
		{"answered with 400: the server says to retry", answer(400, "X-Should-Retry", "true")},
		{"answered with 500: the server says not to retry", answer(500, "X-Should-Retry", "false")},
	}
	for _, t := range trouble {
		fmt.Fprintf(w, "Question %s:\n", t.title)
		server.faults.Fail(nil, t.fault)
		completion, err := client.Chat.Completions.New(ctx, question("Say hello."))
		failure := new(openai.Error)
		switch {
		case err == nil:
			fmt.Fprintf(w, "  returned: %q\n", completion.Choices[0].Message.Content)
		case errors.As(err, &failure):
			fmt.Fprintf(w, "  returned: %d %s\n", failure.StatusCode, failure.Code)
		default:
			return err
		}
	}

	fmt.Fprintln(w, "Question whose answer is streamed:")
	server.faults.Fail(nil, answer(503))
	stream := client.Chat.Completions.NewStreaming(ctx, question("Count."))
	defer stream.Close()
	fmt.Fprint(w, "  returned:")
	for stream.Next() {
		fmt.Fprintf(w, " %q", stream.Current().Choices[0].Delta.Content)
	}
	if err := stream.Err(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d calls, %d requests.\n", len(trouble)+1, server.requests.Load())
	return err
}

func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "example",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}
