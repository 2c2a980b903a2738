// Picture runs the quickstart and draws what it prints, as an SVG for the README:
//
//	go run ./internal/picture > docs/quickstart.svg
//
// The backoffs are random, so the picture leaves out how long they were: it is
// the same after each run. .ci/run fails if docs/quickstart.svg is out of date.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	quickstart := exec.Command("go", "run", "./examples/quickstart")
	quickstart.Stderr = os.Stderr
	printed, err := quickstart.Output()
	if err != nil {
		return fmt.Errorf("go run ./examples/quickstart: %w (call this command in the root of the repository)", err)
	}
	s, err := parse(string(printed))
	if err != nil {
		return err
	}
	return draw(w, s)
}
