package docscheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp" // for the snippets

	_ "github.com/retrip-go/retrip/otelretrip" // for the snippets
)

// imports are the packages that snippets may use, by name.
var imports = map[string]string{
	"retrip":     "github.com/retrip-go/retrip",
	"aws":        "github.com/retrip-go/retrip/aws",
	"services":   "github.com/retrip-go/retrip/services",
	"migrate":    "github.com/retrip-go/retrip/migrate",
	"otelretrip": "github.com/retrip-go/retrip/otelretrip",
	"otelhttp":   "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
	"cleanhttp":  "github.com/hashicorp/go-cleanhttp",

	"faultserver": "github.com/retrip-go/retrip/internal/faultserver",

	"context": "context", "errors": "errors", "expvar": "expvar", "fmt": "fmt", "io": "io", "log": "log",
	"math": "math", "net": "net", "http": "net/http", "os": "os", "rand": "math/rand/v2", "slices": "slices",
	"slog": "log/slog", "strings": "strings", "sync": "sync", "syscall": "syscall", "time": "time",
}

// scope declares what a reader of a fragment has at hand.
const scope = `
var (
	ctx                context.Context
	req                *http.Request
	resp               *http.Response
	err                error
	base               http.RoundTripper
	client, httpClient *http.Client
	transport, t       *retrip.Transport
	s, strategy        *retrip.Strategy
	trace              *retrip.Trace
	url                string
	n                  int
	sign               func(*http.Request, retrip.PrepareInfo) error
	use                func(...any)
)
`

// A checker type-checks snippets.
type checker struct {
	set      *token.FileSet
	importer types.Importer
	foreign  []string // packages that snippets name and we don't have
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, path := range imports {
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
	}
	set := token.NewFileSet()
	return &checker{set: set, importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	}), foreign: foreignPackages(t)}
}

// foreignPackages are the names of the packages that the examples import and
// imports does not have: those compile what concerns them.
func foreignPackages(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range sources(t) {
		if !strings.HasPrefix(file, "examples/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+"/"+file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			name := packageName(strings.Trim(spec.Path.Value, `"`))
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if _, ours := imports[name]; !ours {
				names = append(names, name)
			}
		}
	}
	return names
}

var majorVersion = regexp.MustCompile(`/v\d+$`)

// packageName guesses the name of the package from its path.
func packageName(path string) string {
	path = majorVersion.ReplaceAllString(path, "")
	return strings.TrimPrefix(path[strings.LastIndex(path, "/")+1:], "go-")
}

// check returns what is wrong with a snippet in every form that it may have, or
// nothing if it is right in one.
func (c *checker) check(s snippet) error {
	text, specs := cutImports(s.text)
	for _, path := range specs {
		if !strings.Contains(strings.Join(values(imports), " ")+" ", path+" ") && strings.Contains(path, "retrip") {
			return fmt.Errorf("imports %s, which docscheck doesn't know", path)
		}
	}
	forms := []string{
		text, // declarations, or a file
		"func _() error {\n" + text + "\npanic(0)\n}",
		"var _ = " + strings.TrimSpace(text) + "\n",
		"var _ = &retrip.Transport{\n" + text + "\n}",
		"var _ = &retrip.Transport{\n" + text + ",\n}",
		"var _ = &retrip.Strategy{\n" + text + "\n}",
		"var _ = otelretrip.Options{\n" + text + "\n}",
		"var _ = http.Client{\n" + text + "\n}",
		"var _ = others.Options{\n" + text + "\n}", // on the page for migration: see trusts
	}
	var problems []error
	for _, form := range forms {
		for _, dot := range []string{"", `import . "github.com/retrip-go/retrip"` + "\n"} {
			if dot != "" && !s.inline {
				continue
			}
			err := c.compile(s.file, form, dot)
			if err == nil {
				return nil
			}
			if !errors.Is(err, errSyntax) {
				problems = append(problems, err)
			}
		}
	}
	if problems == nil {
		return errSyntax
	}
	return problems[0]
}

func values(m map[string]string) (values []string) {
	for _, value := range m {
		values = append(values, value)
	}
	return values
}

var importDecl = regexp.MustCompile(`(?ms)^import (\((.*?)\)|"[^"]*")\n`)

func cutImports(text string) (rest string, paths []string) {
	for _, spec := range importDecl.FindAllString(text, -1) {
		for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(spec, -1) {
			paths = append(paths, quoted[1])
		}
	}
	return importDecl.ReplaceAllString(text, ""), paths
}

var errSyntax = errors.New("is no Go: neither declarations, statements, an expression nor fields")

// compile type-checks a file's declarations.
func (c *checker) compile(page, decls, dot string) error {
	var b strings.Builder
	b.WriteString("package p\n" + dot)
	for name, path := range imports {
		fmt.Fprintf(&b, "import %s %q\n", name, path)
	}
	decls = regexp.MustCompile(`(?m)^package \w+$`).ReplaceAllString(decls, "")
	b.WriteString(decls)
	file, err := parser.ParseFile(c.set, "snippet.go", b.String(), parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%w: %w", errSyntax, err)
	}
	preamble := "package p\n"
	for name, path := range imports {
		preamble += fmt.Sprintf("import %s %q\n", name, path)
	}
	around, err := parser.ParseFile(c.set, "scope.go", preamble+c.undeclared(file), parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var wrong []error
	config := types.Config{Importer: c.importer, Error: func(err error) {
		if problem := err.(types.Error); !problem.Soft && !c.trusts(page, problem.Msg) {
			wrong = append(wrong, errors.New(problem.Msg))
		}
	}}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	_, _ = config.Check("p", c.set, []*ast.File{around, file}, info)
	wrong = append(wrong, droppedErrors(file, info)...)
	return errors.Join(wrong...)
}

// undeclared is scope without what the file declares itself.
func (c *checker) undeclared(file *ast.File) string {
	var own []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			own = append(own, decl.Name.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range spec.Names {
						own = append(own, name.Name)
					}
				}
			}
		}
	}
	text := scope
	for _, name := range own {
		text = regexp.MustCompile(`\b`+name+`\b(, )?( +\S+$)?`).ReplaceAllString(text, "_$1$2")
	}
	return text
}

var ownName = regexp.MustCompile(`^\w+$`) // without a package

// trusts reports whether a message is about a name that we need not have. That is
// a package of others. On the page for migration it is also any function of the
// reader or method of others: examples/migrate compiles each line of that page.
func (c *checker) trusts(page, message string) bool {
	name, ok := strings.CutPrefix(message, "undefined: ")
	return ok && (slices.Contains(c.foreign, name) || page == "docs/migrate.md" && ownName.MatchString(name))
}

// droppedErrors finds statements that are nothing but a call of ours which also
// returns an error. Pasted where one value is wanted, such a call does not compile.
func droppedErrors(file *ast.File, info *types.Info) (wrong []error) {
	ast.Inspect(file, func(node ast.Node) bool {
		statement, ok := node.(*ast.ExprStmt)
		if !ok {
			return true
		}
		results, ok := info.TypeOf(statement.X).(*types.Tuple)
		if ok && results.Len() > 1 && results.At(0).Pkg() != nil && isError(results.At(results.Len()-1)) &&
			strings.HasPrefix(results.At(0).Pkg().Path(), "github.com/retrip-go/") {
			wrong = append(wrong, fmt.Errorf("a call is used as one value, but returns %v", results))
		}
		return true
	})
	return wrong
}

func isError(v *types.Var) bool {
	return types.Identical(v.Type(), types.Universe.Lookup("error").Type())
}

// Each Go snippet compiles as it stands.
func TestGo(t *testing.T) {
	c := newChecker(t)
	blocks, inline := 0, 0
	for _, s := range snippets(t) {
		if s.kind != "go" {
			continue
		}
		if s.inline {
			inline++
		} else {
			blocks++
		}
		if err := c.check(s); err != nil {
			t.Errorf("%v\n\t%v", s, err)
		}
	}
	t.Logf("%d blocks, %d in sentences", blocks, inline)
	require.Greater(t, blocks, 30)
	require.Greater(t, inline, 20)
}

// The check sees what it is there for.
func TestBrokenGoIsFound(t *testing.T) {
	c := newChecker(t)
	for code, want := range map[string]string{
		"client := &http.Client{Transport: otelretrip.Wrap(&retrip.Transport{}, otelretrip.Options{})}": "multiple-value",
		"otelretrip.Wrap(transport, otelretrip.Options{})":                                              "used as one value",
		"t := &retrip.Transport{PerKey: retrip.Standard}":                                               "cannot use",
		"Observe: retrip.LogTo(),":                                                                      "not enough arguments",
		"s.MaxAttemps = 5":                                                                              "MaxAttemps",
		"s := retrip.Standrad()":                                                                        "Standrad",
		"retryable.NewClient()":                                                                         "retryable",
		"client := http.Client{Transport":                                                               "is no Go",
	} {
		for _, inline := range []bool{false, true} {
			require.ErrorContains(t, c.check(snippet{file: "README.md", text: code, inline: inline}), want, code)
		}
	}
	for _, code := range []string{
		"import \"github.com/retrip-go/retrip\"\n\nclient := &http.Client{Transport: &retrip.Transport{}}\nresp, err := client.Get(url)",
		"KeepStats: true",
		"func f(s *retrip.Strategy) int { return s.MaxAttempts }",
		"t, err := otelretrip.Wrap(&retrip.Transport{}, otelretrip.Options{})\nif err != nil {\n\treturn err\n}",
	} {
		require.NoError(t, c.check(snippet{file: "README.md", text: code}), code)
	}
}
