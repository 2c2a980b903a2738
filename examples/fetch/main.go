// Fetch is a small curl that retries.
//
//	go run ./examples/fetch -mode adaptive -attempts 5 -v URL
//
// Its -h explains the flags and the exit codes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"

	"github.com/retrip-go/retrip"
)

// The exit codes, as usage explains them.
const (
	exitSuccess     = 0
	exitStatus      = 1
	exitUsage       = 2
	exitNoResponse  = 3
	exitInterrupted = 130 // as shells report it: 128 + SIGINT
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt then kills, as usual
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main with everything it touches as an argument. It returns the exit
// code; the end of ctx is an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitSuccess
	}
	if err != nil {
		fmt.Fprintf(stderr, "fetch: %v\nfetch -h explains the flags\n", err)
		return exitUsage
	}
	requestCtx := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		requestCtx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	requestCtx, trace := retrip.WithTrace(requestCtx)
	out, err := openOutput(o.output, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "fetch: %v\n", err)
		return exitUsage
	}
	defer out.discard()
	req, err := o.request(requestCtx, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "fetch: %v\n", err)
		return exitUsage
	}

	status := &statusLine{to: stderr, on: isTerminal(stderr)}
	resp, err := o.client(stderr, status).Do(req)
	status.clear()
	if o.verbose {
		fmt.Fprint(stderr, trace.Waterfall())
	}
	if err != nil {
		return o.fail(ctx, stderr, trace, "no response", err)
	}
	defer resp.Body.Close()
	err = download(resp, out.Writer, status)
	if err == nil {
		err = out.commit()
	}
	if err != nil {
		if out.target != "" {
			err = fmt.Errorf("%w; %s stays as it was", err, o.output)
		}
		return o.fail(ctx, stderr, trace, "the response is not complete", err)
	}
	if resp.StatusCode >= 400 {
		fmt.Fprintf(stderr, "fetch: status %d %s\n", resp.StatusCode, http.StatusText(resp.StatusCode))
		return exitStatus
	}
	return exitSuccess
}

// client is where retrip comes in.
func (o options) client(stderr io.Writer, status *statusLine) *http.Client {
	transport := &retrip.Transport{
		AttemptTimeout: o.attemptTimeout,
		PerKey: func(string) *retrip.Strategy { // each host of a redirect has its own
			s := o.mode.Strategy()
			if o.attempts > 0 {
				s.MaxAttempts = o.attempts
			}
			return s
		},
		Observe: func(e retrip.Event) {
			switch {
			case o.verbose:
				fmt.Fprintln(stderr, describe(e))
			case !e.Final:
				status.show(what(e))
			}
		},
	}
	return &http.Client{Transport: transport}
}

// download copies the response's body to out, with the progress on a line of the
// terminal. Text and progress on one screen would spoil each other.
func download(resp *http.Response, out io.Writer, status *statusLine) error {
	body := io.Reader(resp.Body)
	if status.on && !isTerminal(out) {
		p := &progress{line: status, total: resp.ContentLength}
		defer p.end()
		body = io.TeeReader(body, p)
	}
	_, err := io.Copy(out, body)
	return err
}

// fail reports an error. It leaves out the URL that http.Client puts in front of
// it, since that may hold a password or a token.
func (o options) fail(ctx context.Context, stderr io.Writer, trace *retrip.Trace, what string, err error) int {
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "fetch: interrupted")
		return exitInterrupted
	}
	if withURL := (*url.Error)(nil); errors.As(err, &withURL) {
		err = withURL.Err
	}
	if o.timeout > 0 && errors.Is(err, context.DeadlineExceeded) {
		what += fmt.Sprintf(" within %v", o.timeout)
	}
	if own := (*retrip.Error)(nil); !errors.As(err, &own) { // which has the number itself
		what += sent(trace)
	}
	fmt.Fprintf(stderr, "fetch: %s: %s: %v\n", target(o.method, o.url), what, err)
	return exitNoResponse
}
