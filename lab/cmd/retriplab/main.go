// Command retriplab shows what a retry policy does to a server in an outage, before
// an outage does. See lab/README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends it at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `retriplab shows what a retry policy does to a server in an outage.

  retriplab [flags]                        the classic report
  retriplab run [flags] SCENARIO…          files, or built-in scenarios by name
  retriplab compare -policy A -policy B [flags] [SCENARIO…]
                                           two or more policies, in all built-in scenarios unless some are named
  retriplab replay -format combined|json|otlp [flags] FILE
                                           the requests of an access log, against policies
  retriplab picture [flags] NAME…          single pictures of the report: outage, failures, clients, loop,
                                           recovery, pareto
  retriplab list                           the scenarios and policies
  retriplab show SCENARIO                  the file of a built-in scenario

Exit codes: 0 all well, 1 a requirement is not met or the run was interrupted,
2 something is wrong with the flags or a file.

Flags:
`

// Exit codes.
const (
	fine = iota
	unmet
	misuse
)

// errUnmet tells that a requirement is not met.
var errUnmet = errors.New("not met")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout, stderr)
	switch {
	case err == nil:
		return fine
	case errors.Is(err, errUnmet):
		fmt.Fprintln(stderr, err)
		return unmet
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "retriplab: interrupted: no file was changed")
		return unmet
	case errors.Is(err, errHelp):
		return fine
	}
	fmt.Fprintf(stderr, "retriplab: %v\n", err)
	return misuse
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command := "classic"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	c, err := parse(command, args, stdout, stderr)
	if err != nil {
		return err
	}
	switch command {
	case "classic":
		return c.classic(ctx)
	case "run":
		return c.run(ctx)
	case "compare":
		return c.compare(ctx)
	case "replay":
		return c.replay(ctx)
	case "picture":
		return c.picture(ctx)
	case "list":
		return c.list()
	case "show":
		return c.show()
	}
	return fmt.Errorf("%s is no command: use run, compare, replay, picture, list or show, or none for the classic report", command)
}
