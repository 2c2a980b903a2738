package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutant is one fault and the tests that should find it.
type mutant struct {
	name string // a sentence that says what is broken
	file string // where the snippet was last seen

	// The snippet old must occur exactly once in the file, or if the file has
	// none, exactly once in the module: code may move. White space only has to
	// be where it was, not be the same.
	old, new string

	tests      string   // the -run regexp of the tests that should find it
	packages   []string // where such tests are, too, beside the root package
	equivalent string   // why no test can find it, or ""
}

// apply returns the file that the mutant changes and what is then in it.
func (m *mutant) apply(files map[string]string) (file, source string, err error) {
	snippet := m.pattern()
	if n := len(snippet.FindAllString(files[m.file], -1)); n > 1 {
		return "", "", fmt.Errorf("the old snippet occurs %d times in %s: make it longer", n, m.file)
	} else if n == 1 {
		return m.file, snippet.ReplaceAllLiteralString(files[m.file], m.new), nil
	}
	var found []string
	for name, source := range files {
		for range snippet.FindAllString(source, -1) {
			found = append(found, name)
		}
	}
	switch slices.Sort(found); len(found) {
	case 0:
		return "", "", fmt.Errorf("the old snippet is nowhere: the code of %s has changed, so write the row anew:\n%s", m.file, m.old)
	case 1:
		return found[0], snippet.ReplaceAllLiteralString(files[found[0]], m.new), nil
	default:
		return "", "", fmt.Errorf("the old snippet is no longer in %s, but %d times in %s: name the file, or make it longer",
			m.file, len(found), strings.Join(slices.Compact(found), ", "))
	}
}

// pattern matches the old snippet with any white space in place of its own.
func (m *mutant) pattern() *regexp.Regexp {
	words := strings.Fields(m.old)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(strings.Join(words, `\s+`))
}

// sources reads the module's Go files but tests, other modules' and these.
func sources(root string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") || name == filepath.Join("internal", "mutants") {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		files[name] = string(source)
		return err
	})
	return files, err
}
