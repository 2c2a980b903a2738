// Observed puts three services that misbehave under load for a minute, with
// every signal of retrip switched on, and says where to look while it runs:
// metrics for Prometheus, expvar, and warnings on the way. At the end it prints
// what became of the requests. It needs no network but loopback.
//
//	go run .
//	go run . -for 10m -listen 127.0.0.1:9464    # with a Prometheus and a Grafana
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	duration := flag.Duration("for", time.Minute, "how long")
	listen := flag.String("listen", "127.0.0.1:9464", "where to serve the pages that it prints")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt kills
	if err := run(ctx, os.Stdout, *listen, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "observed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, listen string, duration time.Duration) error {
	services := startServices(duration)
	defer services.close()
	o, err := observe(services.base(), w)
	if err != nil {
		return err
	}
	defer o.close()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	signals := &http.Server{Handler: o.handler(), ReadHeaderTimeout: time.Second}
	defer signals.Close()
	go func() { _ = signals.Serve(listener) }() // until it is closed

	fmt.Fprintf(w, "For %v, look at\n", duration)
	for _, where := range o.places() {
		fmt.Fprintf(w, "  http://%s%s  %s\n", listener.Addr(), where.path, where.what)
	}
	fmt.Fprintln(w, "and at the warnings that follow.")
	load(ctx, &http.Client{Transport: o.transport, Timeout: 2 * time.Second}, duration)
	return o.report(w)
}
