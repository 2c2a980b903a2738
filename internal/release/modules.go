package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Modules in these directories are for work on this repository.
var unreleased = []string{"bench", "realservers", "internal"}

// A mod is a module of the repository.
type mod struct {
	dir, path string
	file      *modfile.File
	level     int // 0 requires no other module, 1 requires modules of level 0, …
}

func (m *mod) isReleased() bool {
	top, _, _ := strings.Cut(m.dir, "/")
	return !slices.Contains(unreleased, top)
}

// isImported is whether users import packages of the module. The laboratory is a
// command.
func (m *mod) isImported() bool {
	return m.isReleased() && m.dir != "lab" && !strings.HasPrefix(m.dir, "examples/")
}

// tag is the name that the go command looks for.
func (m *mod) tag(version string) string { return path.Join(m.dir, version) }

// findModules reads the go.mod files of the clone. It returns the modules in
// the order in which they can be released.
func (r *release) findModules() ([]*mod, error) {
	files, err := r.output(r.clone(), os.Environ(), "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]*mod)
	for name := range strings.FieldsSeq(files) {
		m, err := readModule(r.clone(), name)
		if err != nil {
			return nil, err
		}
		byPath[m.path] = m
	}
	rootFile, err := os.ReadFile(filepath.Join(r.clone(), "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("the repository has no module in its root: %w", err)
	}
	root := modfile.ModulePath(rootFile)
	for _, m := range byPath {
		if want := path.Join(root, m.dir); m.path != want {
			return nil, fmt.Errorf("the module in %s is named %s: name it %s", m.dir, m.path, want)
		}
		if err := module.Check(m.path, r.version); err != nil {
			return nil, err
		}
	}
	for _, m := range byPath {
		if err := m.setLevel(byPath, nil); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b *mod) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.dir, b.dir))
	}), nil
}

func readModule(clone, name string) (*mod, error) {
	data, err := os.ReadFile(filepath.Join(clone, name))
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	if file.Module == nil {
		return nil, fmt.Errorf("%s names no module", name)
	}
	dir := path.Dir(name)
	if dir == "." {
		dir = ""
	}
	return &mod{dir: dir, path: file.Module.Mod.Path, file: file, level: -1}, nil
}

// setLevel checks, too, that users who don't see the replace directives of the
// module get what it requires.
func (m *mod) setLevel(byPath map[string]*mod, above []string) error {
	if slices.Contains(above, m.path) {
		return fmt.Errorf("modules require each other: %s", strings.Join(append(above, m.path), " requires "))
	}
	if m.level >= 0 {
		return nil
	}
	level := 0
	for _, require := range m.file.Require {
		needed := byPath[require.Mod.Path]
		if needed == nil {
			continue
		}
		if m.isReleased() && !needed.isReleased() {
			return fmt.Errorf("%s/go.mod requires %s, which is not released", m.dir, needed.path)
		}
		if err := needed.setLevel(byPath, append(above, m.path)); err != nil {
			return err
		}
		level = max(level, needed.level+1)
	}
	for _, replace := range m.file.Replace {
		if m.isReleased() && (level == 0 || byPath[replace.Old.Path] == nil) {
			return fmt.Errorf("%s/go.mod replaces %s: users would not get the replacement", m.dir, replace.Old.Path)
		}
	}
	m.level = level
	return nil
}

func (r *release) released() []*mod {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m *mod) bool { return !m.isReleased() })
}

func (r *release) dir(m *mod) string { return filepath.Join(r.clone(), filepath.FromSlash(m.dir)) }

// checkTidy uses the proxy and the module cache of the environment, and so
// fills the cache for the later steps.
func (r *release) checkTidy() error {
	for _, m := range r.released() {
		if err := r.run(r.dir(m), os.Environ(), "go", "mod", "tidy", "-diff"); err != nil {
			return err
		}
	}
	return nil
}

// tagModules commits, tags and publishes level by level: the go.sum of a module
// needs the checksums of those that it requires.
func (r *release) tagModules() error {
	if err := r.installGorelease(); err != nil {
		return err
	}
	modules := r.released()
	for len(modules) > 0 {
		n := 1
		for n < len(modules) && modules[n].level == modules[0].level {
			n++
		}
		if err := r.tagLevel(modules[:n]); err != nil {
			return err
		}
		modules = modules[n:]
	}
	return nil
}

func (r *release) tagLevel(modules []*mod) error {
	for _, m := range modules {
		if err := r.requireReleases(m); err != nil {
			return err
		}
	}
	if modules[0].level > 0 {
		// A module may have had no go.sum so far.
		if err := r.git("add", "--all"); err != nil {
			return err
		}
		if err := r.git("commit", "--quiet", "--message", "Require "+r.version); err != nil {
			return err
		}
	}
	for _, m := range modules {
		if err := r.git("tag", "--annotate", "--message", m.path+" "+r.version, m.tag(r.version)); err != nil {
			return err
		}
		if err := r.compareAPI(m); err != nil {
			return err
		}
		if err := r.publish(m, r.version); err != nil {
			return err
		}
	}
	return nil
}

// git changes the clone, in the name that identity has found.
func (r *release) git(args ...string) error {
	env := append(os.Environ(), "GIT_CONFIG_COUNT=3",
		"GIT_CONFIG_KEY_0=commit.gpgSign", "GIT_CONFIG_VALUE_0=false",
		"GIT_CONFIG_KEY_1=tag.gpgSign", "GIT_CONFIG_VALUE_1=false",
		"GIT_CONFIG_KEY_2=core.hooksPath", "GIT_CONFIG_VALUE_2="+os.DevNull,
		"GIT_AUTHOR_NAME="+r.name, "GIT_AUTHOR_EMAIL="+r.mail,
		"GIT_COMMITTER_NAME="+r.name, "GIT_COMMITTER_EMAIL="+r.mail)
	return r.run(r.clone(), env, "git", args...)
}

// identity takes the name and address from git's settings, or from the last
// commit where there are none, as on a machine of hosted CI.
func (r *release) identity(root string) error {
	r.name, _ = r.output(root, os.Environ(), "git", "config", "user.name")
	r.mail, _ = r.output(root, os.Environ(), "git", "config", "user.email")
	if r.name != "" && r.mail != "" {
		return nil
	}
	last, err := r.output(root, os.Environ(), "git", "log", "-1", "--format=%cn%n%ce")
	r.name, r.mail, _ = strings.Cut(last, "\n")
	return err
}

// requireReleases lets a module require the released modules, as users will get
// them, and not the directories beside it.
func (r *release) requireReleases(m *mod) error {
	if m.level == 0 {
		return nil
	}
	ours := make(map[string]bool)
	for _, other := range r.modules {
		ours[other.path] = true
	}
	for _, replace := range slices.Clone(m.file.Replace) {
		if err := m.file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return err
		}
	}
	for _, require := range slices.Clone(m.file.Require) {
		if !ours[require.Mod.Path] {
			continue
		}
		if err := m.file.AddRequire(require.Mod.Path, r.version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	data, err := m.file.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir(m), "go.mod"), data, 0o666); err != nil {
		return err
	}
	return r.run(r.dir(m), r.proxyEnv(), "go", "mod", "tidy")
}

// publish writes a tagged module as a module proxy would serve it.
func (r *release) publish(m *mod, version string) error {
	tag := m.tag(version)
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return err
	}
	base := r.path("proxy", filepath.FromSlash(escaped), "@v", version)
	if err := os.MkdirAll(filepath.Dir(base), 0o777); err != nil {
		return err
	}
	file, err := os.Create(base + ".zip")
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(file, module.Version{Path: m.path, Version: version}, r.clone(), tag, m.dir)
	if err := first(err, file.Close()); err != nil {
		return err
	}
	gomod, err := r.command(r.clone(), os.Environ(), false, "git", "show", tag+":"+path.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	when, err := r.output(r.clone(), os.Environ(), "git", "log", "-1", "--format=%cI", tag)
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": when})
	if err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(filepath.Dir(base), "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(list, version)
	return first(err, list.Close(),
		os.WriteFile(base+".mod", []byte(gomod), 0o666), os.WriteFile(base+".info", info, 0o666))
}
