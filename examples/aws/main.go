// AWS calls DynamoDB, S3, SQS, KMS and Lambda through the AWS SDK for Go v2, over
// retrip, while the services fail. The SDK's own retries are off.
//
//	go run .
//
// It needs no network but loopback. client.go is what a program needs; the rest is
// the calls and the services. S3 is gofakes3. For the others we found no maintained
// server as a Go module that builds with the Go versions we support, so each is a
// few lines that speak the service's protocol. All services check signatures and
// stand behind a layer of faults.
//
// The SDK signs a request once, so each retry carries the same signature, the same
// X-Amz-Date and "Amz-Sdk-Request: attempt=1". A signature is valid for five minutes
// with most services and for fifteen with S3, and retrip waits for a server no longer
// than one minute (Strategy.MaxRetryAfter). A program that signs without the SDK can
// sign each attempt anew, in Transport.Prepare: see skew.go.
//
// Two failures are the caller's to handle when the SDK's retries are off: a response
// that breaks off or fails its checksum, and the first call with a wrong clock.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/retrip-go/retrip"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "aws:", err)
		os.Exit(1)
	}
}

// run plays all calls and prints what happened to w.
func run(w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, play := range []func(context.Context, io.Writer) error{playCalls, playBothLayers, playSkew} {
		if err := play(ctx, out); err != nil {
			return err
		}
	}
	return out.Flush()
}

func playCalls(ctx context.Context, w io.Writer) error {
	c, err := newCloud(0)
	if err != nil {
		return err
	}
	defer c.close()
	client := newClient(c.base())
	defer client.CloseIdleConnections()
	services := newServices(newConfig(client))
	c.queue <- "do this"

	fmt.Fprintln(w, "call\tattempts\tanswers\tresult")
	for _, call := range calls {
		c.faults.Fail(call.match, call.faults...)
		traced, trace := retrip.WithTrace(ctx)
		result, err := call.do(traced, services)
		if err == nil && result != call.want {
			err = fmt.Errorf("got %q, want %q", result, call.want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		printLine(w, call.name, trace, result)
	}
	return nil
}

// playBothLayers shows what the SDK's retries would add.
func playBothLayers(ctx context.Context, w io.Writer) error {
	c, err := newCloud(0)
	if err != nil {
		return err
	}
	defer c.close()
	client := newClient(c.base())
	defer client.CloseIdleConnections()
	fmt.Fprintln(w, "\nLambda Invoke while all fails\tattempts\tanswers\tresult")
	for _, sdk := range []bool{false, true} {
		config, name := newConfig(client), "SDK's retries off"
		if sdk {
			config.Retryer, name = shortRetries, "SDK's retries on"
		}
		c.faults.Fail(nil, times(20, headerError(503, "ServiceException"))...)
		traced, trace := retrip.WithTrace(ctx)
		if _, err = invoke(traced, newServices(config)); err == nil {
			return fmt.Errorf("%s: no error", name)
		}
		printLine(w, name, trace, "an error")
		c.faults.Reset()
	}
	return nil
}

// shortRetries is the SDK's default, but in no time.
func shortRetries() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

// printLine adds a line to the table.
func printLine(w io.Writer, name string, trace *retrip.Trace, result string) {
	attempts, answers := outcomes(trace)
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", name, attempts, answers, result)
}

// outcomes sums up the attempts. Requests are separated by a semicolon.
func outcomes(trace *retrip.Trace) (attempts int, answers string) {
	var requests []string
	for _, events := range trace.Requests() {
		var all []string
		for _, e := range events {
			all = append(all, outcome(e))
		}
		attempts += len(all)
		requests = append(requests, strings.Join(all, ", "))
	}
	return attempts, strings.Join(requests, "; ")
}

func outcome(e retrip.Event) string {
	switch {
	case e.Err != nil:
		return e.ErrorKind() // its text would name a port
	case e.Code != "":
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	case e.Status == http.StatusOK && e.Class != retrip.Success:
		return "200 with an Error"
	default:
		return fmt.Sprint(e.Status)
	}
}
