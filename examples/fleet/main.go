// Fleet runs two fleets of ten processes each through an outage of the server that
// they call. One fleet shares its retry quota through Redis, in the other each process
// has a gate of its own. It prints how many attempts each sent for a request.
//
// It starts a redis-server or a valkey-server, if there is one, on a loopback port. It
// takes half a minute.
//
//	cd examples/fleet && go run .
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"
)

const processes = 10

func main() {
	if target := os.Getenv("FLEET_TARGET"); target != "" { // one of the processes
		exitOn(call(target, os.Getenv("FLEET_REDIS"), os.Stdin))
		return
	}
	outage := flag.Duration("outage", 20*time.Second, "how long the server is down")
	redis := flag.String("redis", "", "host:port of a Redis or Valkey; empty starts one")
	flag.Parse()
	exitOn(run(os.Stdout, *redis, *outage))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// run plays the outage to both fleets at once, and prints what they sent to w.
func run(w io.Writer, redis string, outage time.Duration) error {
	if redis == "" {
		addr, stop, err := startRedis()
		if err != nil {
			return err
		}
		defer stop()
		redis = addr
	}
	alone, err := newFleet("")
	if err != nil {
		return err
	}
	defer alone.stop()
	together, err := newFleet(redis)
	if err != nil {
		return err
	}
	defer together.stop()
	for _, f := range []*fleet{alone, together} {
		if err := f.wait(); err != nil {
			return err
		}
	}
	alone.api.down.Store(true)
	together.api.down.Store(true)
	time.Sleep(outage) // in real time: the processes are real
	fmt.Fprintf(w, "each with a gate of its own:   %v\n", alone.api)
	fmt.Fprintf(w, "with a quota shared in Redis:  %v\n", together.api)
	return nil
}

// A fleet is ten processes of this program and the server that they call.
type fleet struct {
	api *api
	web *httptest.Server
	all []*exec.Cmd
	end []io.Closer
}

func newFleet(redis string) (*fleet, error) {
	f := &fleet{api: newAPI()}
	f.web = httptest.NewServer(f.api)
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FLEET_TARGET="+f.web.URL, "FLEET_REDIS="+redis)
		cmd.Stderr = os.Stderr
		end, err := cmd.StdinPipe() // its end is the process's end, however this program ends
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			f.stop()
			return nil, err
		}
		f.all, f.end = append(f.all, cmd), append(f.end, end)
	}
	return f, nil
}

// wait waits until all processes have called.
func (f *fleet) wait() error {
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) { // they start in real time
		if f.api.callers() == processes {
			return nil
		}
	}
	return errors.New("not all processes have started within a minute")
}

func (f *fleet) stop() {
	for i, cmd := range f.all {
		_ = f.end[i].Close()
		_ = cmd.Wait()
	}
	f.web.Close()
}
