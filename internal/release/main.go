// Release makes a release in a throw-away clone and proves that users can
// install it.
//
//	go run . [-version v0.2.0] [-o release.bundle]
//
// It works on the commit that is checked out, changes nothing in the repository,
// and removes its temporary directory at the end. Its steps:
//
//  1. Clone the repository.
//  2. Check that the go.mod of each module is tidy. This also fetches the
//     dependencies, so that later steps need no network (but for a tool of step 3).
//  3. Tag the root module. Let the other modules require that tag in place of a
//     replace directive, commit, and tag them, each module after those that it
//     requires. Each tagged module goes into a directory that the go command takes
//     for a module proxy. If there is a release already, compare the API with it:
//     the version must fit the changes.
//  4. For each module that users import: let a new module require it, build all
//     packages of it, and check that go.mod grows by no module that is not compiled.
//  5. Install each command by its version.
//  6. Copy the examples out of the repository and build them. Examples that need
//     an internal package stay.
//  7. With -o, write the tags and their commits into a file for git fetch.
//
// The directories bench, realservers and internal hold modules for this
// repository only. They are not released.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the `version` to release; unset: the next minor version")
	bundle := flag.String("o", "", "write tags and commits into this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := options{
		version: *version, bundle: *bundle,
		rootDependencies: []string{"github.com/hashicorp/go-cleanhttp"},
		testDependencies: []string{"github.com/stretchr/testify", "github.com/jarcoal/httpmock", "go.yaml.in/yaml/v3"},
	}
	err := makeRelease(ctx, ".", o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	version string
	bundle  string

	// The modules, beside the root module, that may appear in the go.mod of
	// those who use it, and those that may appear in their go.sum besides.
	rootDependencies, testDependencies []string
}

// A release is the work on one release: everything is in the directory tmp.
type release struct {
	ctx     context.Context
	out     io.Writer
	start   time.Time
	tmp     string
	version string
	last    string // the newest release, or "" before the first
	modules []*mod // each after those that it requires
	name    string // of who makes the release
	mail    string
	options options
}

func (r *release) path(elem ...string) string {
	return filepath.Join(append([]string{r.tmp}, elem...)...)
}

func (r *release) clone() string { return r.path("clone") }

// makeRelease releases what is committed in the repository that dir is in.
func makeRelease(ctx context.Context, dir string, o options, out io.Writer) (err error) {
	if o.bundle != "" {
		if o.bundle, err = filepath.Abs(o.bundle); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp("", "retrip-release-")
	if err != nil {
		return err
	}
	defer func() { err = first(err, os.RemoveAll(tmp)) }()
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return err
	}
	r := &release{ctx: ctx, out: out, start: time.Now(), tmp: tmp, options: o}
	steps := []struct {
		title string
		do    func() error
	}{
		{"clone the commit that is checked out", func() error { return r.copyRepository(dir) }},
		{"check that each module is tidy, and fetch the dependencies", r.checkTidy},
		{"tag the modules, in the order of their dependencies", r.tagModules},
		{"let new modules require what is released", r.proveImports},
		{"install the commands", r.proveCommands},
		{"build the examples outside of the repository", r.proveExamples},
		{"write the tags", r.writeBundle},
	}
	for i, step := range steps {
		r.say("\n== %d. %s (%s so far)", i+1, step.title, time.Since(r.start).Round(time.Second))
		if err := step.do(); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, step.title, err)
		}
	}
	r.say("\nProved %s in %s. The repository has no new tag.", r.version, time.Since(r.start).Round(time.Second))
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// copyRepository clones what is committed. Changes that are not are left out,
// as they would be in a release.
func (r *release) copyRepository(dir string) error {
	root, err := r.output(dir, os.Environ(), "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	changed, err := r.output(root, os.Environ(), "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		r.say("Left out, since it is not committed:\n%s", changed)
	}
	if err := r.identity(root); err != nil {
		return err
	}
	if err := r.run(root, os.Environ(), "git", "clone", "--quiet", root, r.clone()); err != nil {
		return err
	}
	if err := r.chooseVersion(); err != nil {
		return err
	}
	r.say("version %s", r.version)
	if r.modules, err = r.findModules(); err != nil {
		return err
	}
	return os.MkdirAll(r.path("proxy"), 0o777)
}

// chooseVersion takes the next minor version unless the user chose one.
func (r *release) chooseVersion() error {
	tags, err := r.output(r.clone(), os.Environ(), "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if semver.IsValid(tag) && (r.last == "" || semver.Compare(tag, r.last) > 0) {
			r.last = tag
		}
	}
	switch r.version = r.options.version; {
	case r.version == "" && r.last == "":
		r.version = "v0.1.0"
	case r.version == "":
		var major, minor int
		if _, err := fmt.Sscanf(semver.MajorMinor(r.last), "v%d.%d", &major, &minor); err != nil {
			return fmt.Errorf("tag %s: %w", r.last, err)
		}
		r.version = fmt.Sprintf("v%d.%d.0", major, minor+1)
	case semver.Canonical(r.version) != r.version:
		return fmt.Errorf("version %q has not the form v1.2.3", r.version)
	case r.last != "" && semver.Compare(r.version, r.last) <= 0:
		return fmt.Errorf("version %s is not newer than the tag %s", r.version, r.last)
	}
	return nil
}

// writeBundle writes the tags for git fetch, if the user asked for a file.
func (r *release) writeBundle() error {
	if r.options.bundle == "" {
		r.say("Skipped: no file was asked for (-o).")
		return nil
	}
	args := []string{"bundle", "create", "--quiet", r.options.bundle}
	for _, m := range r.released() {
		args = append(args, "refs/tags/"+m.tag(r.version))
	}
	return r.run(r.clone(), os.Environ(), "git", args...)
}

func (r *release) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// run runs a command and prints it, and what it prints if it fails.
func (r *release) run(dir string, env []string, name string, args ...string) error {
	_, err := r.command(dir, env, true, name, args...)
	return err
}

// output runs a command and returns its standard output.
func (r *release) output(dir string, env []string, name string, args ...string) (string, error) {
	output, err := r.command(dir, env, false, name, args...)
	return strings.TrimSpace(output), err
}

func (r *release) command(dir string, env []string, print bool, name string, args ...string) (string, error) {
	shown := strings.ReplaceAll(strings.Join(append([]string{name}, args...), " "), r.tmp, "$TMP")
	if print {
		where, err := filepath.Rel(r.tmp, dir)
		if err != nil || strings.HasPrefix(where, "..") {
			where = dir
		}
		r.say("%s: %s", where, shown)
	}
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(env[:len(env):len(env)], "PWD="+dir)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", shown, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
