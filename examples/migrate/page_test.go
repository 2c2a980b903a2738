package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/migrate.md"

// sections returns the page's parts by their headings.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	parts := map[string]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		heading, rest, _ := strings.Cut(part, "\n")
		parts[heading] = rest
	}
	return parts
}

var (
	span     = regexp.MustCompile("`[^`]+`")
	codeLike = regexp.MustCompile(`[({=]|: `)
)

// All code on the page stands in this directory, too, where it is compiled, or in
// the example for the client that it is about.
func TestPageCompiles(t *testing.T) {
	t.Parallel()
	var files []string
	for _, example := range []string{".", "../azure", "../breaker", "../kubernetes", "../resty"} {
		more, err := filepath.Glob(filepath.Join(example, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, more)
		files = append(files, more...)
	}
	var compiled strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		compiled.WriteString(squeeze(string(text)))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	inGo, lines := false, 0
	var missing []string
	check := func(code string) {
		if lines++; !strings.Contains(compiled.String(), squeeze(code)) {
			missing = append(missing, code)
		}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(strings.TrimPrefix(line, ">"))
		switch {
		case strings.HasPrefix(line, "```"):
			inGo = line == "```go"
		case inGo && line != "":
			check(line)
		case strings.HasPrefix(line, "| `"):
			cells := strings.SplitN(line, " | ", 2)
			for _, code := range span.FindAllString(cells[1], -1) {
				if code = strings.Trim(code, "`"); codeLike.MatchString(code) && !strings.HasPrefix(code, "Retry-After") {
					check(strings.TrimSuffix(code, ","))
				}
			}
		}
	}
	require.Empty(t, missing)
	require.Greater(t, lines, 150)
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// Every name that a package exports is in the first column of its table.
func TestPageIsComplete(t *testing.T) {
	t.Parallel()
	// Types that are taken over or dropped as a whole, and methods that go
	// without saying.
	whole := []string{"Attempt", "ExceededError", "ExceededEvent", "Request.Request", "Logger", "LeveledLogger", "LenReader.Len"}
	silent := []string{"Error", "Is", "Unwrap", "String"}
	for heading, packages := range map[string][]string{
		"go-retryablehttp": {"github.com/hashicorp/go-retryablehttp"},
		"rehttp":           {"github.com/PuerkitoBio/rehttp"},
		"failsafehttp":     {"github.com/failsafe-go/failsafe-go failsafehttp", "github.com/failsafe-go/failsafe-go retrypolicy", "github.com/failsafe-go/failsafe-go budget"},
		"heimdall":         {"github.com/gojek/heimdall/v7", "github.com/gojek/heimdall/v7 httpclient", "github.com/gojek/heimdall/v7 hystrix", "github.com/gojek/heimdall/v7 plugins"},
		"httpretry":        {"github.com/ybbus/httpretry"},
	} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			var first strings.Builder
			for line := range strings.Lines(sections(t)[heading]) {
				if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
					first.WriteString(cell)
				}
			}
			named := span.FindAllString(first.String(), -1)
			names := exported(t, packages)
			if heading == "failsafehttp" { // whose interfaces embed those of another package
				builder := reflect.TypeFor[retrypolicy.Builder[int]]()
				for i := range builder.NumMethod() {
					names = append(names, "Builder."+builder.Method(i).Name)
				}
			}
			require.Greater(t, len(names), 10)
			var missing []string
			for _, name := range names {
				of, member, _ := strings.Cut(name, ".")
				if !slices.Contains(whole, of) && !slices.Contains(whole, name) && !slices.Contains(silent, member) && !slices.Contains(named, "`"+name+"`") {
					missing = append(missing, name)
				}
			}
			require.Empty(t, missing)
		})
	}
}

// exported lists the functions, types, variables, constants, fields and
// methods of packages, each a module's path and perhaps a directory in it.
func exported(t *testing.T, packages []string) (names []string) {
	t.Helper()
	add := func(prefix string, idents ...*ast.Ident) {
		for _, ident := range idents {
			if ident.IsExported() {
				names = append(names, prefix+ident.Name)
			}
		}
	}
	for _, p := range packages {
		module, dir, _ := strings.Cut(p, " ")
		root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), dir, "*.go"))
		require.NoError(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_mock.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if prefix, ok := receiver(decl); ok {
						add(prefix, decl.Name)
					}
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						switch spec := spec.(type) {
						case *ast.ValueSpec:
							add("", spec.Names...)
						case *ast.TypeSpec:
							add("", spec.Name)
							if fields := members(spec); fields != nil && spec.Name.IsExported() {
								for _, field := range fields.List {
									add(spec.Name.Name+".", field.Names...)
								}
							}
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns what to put before the name of a function; ok is false for
// a method of a type that is not exported.
func receiver(f *ast.FuncDecl) (prefix string, ok bool) {
	if f.Recv == nil {
		return "", true
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	ident := typ.(*ast.Ident)
	return ident.Name + ".", ident.IsExported()
}

func members(t *ast.TypeSpec) *ast.FieldList {
	switch typ := t.Type.(type) {
	case *ast.StructType:
		return typ.Fields
	case *ast.InterfaceType:
		return typ.Methods
	default:
		return nil
	}
}
