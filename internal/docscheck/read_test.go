package docscheck

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// A snippet is a block of code, or code within a sentence.
type snippet struct {
	file string // below root
	line int
	kind string // "go", "shell", "promql", or "" for what is not checked
	text string

	inline  bool
	section string // the text of the Markdown section around it
}

func (s snippet) String() string {
	return s.file + ": " + strings.TrimSpace(s.text)
}

// pages returns the Markdown files that are checked.
func pages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(file), root+"/"))
		}
	}
	require.Contains(t, pages, "README.md")
	return pages
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// snippets returns those of all pages and all comments.
func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	for _, page := range pages(t) {
		all = append(all, fromMarkdown(page, read(t, page))...)
	}
	for _, file := range sources(t) {
		all = append(all, fromComments(t, file)...)
	}
	return all
}

var (
	inlineCode = regexp.MustCompile("`[^`]+`")
	quoted     = regexp.MustCompile(`^> ?`)
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
)

// fromMarkdown returns the blocks of a page and its inline code.
func fromMarkdown(file, text string) (found []snippet) {
	var prose []string // all but the blocks
	var block *snippet
	fence, lastLine := "", ""
	end := func() {
		if block != nil {
			if block.kind == "?" {
				block.kind = kindOf(block.text)
			}
			found = append(found, *block)
			block = nil
		}
	}
	for i, line := range strings.Split(text, "\n") {
		line = quoted.ReplaceAllString(line, "")
		language, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence != "" && fenced:
			fence = ""
			end()
		case fenced:
			end()
			fence = "```"
			block = &snippet{file: file, line: i + 2, kind: kindOfFence(language)}
		case fence != "":
			block.text += line + "\n"
		case block != nil && indented:
			block.text += code + "\n"
		case indented && strings.TrimSpace(lastLine) == "" && !inList(prose):
			block = &snippet{file: file, line: i + 1, kind: "?", text: code + "\n"}
		default:
			end()
			prose = append(prose, line)
		}
		lastLine = line
	}
	end()
	for i := range found {
		found[i].section = section(text, found[i].line)
	}
	return append(found, inline(file, strings.Join(prose, "\n"))...)
}

func inList(prose []string) bool {
	for _, line := range slices.Backward(prose) {
		if strings.TrimSpace(line) != "" {
			return listItem.MatchString(line) || strings.HasPrefix(line, "  ")
		}
	}
	return false
}

func inline(file, prose string) (found []snippet) {
	for _, at := range inlineCode.FindAllStringIndex(prose, -1) {
		code := strings.Join(strings.Fields(strings.Trim(prose[at[0]:at[1]], "`")), " ")
		line := 1 + strings.Count(prose[:at[0]], "\n")
		found = append(found, snippet{
			file: file, kind: kindOf(code), text: code, inline: true, section: section(prose, line),
		})
	}
	return found
}

// section returns the part of a page with that line, from one heading of the
// second level to the next.
func section(text string, line int) string {
	lines := strings.Split(text, "\n")
	from, to := min(line, len(lines))-1, min(line, len(lines))
	for from > 0 && !strings.HasPrefix(lines[from], "## ") {
		from--
	}
	for to < len(lines) && !strings.HasPrefix(lines[to], "## ") {
		to++
	}
	return strings.Join(lines[from:to], "\n")
}

func kindOfFence(language string) string {
	switch language {
	case "go":
		return "go"
	case "sh", "shell", "bash", "console":
		return "shell"
	case "promql":
		return "promql"
	case "":
		return "?"
	default:
		return ""
	}
}

var (
	shellWord   = regexp.MustCompile(`^(go (run|test|vet|build|get|install|tool|mod|list|generate) |promtool |benchstat |cd \S|for \w+ in |\./\w\S*|\.ci/\w)`)
	looksPromQL = regexp.MustCompile(`\b(rate|increase|sum by|histogram_quantile) ?\(`)
	duration    = regexp.MustCompile(`\b\d+(ms|s|m|h)\b`) // as the program prints it
	looksGo     = regexp.MustCompile(`:=|&\w+\.?\w*\{|\bfunc ?\(|^\w+(\.\w+)* = |^(Base|Observe|Prepare|PerKey|Strategy|KeepStats|AttemptTimeout): |^(\w+\.)*\w+\(.*\)$|^(\w+\.)*[A-Z]\w+\{.*\}$`)
)

// kindOf guesses what a block without a language, or inline code, is.
func kindOf(text string) string {
	text = strings.TrimSpace(text)
	switch first, _, _ := strings.Cut(strings.TrimPrefix(text, "$ "), "\n"); {
	case shellWord.MatchString(first):
		return "shell"
	case looksPromQL.MatchString(text):
		return "promql"
	case looksGo.MatchString(text) && !duration.MatchString(text):
		return "go"
	default:
		return ""
	}
}

// sources returns all Go files of the repository.
func sources(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			files = append(files, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

// fromComments returns the indented blocks in the comments of a Go file.
func fromComments(t *testing.T, file string) (found []snippet) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.ParseComments)
	require.NoError(t, err)
	for _, group := range parsed.Comments {
		doc := new(comment.Parser).Parse(group.Text())
		for _, block := range doc.Content {
			if code, ok := block.(*comment.Code); ok {
				found = append(found, snippet{
					file: file, line: set.Position(group.Pos()).Line, text: code.Text, kind: kindInComment(group, parsed, code.Text),
				})
			}
		}
	}
	return found
}

// kindInComment tells Go from the tables and lists that comments have, too.
func kindInComment(group *ast.CommentGroup, file *ast.File, text string) string {
	kind := kindOf(text)
	if kind == "go" && group != file.Doc && !strings.Contains(text, "retrip.") {
		return "" // a formula, in a comment within the code
	}
	return kind
}
