package docscheck

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// anchors returns those that GitHub gives to the headings of a page.
func anchors(text string) (anchors []string) {
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
		anchors = append(anchors, strings.ReplaceAll(slug, " ", "-"))
	}
	return anchors
}

// Each link within the repository leads to a file, and to a heading if it has an
// anchor.
func TestLinks(t *testing.T) {
	const blob = "https://github.com/retrip-go/retrip/blob/main/"
	count := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := found[1] + found[2]
			own, ours := strings.CutPrefix(target, blob)
			switch {
			case ours:
				target = own
			case strings.Contains(target, ":"):
				continue // on another site
			}
			count++
			file, anchor, _ := strings.Cut(target, "#")
			switch {
			case file == "":
				file = page
			case !ours:
				file = path.Join(path.Dir(page), file)
			}
			if !exists(file) {
				t.Errorf("%s: no file %s", page, file)
			} else if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, file, anchor)
			}
		}
	}
	t.Logf("%d links", count)
	require.Greater(t, count, 20)
}

var (
	fileName = regexp.MustCompile(`^[\w./-]*\w\.(go|md|yml|yaml|json|sh|csv|svg)$|^[\w.-]+/[\w./-]+\w$`)
	// notOurs are names of files and such that are not in the repository.
	// A tag ends in a version, and a platform in its processor.
	notOurs = regexp.MustCompile(`\.(io|com|org)/|/v\d+\.\d+\.\d+$|/(amd64|arm64|386|wasm)$|^(net|expvar|log|math|testing|application|hashicorp|golang|google|text|image|api|cenkalti|sony|stretchr|jarcoal)/`)
)

// Each file that a page names is there: below the root, beside the page, or
// anywhere if the page says no directory.
func TestFilesExist(t *testing.T) {
	base := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		base[filepath.Base(path)] = true
		return err
	})
	require.NoError(t, err)
	count := 0
	for _, s := range snippets(t) {
		if !s.inline || !fileName.MatchString(s.text) || notOurs.MatchString(s.text) {
			continue
		}
		count++
		found := exists(s.text) || exists(path.Join(path.Dir(s.file), s.text)) ||
			!strings.Contains(s.text, "/") && base[s.text]
		if !found {
			t.Errorf("%v: no such file", s)
		}
	}
	t.Logf("%d files", count)
	require.Greater(t, count, 20)
}

var exactTest = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)

// Each test that a page names is there.
func TestNamedTests(t *testing.T) {
	var files []string
	for _, file := range sources(t) {
		files = append(files, filepath.Join(root, file))
	}
	names := functions(t, files, []string{"Test", "Fuzz", "Benchmark", "Example"})
	count := 0
	for _, s := range snippets(t) {
		if !s.inline || !exactTest.MatchString(s.text) {
			continue
		}
		count++
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, s.text) }) {
			t.Errorf("%v: no such test", s)
		}
	}
	t.Logf("%d names of tests", count)
	require.Greater(t, count, 20)
}
