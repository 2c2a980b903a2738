package docscheck

import (
	"fmt"
	"go/types"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// apiName is a name of a package, or of a type and its field or method, or both.
var apiName = regexp.MustCompile(`^\*?(?:([a-z]\w*)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?$`)

// checkName returns what is wrong with the name of an exported thing. known is
// false if the text is no such name, or one that we can't look up.
func (c *checker) checkName(text string) (known bool, err error) {
	parts := apiName.FindStringSubmatch(text)
	if parts == nil {
		return false, nil
	}
	from, name, member := parts[1], parts[2], parts[3]
	paths := []string{imports[from]}
	switch {
	case from != "" && imports[from] == "", from == "" && member == "":
		return false, nil
	case from == "":
		paths = nil
		for _, of := range []string{"retrip", "aws", "services", "migrate", "otelretrip", "http"} {
			paths = append(paths, imports[of])
		}
	}
	for _, path := range paths {
		p, err := c.importer.Import(path)
		if err != nil {
			return true, err
		}
		object := p.Scope().Lookup(name)
		if object == nil {
			continue
		}
		if member == "" {
			return true, nil
		}
		if found, _, _ := types.LookupFieldOrMethod(types.NewPointer(object.Type()), true, p, member); found != nil {
			return true, nil
		}
		return true, fmt.Errorf("%s has no %s", name, member)
	}
	return true, fmt.Errorf("there is no %s", name)
}

// Each exported name in a sentence exists. The change log has earlier names, and
// the page for migration those of other packages.
func TestExportedNames(t *testing.T) {
	c := newChecker(t)
	count := 0
	for _, s := range snippets(t) {
		if !s.inline || s.file == "CHANGELOG.md" || s.file == "docs/migrate.md" {
			continue
		}
		known, err := c.checkName(s.text)
		if err != nil {
			t.Errorf("%v\n\t%v", s, err)
		}
		if known {
			count++
		}
	}
	t.Logf("%d names", count)
	require.Greater(t, count, 15)
}

// The check sees what it is there for.
func TestWrongNamesAreFound(t *testing.T) {
	c := newChecker(t)
	for text, want := range map[string]string{
		"retrip.Adaptiv":          "there is no Adaptiv",
		"Transport.KeepStat":      "Transport has no KeepStat",
		"Strategie.MaxRetryAfter": "there is no Strategie",
		"*retrip.Err":             "there is no Err",
	} {
		_, err := c.checkName(text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]bool{
		"retrip.Adaptive": true, "Transport.KeepStats": true, "*retrip.Error": true, "http.Client.Timeout": true,
		"Options.URLFull": true, "retrip.wait": false, "GET": false, "other.Name": false,
	} {
		known, err := c.checkName(text)
		require.NoError(t, err, text)
		require.Equal(t, want, known, text)
	}
}
