package main

import (
	"context"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	m := mutant{name: "x", file: "a.go", old: "if a {\n\treturn b\n}", new: "$1"}
	tests := []struct {
		name  string
		files map[string]string
		file  string
		want  string // the source, or a part of the error
	}{
		{"in its file", map[string]string{"a.go": "if a {\n\treturn b\n}", "b.go": "if a {\n\treturn b\n}"}, "a.go", "$1"},
		{"with other white space", map[string]string{"a.go": "x\n\t\tif a {\n\t\t\treturn b\n\t\t}\ny"}, "a.go", "x\n\t\t$1\ny"},
		{"twice", map[string]string{"a.go": strings.Repeat("if a {\nreturn b\n}\n", 2)}, "", "occurs 2 times in a.go"},
		{"moved", map[string]string{"a.go": "other", "b.go": "if a {\nreturn b\n}"}, "b.go", "$1"},
		{"moved twice", map[string]string{"b.go": "if a {\nreturn b\n}", "c.go": "if a {\nreturn b\n}"}, "", "2 times in b.go, c.go"},
		{"gone", map[string]string{"a.go": "if a { return c }"}, "", "is nowhere"},
	}
	for _, tt := range tests {
		file, source, err := m.apply(tt.files)
		switch {
		case err != nil && (tt.file != "" || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case err == nil && (file != tt.file || source != tt.want):
			t.Errorf("%s: %s is %q, want %s to be %q", tt.name, file, source, tt.file, tt.want)
		}
	}
}

func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		if m.old == "" || m.old == m.new || m.tests == "" {
			t.Errorf("%s: the row has no snippet, no change or no tests", m.name)
		}
	}
}

// An interrupt is no fault of the mutant that it meets.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &laboratory{settings: settings{root: t.TempDir(), dir: t.TempDir()}, known: []string{"TestAny"}}
	m := mutant{name: "x", file: "a.go", old: "a", new: "b", tests: "TestAny"}
	if r := l.test(ctx, map[string]string{"a.go": "a"}, m); r.outcome != interrupted {
		t.Errorf("the outcome is %v, %s", r.outcome, r.detail)
	}
}
