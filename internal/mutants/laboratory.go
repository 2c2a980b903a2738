package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type settings struct {
	root  string // of the module
	dir   string // for temporary files
	race  bool
	quick bool // spare the whole suite
	limit time.Duration
}

// An outcome is what became of a mutant.
type outcome int

const (
	killed          outcome = iota // by the tests of its row
	killedByTimeout                // which ran out of time
	killedLate                     // by the whole suite only
	equivalent                     // survived, as its row explains
	survived
	notApplied
	notCompiled
	misjudged   // a row that is wrong about itself
	interrupted // by the user: nothing is known
)

var outcomeNames = [...]string{"killed", "killed (timeout)", "killed by suite", "equivalent", "SURVIVED", "DOES NOT APPLY", "DOES NOT COMPILE", "WRONG ROW", "interrupted"}

func (o outcome) String() string { return outcomeNames[o] }
func (o outcome) bad() bool      { return o >= survived }

type result struct {
	outcome outcome
	detail  string
}

// A laboratory compiles mutants and runs tests against them.
type laboratory struct {
	settings
	known   []string // the root package's tests, examples and fuzz targets
	sound   string   // the root package's test binary without a mutant
	serial  atomic.Int64
	healthy func() error // that the whole suite passes without a mutant; asked once
}

// newLaboratory makes sure that the tests of the rows exist and pass without a
// mutant: otherwise each mutant would seem to be killed, or none.
func newLaboratory(ctx context.Context, s settings, chosen []mutant) (*laboratory, error) {
	l := &laboratory{settings: s, sound: filepath.Join(s.dir, "sound.test")}
	if out, err := l.compile(ctx, "", l.sound); err != nil {
		return nil, fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	out, err := l.execute(ctx, s.limit, l.sound, "-test.list", ".")
	if err != nil {
		return nil, fmt.Errorf("-test.list: %w", err)
	}
	l.known = strings.Fields(out)
	var rows, packages []string
	for _, m := range chosen {
		if l.matches(m.tests) || len(m.packages) > 0 {
			rows = append(rows, "(?:"+m.tests+")")
		}
		packages = append(packages, m.packages...)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	wanted := strings.Join(rows, "|")
	out, err = l.runTests(ctx, l.limit*10, l.sound, wanted)
	if err == nil {
		out, err = l.runPackages(ctx, l.limit*10, "", wanted, packages)
	}
	if err != nil {
		return nil, fmt.Errorf("the tests fail without a mutant: mend them first: %w\n%s", err, tail(out))
	}
	l.healthy = sync.OnceValue(func() error {
		if out, err := l.runSuite(ctx, l.sound, "", packages); err != nil {
			return fmt.Errorf("the suite fails without a mutant: %w\n%s", err, tail(out))
		}
		return nil
	})
	return l, nil
}

// matches reports whether a row's regexp selects any test at all.
func (l *laboratory) matches(tests string) bool {
	top, _, _ := strings.Cut(tests, "/")
	re, err := regexp.Compile(top)
	return err == nil && tests != "" && slices.ContainsFunc(l.known, re.MatchString)
}

// test tests one mutant. An interrupt ends what is under way, so that nothing
// follows from how that ended.
func (l *laboratory) test(ctx context.Context, files map[string]string, m mutant) result {
	r := l.judge(ctx, files, m)
	if ctx.Err() != nil {
		return result{outcome: interrupted}
	}
	return r
}

func (l *laboratory) judge(ctx context.Context, files map[string]string, m mutant) result {
	file, source, err := m.apply(files)
	if err != nil {
		return result{notApplied, err.Error()}
	}
	if !l.matches(m.tests) && len(m.packages) == 0 {
		return result{misjudged, fmt.Sprintf("its regexp %q selects no test of the root package, and it names no other", m.tests)}
	}
	overlay, binary, err := l.overlay(file, source)
	if err != nil {
		return result{notApplied, err.Error()}
	}
	defer os.Remove(binary)
	if out, err := l.compile(ctx, overlay, binary); err != nil {
		return result{notCompiled, tail(out)}
	}
	moved := ""
	if file != m.file {
		moved = fmt.Sprintf("it has moved from %s to %s: change its row\n", m.file, file)
	}
	out, err := l.runTests(ctx, l.limit, binary, m.tests)
	if err == nil {
		out, err = l.runPackages(ctx, l.limit, overlay, m.tests, m.packages)
	}
	switch {
	case err != nil && m.equivalent != "":
		return result{misjudged, moved + "its row says that no test can find it, but " + killer(out) + " does"}
	case timedOut(out, err):
		return result{killedByTimeout, moved}
	case err != nil:
		return result{killed, moved}
	case m.equivalent != "":
		return result{equivalent, moved + m.equivalent}
	case l.quick:
		return result{survived, moved + "the tests of its row"}
	}
	out, err = l.runSuite(ctx, binary, overlay, m.packages)
	switch {
	case err == nil:
		return result{survived, moved + file + ": " + m.old + "\n=> " + m.new}
	case l.healthy() != nil:
		return result{misjudged, l.healthy().Error()}
	case timedOut(out, err):
		return result{killedByTimeout, moved + "by the whole suite: add a test to its row"}
	}
	return result{killedLate, moved + "by " + killer(out) + ": add it to its row"}
}

// overlay writes the changed source and what tells go to use it.
func (l *laboratory) overlay(file, source string) (overlay, binary string, err error) {
	path := filepath.Join(l.dir, fmt.Sprint(l.serial.Add(1)))
	if err := os.WriteFile(path+".go", []byte(source), 0o600); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(l.root, file): path + ".go"}})
	if err != nil {
		return "", "", err
	}
	return path + ".json", path + ".test", os.WriteFile(path+".json", text, 0o600)
}

// compile makes the root package's test binary.
func (l *laboratory) compile(ctx context.Context, overlay, binary string) (string, error) {
	return l.execute(ctx, 10*time.Minute, "go", append(l.flags("test", overlay), "-c", "-ldflags=-s", "-o", binary, ".")...)
}

func (l *laboratory) flags(command, overlay string) []string {
	args := []string{command}
	if l.race {
		args = append(args, "-race")
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return args
}

func (l *laboratory) runTests(ctx context.Context, limit time.Duration, binary, tests string) (string, error) {
	return l.execute(ctx, limit+10*time.Second, binary, "-test.run", tests,
		"-test.count=1", "-test.failfast", "-test.shuffle=off", "-test.timeout", limit.String())
}

// runSuite runs all tests of the root package, and then those of others.
func (l *laboratory) runSuite(ctx context.Context, binary, overlay string, packages []string) (string, error) {
	limit := 10 * l.limit
	out, err := l.runTests(ctx, limit, binary, ".")
	if err != nil {
		return out, err
	}
	return l.runPackages(ctx, limit, overlay, ".", packages)
}

// runPackages runs those tests of packages other than the root.
func (l *laboratory) runPackages(ctx context.Context, limit time.Duration, overlay, tests string, packages []string) (string, error) {
	if len(packages) == 0 {
		return "", nil
	}
	args := append(l.flags("test", overlay), "-run", tests, "-count=1", "-failfast", "-shuffle=off", "-vet=off", "-timeout", limit.String())
	return l.execute(ctx, limit+10*time.Minute, "go", append(args, packages...)...)
}

var errTimeout = errors.New("out of time")

func (l *laboratory) execute(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = l.root
	command.WaitDelay = time.Second // for children that hold the output open
	out, err := command.CombinedOutput()
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}

// timedOut reports whether a run of tests failed for want of time.
func timedOut(out string, err error) bool {
	return errors.Is(err, errTimeout) || err != nil && strings.Contains(out, "panic: test timed out after ")
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*|fatal error: .*)`)

// killer names the test that failed, or what ended the run.
func killer(out string) string {
	found := failure.FindStringSubmatch(out)
	if found == nil {
		return tail(out)
	}
	return found[1] + found[2]
}

// tail is the end of a long output.
func tail(out string) string {
	const long = 2000
	return out[max(0, len(out)-long):]
}
