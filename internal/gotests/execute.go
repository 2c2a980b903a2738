package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// reruns is how often a test runs again whose result is not the expected one.
const reruns = 3

// aloneBound is the longest that a test may run that runs alone. Without retrip
// each takes less than a second.
const aloneBound = 10 * time.Second

// An execution is one run of a test binary.
type execution struct {
	suite         suite
	binary        string
	wrapper       string
	pattern, skip string // which tests run; empty means all, none
	count         int    // how often; 0 means once
	bound         time.Duration
}

// build builds the test binary of a suite and returns its name. go vet can't
// read packages that only an overlay has.
func (p *patched) build(ctx context.Context, s suite) (string, error) {
	binary := filepath.Join(p.dir, strings.ReplaceAll(s.path, "/", "-")+".test")
	args := []string{"test", "-c", "-vet=off", "-overlay", p.overlayFile(), "-o", binary}
	if *race {
		args = append(args, "-race")
	}
	_, err := command(ctx, p.sources(s), p.env(), "go", append(args, ".")...)
	return binary, err
}

var errEndless = errors.New("the tests did not end")

// test runs the tests.
func (p *patched) test(ctx context.Context, e execution) (results, error) {
	notes := filepath.Join(p.dir, "notes")
	if err := os.RemoveAll(notes); err != nil {
		return results{}, err
	}
	limited, cancel := context.WithTimeout(ctx, e.bound+20*time.Second) // the binary ends itself before
	defer cancel()
	cmd := exec.CommandContext(limited, "go", "tool", "test2json", "-t", e.binary,
		"-test.v=test2json", "-test.timeout="+e.bound.String(), "-test.count="+fmt.Sprint(cmp.Or(e.count, 1)),
		"-test.run="+e.pattern, "-test.skip="+e.skip)
	cmd.Dir = p.sources(e.suite)
	cmd.Env = append(p.env(), "GOTESTS_WRAPPER="+e.wrapper, "GOTESTS_NOTES="+notes)
	cmd.WaitDelay = 10 * time.Second // for processes of the tests that live on
	output, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return results{}, ctx.Err()
	case limited.Err() != nil:
		return results{}, fmt.Errorf("%w: with %s, longer than %v", errEndless, e.wrapper, e.bound)
	case err != nil && !errors.As(err, &exit):
		return results{}, err
	}
	if err := appendFile(e.binary+"."+e.wrapper+".json", output); err != nil {
		return results{}, err
	}
	r, err := parse(output)
	if err != nil {
		return results{}, fmt.Errorf("with %s: %w", e.wrapper, err)
	}
	sent, err := os.ReadFile(notes)
	if err != nil && !os.IsNotExist(err) {
		return results{}, err
	}
	r.countRequests(string(sent))
	return r, nil
}

// anyOf is a pattern for the given tests, with all their subtests; empty if
// there are none.
func anyOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		top, _, _ := strings.Cut(name, "/")
		quoted[i] = regexp.QuoteMeta(top)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

func appendFile(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
