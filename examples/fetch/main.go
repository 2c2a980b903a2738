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
	req, err := o.request(requestCtx, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "fetch: %v\n", err)
		return exitUsage
	}

	resp, err := o.client(stderr).Do(req)
	if err != nil {
		return fail(ctx, stderr, "no response", err)
	}
	defer resp.Body.Close()
	if err := o.save(resp, stdout, stderr); err != nil {
		return fail(ctx, stderr, "the response is not complete", err)
	}
	if resp.StatusCode >= 400 {
		fmt.Fprintf(stderr, "fetch: status %d %s\n", resp.StatusCode, http.StatusText(resp.StatusCode))
		return exitStatus
	}
	return exitSuccess
}

// client is where retrip comes in.
func (o options) client(stderr io.Writer) *http.Client {
	transport := &retrip.Transport{
		AttemptTimeout: o.attemptTimeout,
		PerKey: func(string) *retrip.Strategy { // each host of a redirect has its own
			s := o.mode.Strategy()
			if o.attempts > 0 {
				s.MaxAttempts = o.attempts
			}
			return s
		},
	}
	if o.verbose {
		transport.Observe = func(e retrip.Event) { fmt.Fprintln(stderr, describe(e)) }
	}
	return &http.Client{Transport: transport}
}

// save writes the response's body to where it should go.
func (o options) save(resp *http.Response, stdout, stderr io.Writer) error {
	if o.output == "" {
		return download(resp, stdout, stderr)
	}
	f, err := os.Create(o.output)
	if err != nil {
		return err
	}
	return errors.Join(download(resp, f, stderr), f.Close())
}

// download copies the response's body to out, with a progress line for those
// who watch. Text and progress on one screen would spoil each other.
func download(resp *http.Response, out, stderr io.Writer) error {
	body := io.Reader(resp.Body)
	if isTerminal(stderr) && !isTerminal(out) {
		p := &progress{to: stderr, total: resp.ContentLength}
		defer p.end()
		body = io.TeeReader(body, p)
	}
	_, err := io.Copy(out, body)
	return err
}

// fail reports an error without the URL that http.Client puts in front of it,
// since that may hold a password or a token.
func fail(ctx context.Context, stderr io.Writer, what string, err error) int {
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "fetch: interrupted")
		return exitInterrupted
	}
	if withURL := (*url.Error)(nil); errors.As(err, &withURL) {
		err = withURL.Err
	}
	fmt.Fprintf(stderr, "fetch: %s: %v\n", what, err)
	return exitNoResponse
}
