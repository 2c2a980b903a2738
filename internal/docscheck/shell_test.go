package docscheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command is a simple command of a shell snippet.
type command struct {
	args []string
	dirs []string // where it may be meant to run
	in   snippet
}

// commands splits a shell snippet at its operators. It follows cd.
func commands(s snippet) (found []command, err error) {
	dirs := startDirs(s)
	for _, args := range split(s.text) {
		switch {
		case slices.Contains([]string{"for", "done", "fi"}, args[0]):
			continue
		case args[0] == "do":
			args = args[1:]
		}
		if args[0] == "cd" && len(args) == 2 {
			for i := range dirs {
				dirs[i] = filepath.Join(dirs[i], args[1])
			}
			if dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !exists(dir) }); len(dirs) == 0 {
				return nil, fmt.Errorf("no directory %s", args[1])
			}
			continue
		}
		found = append(found, command{args, slices.Clone(dirs), s})
	}
	return found, nil
}

// startDirs are the root, for a page in it or in docs; else the directory of the
// file, and of its module, and the root.
func startDirs(s snippet) []string {
	dir := filepath.Dir(s.file)
	if dir == "." || dir == "docs" {
		return []string{"."}
	}
	dirs := []string{dir}
	for dir != "." {
		if dir = filepath.Dir(dir); exists(filepath.Join(dir, "go.mod")) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

var (
	word = regexp.MustCompile(`'[^']*'|"[^"]*"|&&|\|\||[|;\n>]|#.*|[^\s'"|;>&]+`)
	ends = []string{"&&", "||", "|", ";", "\n"}
)

// split splits a shell text into simple commands without quotes, comments and
// redirections.
func split(text string) (commands [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var args []string
	redirected := false
	for _, w := range append(word.FindAllString(text, -1), "\n") {
		switch {
		case redirected:
			redirected = false
		case w == ">":
			redirected = true
		case strings.HasPrefix(w, "#"), w == "$" && len(args) == 0:
		case slices.Contains(ends, w):
			if len(args) > 0 {
				commands = append(commands, args)
			}
			args = nil
		default:
			args = append(args, strings.Trim(w, `'"[]`))
		}
	}
	return commands
}

// check returns what is wrong with a command wherever it may be meant to run, or
// nothing if it is right in one place.
func (c command) check(t *testing.T) error {
	var problems []error
	for _, dir := range c.dirs {
		err := c.checkIn(t, dir)
		if err == nil {
			return nil
		}
		problems = append(problems, err)
	}
	return problems[0]
}

func (c command) checkIn(t *testing.T, dir string) error {
	switch name := c.args[0]; {
	case name == "go" && len(c.args) > 1:
		return c.checkGo(t, dir)
	case name == "promtool":
		return c.checkFiles(dir, c.args[3:])
	case slices.Contains([]string{"benchstat", "tee", "apt-get"}, name):
		return nil
	case strings.HasPrefix(name, "."):
		info, err := os.Stat(filepath.Join(root, dir, name))
		if err == nil && info.Mode()&0o111 == 0 {
			err = errors.New("can't be executed")
		}
		return err
	default:
		return fmt.Errorf("docscheck does not know the program %s: say in checkIn how to check it", name)
	}
}

func (c command) checkFiles(dir string, files []string) error {
	for _, file := range files {
		if !exists(filepath.Join(dir, file)) {
			return fmt.Errorf("no file %s in %s", file, dir)
		}
	}
	return nil
}

// checkGo checks a command of the go tool: its packages, patterns and flags.
func (c command) checkGo(t *testing.T, dir string) error {
	switch args := c.args[2:]; c.args[1] {
	case "test":
		return c.checkTest(t, dir, args)
	case "run":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
		if len(args) == 0 {
			return errors.New("go run without a package")
		}
		return checkRun(t, dir, args)
	case "get", "install":
		return checkOwn(args)
	case "vet", "build":
		for _, arg := range args {
			if !strings.HasPrefix(arg, "-") && len(goFiles(dir, arg)) == 0 {
				return fmt.Errorf("no package %s in %s", arg, dir)
			}
		}
	}
	return nil
}

// checkRun checks that a program is there and has the flags.
func checkRun(t *testing.T, dir string, args []string) error {
	if strings.Contains(args[0], "@") {
		return checkOwn(args[:1])
	}
	text := sourceOf(t, goFiles(dir, args[0]))
	if !strings.Contains(text, "\npackage main\n") {
		return fmt.Errorf("no program %s in %s", args[0], dir)
	}
	return checkFlags(args[1:], text)
}

// checkOwn checks that what is installed from our module is in it.
func checkOwn(args []string) error {
	for _, arg := range args {
		path, _, _ := strings.Cut(arg, "@")
		if below, ok := strings.CutPrefix(path, "github.com/retrip-go/retrip"); ok && !exists(strings.TrimPrefix(below, "/")) {
			return fmt.Errorf("%s is not in this repository", path)
		}
	}
	return nil
}

// checkFlags checks that a text declares the flags among args.
func checkFlags(args []string, declared string) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && name != "" && !strings.Contains(declared, `"`+name+`"`) {
			return fmt.Errorf("no flag -%s", name)
		}
	}
	return nil
}

var (
	testFlags = []string{"-v", "-race", "-short", "-cover", "-json"}
	// testOptions have a value. Those in testPatterns choose functions.
	testOptions  = []string{"-count", "-timeout", "-benchtime", "-fuzztime", "-parallel", "-cpuprofile", "-tags", "-shuffle", "-cpu", "-overlay"}
	testPatterns = map[string][]string{"-run": {"Test", "Example", "Fuzz"}, "-bench": {"Benchmark"}, "-fuzz": {"Fuzz"}}
)

func (c command) checkTest(t *testing.T, dir string, args []string) error {
	patterns := map[string]string{}
	var packages, own []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		pattern := testPatterns[name] != nil
		switch {
		case slices.Contains(testFlags, name):
		case pattern || slices.Contains(testOptions, name):
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			if pattern {
				patterns[name] = value
			}
		case strings.HasPrefix(name, "-"):
			own = append(own, args[i])
		case strings.HasPrefix(name, ".") || strings.Contains(name, "/"):
			packages = append(packages, name)
		}
	}
	if packages == nil {
		packages = []string{"."}
	}
	var files []string
	for _, p := range packages {
		found := goFiles(dir, p)
		if len(found) == 0 {
			return fmt.Errorf("no package %s in %s", p, dir)
		}
		files = append(files, found...)
	}
	if err := checkFlags(own, sourceOf(t, files)); err != nil {
		return err
	}
	for name, pattern := range patterns {
		if err := c.checkPattern(t, pattern, files, testPatterns[name]); err != nil {
			return err
		}
	}
	return nil
}

var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z]?[^`]*)`")

// checkPattern checks that a pattern matches a function. NAME stands for each test
// that the section around the command names.
func (c command) checkPattern(t *testing.T, pattern string, files, kinds []string) error {
	if pattern == "^$" {
		return nil
	}
	patterns := []string{pattern}
	if pattern == "NAME" {
		patterns = nil
		for _, name := range testName.FindAllStringSubmatch(c.in.section, -1) {
			patterns = append(patterns, name[1])
		}
		if patterns == nil {
			return errors.New("no test is named beside NAME")
		}
	}
	names := functions(t, files, kinds)
	for _, p := range patterns {
		first, _, _ := strings.Cut(p, "/")
		expr, err := regexp.Compile(first)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, expr.MatchString) {
			return fmt.Errorf("no test matches %s", p)
		}
	}
	return nil
}

// goFiles returns the Go files of a package, or of all below it, as far as they are
// in the module of dir.
func goFiles(dir, pattern string) (files []string) {
	top, all := strings.CutSuffix(pattern, "/...")
	top = filepath.Join(root, dir, top)
	if moduleOf(top) != moduleOf(filepath.Join(root, dir)) {
		return nil
	}
	if !all {
		files, _ = filepath.Glob(filepath.Join(top, "*.go")) // the pattern is well-formed
		return files
	}
	_ = filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != top && (entry.Name() == "testdata" || fileExists(filepath.Join(path, "go.mod"))):
			return filepath.SkipDir // of another module
		case strings.HasSuffix(path, ".go"):
			files = append(files, path)
		}
		return nil
	})
	return files
}

// moduleOf returns the directory of the module that dir is in.
func moduleOf(dir string) string {
	for !fileExists(filepath.Join(dir, "go.mod")) && filepath.Clean(dir) != filepath.Clean(root) {
		dir = filepath.Dir(dir)
	}
	return filepath.Clean(dir)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func sourceOf(t *testing.T, files []string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.WriteString("\n" + string(text))
	}
	return all.String()
}

// functions returns the names of those in test files that have one of the
// prefixes.
func functions(t *testing.T, files, prefixes []string) (names []string) {
	t.Helper()
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil &&
				slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(f.Name.Name, prefix) }) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// Each command names packages, files, tests and flags that are there.
func TestCommands(t *testing.T) {
	count := 0
	for _, s := range snippets(t) {
		if s.kind != "shell" {
			continue
		}
		found, err := commands(s)
		if err != nil {
			t.Errorf("%v\n\t%v", s, err)
		}
		for _, c := range found {
			count++
			if err := c.check(t); err != nil {
				t.Errorf("%v\n\t%v", s, err)
			}
		}
	}
	t.Logf("%d commands", count)
	require.Greater(t, count, 40)
}

// The check sees what it is there for.
func TestBrokenCommandsAreFound(t *testing.T) {
	const section = "## Tests\n\n| one | `TestVectors` |\n| more | `TestSimulated…` |\n"
	for text, want := range map[string]string{
		"go test -v -run TestSimulated… .":              "no test matches TestSimulated…",
		"go test -v -run NAME . ./aws":                  "no test matches TestSimulated…",
		"go test -run TestNoSuchThing ./...":            "no test matches",
		"go test -run '^$' -bench NoSuchThing ./bench":  "no package", // of another module
		"go test ./nowhere":                             "no package",
		"go test -updat .":                              "no flag -updat",
		"go run ./examples/nowhere":                     "no program",
		"go run ./examples/fetch -attemps 3 URL":        "no flag -attemps",
		"promtool test rules alerts_test.yml":           "no file alerts_test.yml",
		"cd examples/nowhere && go run .":               "no directory",
		"go get github.com/retrip-go/retrip/nowhere":    "is not in this repository",
		"go install github.com/retrip-go/retrip/x@main": "is not in this repository",
		"./serve.sh":             "no such file",
		"retrip --help | grep x": "does not know the program",
	} {
		found, err := commands(snippet{file: "README.md", kind: "shell", text: text, section: section})
		for _, c := range found {
			err = errors.Join(err, c.check(t))
		}
		require.ErrorContains(t, err, want, text)
	}
}

// cheap are the commands that are run here. URL is a server that answers 200.
var cheap = regexp.MustCompile(`^(promtool |go run \./examples/(quickstart|stacked|perhost|fetch)\b|go run \./internal/mutants -list$)`)

// The cheap commands of README.md, CONTRIBUTING.md and the pages in docs succeed.
func TestCheapCommandsRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close) // after the subtests, which run in parallel
	ran := map[string]bool{}
	for _, s := range snippets(t) {
		if s.kind != "shell" {
			continue
		}
		found, err := commands(s)
		require.NoError(t, err)
		for _, c := range found {
			line := strings.Join(c.args, " ")
			if !strings.HasSuffix(s.file, ".md") || !cheap.MatchString(line) || ran[line] {
				continue
			}
			ran[line] = true
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				args := slices.Clone(c.args)
				if i := slices.Index(args, "URL"); i >= 0 {
					args[i] = server.URL
				}
				run(t, c.dirs[0], args)
			})
		}
	}
	require.NotEmpty(t, ran)
}

func run(t *testing.T, dir string, args []string) {
	t.Helper()
	program, err := exec.LookPath(args[0])
	if err != nil {
		t.Skip(err)
	}
	command := exec.CommandContext(t.Context(), program, args[1:]...)
	command.Dir = filepath.Join(root, dir)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Prometheus understands each query.
func TestPromQL(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: queries\n    rules:\n")
	count := 0
	for _, s := range snippets(t) {
		if s.kind == "promql" && !s.inline && strings.HasPrefix(s.file, "docs/") {
			count++
			fmt.Fprintf(&rules, "      - record: query:%d\n        expr: %q\n", count, s.text)
		}
	}
	require.Greater(t, count, 5)
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	t.Logf("%d queries", count)
	run(t, ".", []string{"promtool", "check", "rules", file})
}
