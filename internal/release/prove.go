package main

import (
	"debug/buildinfo"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// gorelease compares the API of two versions of a module.
const gorelease = "golang.org/x/exp/cmd/gorelease@v0.0.0-20261014143641-f0251eb4aa3e"

// proxyEnv is the environment of a user whose module proxy has the release. The
// module cache is a new one, since no other may ever hold these versions. The
// dependencies come from the cache that checkTidy has filled, where they have
// been checked, so the checksum database has nothing to add.
func (r *release) proxyEnv() []string {
	return append(os.Environ(),
		"GOPROXY="+r.fileProxies(),
		"GOMODCACHE="+r.path("modcache"),
		// Files that can be removed, and a build cache that the next run can use.
		"GOFLAGS="+strings.TrimSpace(r.goEnv("GOFLAGS")+" -modcacherw -trimpath"),
		"GOBIN="+r.path("bin"),
		// No setting of the machine may lead around the proxy.
		"GOENV=off", "GOPRIVATE=", "GONOPROXY=", "GOVCS=*:off", "GOSUMDB=off", "GOWORK=off", "GO111MODULE=on",
		"GOTOOLCHAIN="+r.goEnv("GOTOOLCHAIN"),
	)
}

func (r *release) fileProxies() string {
	cache := filepath.Join(r.goEnv("GOMODCACHE"), "cache", "download")
	return fileURL(r.path("proxy")) + "," + fileURL(cache)
}

func (r *release) goEnv(name string) string {
	value, err := r.output(r.tmp, os.Environ(), "go", "env", name)
	if err != nil {
		return ""
	}
	return value
}

func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir
	}
	return "file://" + dir
}

// proveImports is a newcomer's start: go mod init, go get, go build.
func (r *release) proveImports() error {
	for i, m := range r.released() {
		if !m.isImported() {
			continue
		}
		dir := r.path(fmt.Sprintf("user%d", i))
		if err := r.proveImport(m, dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) proveImport(m *mod, dir string) error {
	packages, err := r.packages(m, "lib")
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("%s has no package to import", m.path)
	}
	program := "package main\n\n"
	for _, p := range packages {
		program += fmt.Sprintf("import _ %q\n", p)
	}
	program += "\nfunc main() {}\n"
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o666); err != nil {
		return err
	}
	r.say("a program that imports %s", strings.Join(packages, " "))
	if err := r.useRelease(dir, m); err != nil {
		return err
	}
	return r.checkGoMod(m, dir)
}

// useRelease makes a module of the program in dir and builds it.
func (r *release) useRelease(dir string, m *mod) error {
	return r.goCommands(dir,
		"mod init example.com/user",
		"get "+m.path+"@"+r.version,
		"mod tidy",
		"vet ./...",
		"build -o "+os.DevNull+" ./...",
	)
}

func (r *release) goCommands(dir string, commands ...string) error {
	for _, command := range commands {
		if err := r.run(dir, r.proxyEnv(), "go", strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// checkGoMod checks that the go.mod of a user holds no module that only our
// tests need. Each module there takes part in the choice of versions.
func (r *release) checkGoMod(m *mod, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return err
	}
	list, err := r.output(dir, r.proxyEnv(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./...")
	if err != nil {
		return err
	}
	compiled := strings.Fields(list)
	var got []string
	for _, require := range file.Require {
		got = append(got, require.Mod.Path)
		if !slices.Contains(compiled, require.Mod.Path) {
			return fmt.Errorf("the go.mod of a user of %s holds %s, of which nothing is compiled", m.path, require.Mod.Path)
		}
		ours := require.Mod.Path == m.path || slices.Contains(r.options.rootDependencies, require.Mod.Path)
		if m.dir == "" && !ours {
			return fmt.Errorf("the go.mod of a user of %s holds %s: only %s may be there", m.path, require.Mod.Path, r.options.rootDependencies)
		}
	}
	r.say("its go.mod holds %s", strings.Join(got, " "))
	return r.checkGoSum(m, dir)
}

// checkGoSum checks what docs/support.md says of the go.sum of a user.
func (r *release) checkGoSum(m *mod, dir string) error {
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return err
	}
	var got []string
	for line := range strings.Lines(string(sums)) {
		got = append(got, strings.Fields(line)[0])
	}
	got = slices.Compact(got)
	r.say("its go.sum holds %s", strings.Join(got, " "))
	expected := slices.Concat([]string{m.path}, r.options.rootDependencies, r.options.testDependencies)
	for _, name := range got {
		if m.dir == "" && !slices.Contains(expected, name) {
			return fmt.Errorf("the go.sum of a user of %s holds %s: docs/support.md does not say so", m.path, name)
		}
	}
	return nil
}

// packages lists those packages of a module that are commands ("main") or that
// users can import ("lib").
func (r *release) packages(m *mod, kind string) ([]string, error) {
	list, err := r.output(r.dir(m), r.proxyEnv(), "go", "list", "-f", `{{.ImportPath}} {{if eq .Name "main"}}main{{else}}lib{{end}}`, "./...")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(list) {
		p, itsKind, _ := strings.Cut(strings.TrimSpace(line), " ")
		if itsKind == kind && !strings.Contains(p+"/", "/internal/") {
			found = append(found, p)
		}
	}
	return found, nil
}

func (r *release) proveCommands() error {
	for _, m := range r.released() {
		commands, err := r.packages(m, "main")
		if err != nil {
			return err
		}
		for _, command := range commands {
			if err := r.run(r.tmp, r.proxyEnv(), "go", "install", command+"@"+r.version); err != nil {
				return err
			}
			if err := r.checkBinary(command, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) checkBinary(command string, m *mod) error {
	name := path.Base(command)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	binary := r.path("bin", name)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	if info.Main.Path != m.path || info.Main.Version != r.version {
		return fmt.Errorf("%s was built from %s %s, not from %s %s", name, info.Main.Path, info.Main.Version, m.path, r.version)
	}
	return os.Remove(binary)
}

// proveExamples builds what a reader gets who copies the directory of an example.
func (r *release) proveExamples() error {
	entries, err := os.ReadDir(filepath.Join(r.clone(), "examples"))
	if err != nil {
		return err
	}
	root := r.modules[0]
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		from := filepath.Join(r.clone(), "examples", entry.Name())
		needs, err := internalImport(from, root.path)
		if err != nil {
			return err
		}
		if needs != "" {
			r.say("Skipped: examples/%s needs %s.", entry.Name(), needs)
			continue
		}
		to := r.path("copied", entry.Name())
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return err
		}
		build := func() error { return r.useRelease(to, root) }
		if _, err := os.Stat(filepath.Join(to, "go.mod")); err == nil {
			build = func() error { return r.goCommands(to, "vet ./...", "build -o "+os.DevNull+" ./...") }
		}
		if err := build(); err != nil {
			return err
		}
	}
	return nil
}

// internalImport finds an import of one of our internal packages, also in tests.
func internalImport(dir, root string) (found string, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasPrefix(imported, root+"/internal/") {
				found = imported
			}
		}
		return nil
	})
	return found, err
}

// installGorelease takes the proxy of the environment: the tool is no dependency.
func (r *release) installGorelease() error {
	if r.last == "" {
		r.say("There is no tag yet, so there is no API to compare with.")
		return nil
	}
	return r.run(r.tmp, append(os.Environ(), "GOBIN="+r.path("tools")), "go", "install", gorelease)
}

// compareAPI fails if the version does not fit what changed since the newest
// release. The new version must not be published yet.
func (r *release) compareAPI(m *mod) error {
	if r.last == "" || !m.isImported() {
		return nil
	}
	if _, err := r.output(r.clone(), os.Environ(), "git", "rev-parse", "--verify", m.tag(r.last)); err != nil {
		r.say("%s is new in this release, so it has no API to compare with.", m.path)
		return nil
	}
	if err := r.publish(m, r.last); err != nil {
		return err
	}
	// It asks for modules, too, that are in the graph and that nothing imports.
	env := append(r.proxyEnv(), "GOPROXY="+r.fileProxies()+","+r.goEnv("GOPROXY"))
	report, err := r.command(r.dir(m), env, true, r.path("tools", "gorelease"), "-base="+r.last, "-version="+r.version)
	if err != nil {
		return err
	}
	r.say("%s", report)
	// gorelease lets every version pass that follows one before v1.0.0. The
	// heading is "compatible changes" or "incompatible changes".
	if strings.Contains(report, "compatible changes") && semver.MajorMinor(r.version) == semver.MajorMinor(r.last) {
		return fmt.Errorf("the API of %s has changed since %s, so %s must be a new minor version", m.path, r.last, r.version)
	}
	return nil
}
