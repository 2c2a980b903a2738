package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A repository in small: a root module, one that users import, an example that
// requires both, one that lies in the root module, and a module of our own.
var small = map[string]string{
	"go.mod":               "module example.com/core\n\ngo 1.25.0\n",
	"LICENSE":              "Do as you like.\n",
	"core.go":              "package core\n\nfunc One() int { return 1 }\n",
	"internal/kit/kit.go":  "package kit\n\nfunc Kit() {}\n",
	"sub/go.mod":           "module example.com/core/sub\n\ngo 1.25.0\n\nrequire example.com/core v0.0.0\n\nreplace example.com/core => ../\n",
	"sub/sub.go":           "package sub\n\nimport \"example.com/core\"\n\nfunc Two() int { return 2 * core.One() }\n",
	"examples/deep/go.mod": "module example.com/core/examples/deep\n\ngo 1.25.0\n\nrequire (\n\texample.com/core v0.0.0\n\texample.com/core/sub v0.0.0\n)\n\nreplace (\n\texample.com/core => ../../\n\texample.com/core/sub => ../../sub\n)\n",
	"examples/deep/main.go": "package main\n\nimport (\n\t\"example.com/core/internal/kit\"\n\t\"example.com/core/sub\"\n)\n\n" +
		"func main() { kit.Kit(); println(sub.Two()) }\n",
	"examples/plain/main.go": "package main\n\nimport \"example.com/core\"\n\nfunc main() { println(core.One()) }\n",
	"bench/go.mod":           "module example.com/core/bench\n\ngo 1.25.0\n\nrequire example.com/core v0.0.0\n\nreplace example.com/core => ../\n",
	"bench/bench.go":         "package bench\n\nimport \"example.com/core\"\n\nvar _ = core.One\n",
}

// repository commits the small repository with some files changed. A file with
// the content "-" is removed.
func repository(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	git(t, dir, "config", "user.name", "Test")
	git(t, dir, "config", "user.email", "test@example.com")
	write(t, dir, small)
	write(t, dir, changes)
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--message=Start")
	// No other module is to be had.
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOSUMDB", "off")
	return dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if content == "-" {
			require.NoError(t, os.Remove(name))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o666))
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), output)
	return strings.TrimSpace(string(output))
}

func TestRelease(t *testing.T) {
	dir := repository(t, nil)
	write(t, dir, map[string]string{"notes.txt": "not committed"})
	before := git(t, dir, "rev-parse", "HEAD")
	// Git knows no name here, and would not guess one.
	settings := filepath.Join(t.TempDir(), "gitconfig")
	require.NoError(t, os.WriteFile(settings, []byte("[user]\n\tuseConfigOnly = true\n"), 0o666))
	t.Setenv("GIT_CONFIG_GLOBAL", settings)
	git(t, dir, "config", "--unset", "user.name")
	t.Setenv("TMPDIR", t.TempDir())
	bundle := filepath.Join(t.TempDir(), "release.bundle")
	var out strings.Builder
	require.NoError(t, makeRelease(t.Context(), dir, options{bundle: bundle}, &out), "%s", &out)

	require.Empty(t, git(t, dir, "tag"), "the repository gets no tag")
	require.Equal(t, before, git(t, dir, "rev-parse", "HEAD"))
	require.Equal(t, "?? notes.txt", git(t, dir, "status", "--porcelain"))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "the temporary directory is removed")
	for _, line := range []string{
		"?? notes.txt",
		"version v0.1.0",
		"its go.mod holds example.com/core\n",
		"its go.mod holds example.com/core/sub example.com/core\n",
		"go install example.com/core/examples/plain@v0.1.0",
		"go install example.com/core/examples/deep@v0.1.0",
		"copied/plain: go build",
		"Skipped: examples/deep needs example.com/core/internal/kit.",
		"There is no tag yet, so there is no API to compare with.",
	} {
		require.Contains(t, out.String(), line)
	}

	user := t.TempDir()
	git(t, user, "clone", "--quiet", dir, ".")
	git(t, user, "fetch", "--quiet", bundle, "refs/tags/*:refs/tags/*")
	tags := git(t, user, "tag", "--list", "v0.1.0", "*/v0.1.0")
	require.Equal(t, "examples/deep/v0.1.0\nsub/v0.1.0\nv0.1.0", tags)
	origin := t.TempDir()
	git(t, origin, "init", "--quiet", "--bare")
	git(t, user, append([]string{"push", "--quiet", origin}, strings.Fields(tags)...)...)
	require.Equal(t, tags, git(t, origin, "tag"))
	require.Equal(t, before, git(t, user, "rev-parse", "v0.1.0^{commit}"))
	require.Equal(t, "Test <test@example.com>", git(t, user, "log", "-1", "--format=%an <%ae>", "sub/v0.1.0"))
	deep := git(t, user, "show", "examples/deep/v0.1.0:examples/deep/go.mod")
	require.NotContains(t, deep, "replace")
	require.Contains(t, deep, "example.com/core/sub v0.1.0")
	require.Contains(t, git(t, user, "show", "sub/v0.1.0:sub/go.sum"), "example.com/core v0.1.0/go.mod h1:")
}

func TestReleaseFails(t *testing.T) {
	const sub = "module example.com/core/sub\n\ngo 1.25.0\n\n"
	tests := []struct {
		name    string
		changes map[string]string
		version string
		want    string
	}{
		{name: "a requirement that nothing replaces",
			changes: map[string]string{"sub/go.mod": sub + "require example.com/core v0.0.0\n"},
			want:    "step 2, check that each module is tidy"},
		{name: "a requirement that is missing",
			changes: map[string]string{"sub/go.mod": sub},
			want:    "step 2, check that each module is tidy"},
		{name: "a module that is not released is required",
			changes: map[string]string{"sub/go.mod": sub + "require example.com/core/bench v0.0.0\n"},
			want:    "sub/go.mod requires example.com/core/bench, which is not released"},
		{name: "a replacement that users don't get",
			changes: map[string]string{"sub/go.mod": sub + "require example.com/core v0.0.0\n\nreplace example.com/core => ../\n\nreplace example.com/fork => ../fork\n"},
			want:    "sub/go.mod replaces example.com/fork: users would not get the replacement"},
		{name: "modules require each other",
			changes: map[string]string{"go.mod": "module example.com/core\n\ngo 1.25.0\n\nrequire example.com/core/sub v0.0.0\n"},
			want:    "modules require each other"},
		{name: "a wrong module path",
			changes: map[string]string{"sub/go.mod": "module example.com/sub\n\ngo 1.25.0\n"},
			want:    "the module in sub is named example.com/sub: name it example.com/core/sub"},
		{name: "a module that ignores a file it needs",
			changes: map[string]string{".gitignore": "core.go\n"},
			want:    "example.com/core"},
		{name: "an example whose test does not compile",
			changes: map[string]string{"examples/plain/main_test.go": "package main\n\nvar _ int = \"one\"\n"},
			want:    "step 6, build the examples outside of the repository: go vet"},
		{name: "a command that does not compile",
			changes: map[string]string{"examples/deep/more.go": "package main\n\nvar _ int = \"one\"\n"},
			want:    "step 5, install the commands: go install example.com/core/examples/deep@v0.1.0"},
		{name: "a package that does not compile",
			changes: map[string]string{"more/more.go": "package more\n\nvar _ int = \"one\"\n"},
			want:    "step 4, let new modules require what is released: go vet"},
		{name: "a version that is none", version: "0.1", want: `version "0.1" has not the form v1.2.3`},
		{name: "a major version that is not in the path", version: "v2.0.0", want: "should be v0 or v1, not v2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := repository(t, tt.changes)
			t.Setenv("TMPDIR", t.TempDir())
			err := makeRelease(t.Context(), dir, options{version: tt.version}, io.Discard)
			require.ErrorContains(t, err, tt.want)
			left, err := os.ReadDir(os.Getenv("TMPDIR"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// A package of the module that only the tests need does not reach users. One
// that the code needs does.
func TestGoModOfUsers(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	serve(t, cache, "example.com/testonly", "package testonly\n\nfunc Check() {}\n")
	needs := map[string]string{
		"go.mod": "module example.com/core\n\ngo 1.25.0\n\nrequire example.com/testonly v1.0.0\n",
		"go.sum": "",
	}
	test := "package core\n\nimport (\n\t\"testing\"\n\n\t\"example.com/testonly\"\n)\n\nfunc TestOne(*testing.T) { testonly.Check() }\n"

	run := func(changes map[string]string, inSum ...string) (string, error) {
		dir := repository(t, needs)
		t.Setenv("GOPROXY", fileURL(filepath.Join(cache, "cache", "download")))
		write(t, dir, changes)
		tidy(t, dir, "", "sub", "examples/deep", "bench")
		git(t, dir, "add", "--all")
		git(t, dir, "commit", "--quiet", "--message=Need another module")
		var out strings.Builder
		err := makeRelease(t.Context(), dir, options{testDependencies: inSum}, &out)
		return out.String(), err
	}
	out, err := run(map[string]string{"core_test.go": test}, "example.com/testonly")
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "its go.mod holds example.com/core\n")
	require.Contains(t, out, "its go.sum holds example.com/core example.com/testonly\n")
	_, err = run(map[string]string{"core_test.go": test})
	require.ErrorContains(t, err, "the go.sum of a user of example.com/core holds example.com/testonly")
	_, err = run(map[string]string{"core2.go": strings.Replace(strings.Replace(test, "\t\"testing\"\n\n", "", 1), "func TestOne(*testing.T)", "func init()", 1)})
	require.ErrorContains(t, err, "the go.mod of a user of example.com/core holds example.com/testonly")
}

// serve puts a module into a cache as if it had been downloaded.
func serve(t *testing.T, cache, path, code string) {
	t.Helper()
	const version = "v1.0.0"
	gomod := "module " + path + "\n\ngo 1.25.0\n"
	from := t.TempDir()
	write(t, from, map[string]string{"go.mod": gomod, "code.go": code})
	base := filepath.Join(cache, "cache", "download", path, "@v")
	write(t, base, map[string]string{"list": version + "\n", version + ".mod": gomod, version + ".info": `{"Version":"` + version + `"}`})
	file, err := os.Create(filepath.Join(base, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromDir(file, module.Version{Path: path, Version: version}, from))
	require.NoError(t, file.Close())
}

func tidy(t *testing.T, dir string, modules ...string) {
	t.Helper()
	for _, m := range modules {
		cmd := exec.Command("go", "mod", "tidy")
		cmd.Dir = filepath.Join(dir, m)
		cmd.Env = append(os.Environ(), "GOFLAGS=-modcacherw")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
}

func TestVersions(t *testing.T) {
	tests := []struct {
		tags, version string
		want, wantErr string
	}{
		{want: "v0.1.0"},
		{tags: "v0.1.0 v0.9.0 v0.10.1 sub/v0.30.0", want: "v0.11.0"},
		{tags: "v0.1.0", version: "v0.1.1", want: "v0.1.1"},
		{tags: "v0.2.0", version: "v0.2.0", wantErr: "v0.2.0 is not newer than the tag v0.2.0"},
		{tags: "v0.2.0-rc.1", version: "v0.2.0", want: "v0.2.0"},
	}
	for _, tt := range tests {
		dir := repository(t, nil)
		for tag := range strings.FieldsSeq(tt.tags) {
			git(t, dir, "tag", tag)
		}
		tmp := t.TempDir()
		git(t, dir, "clone", "--quiet", dir, filepath.Join(tmp, "clone"))
		r := &release{ctx: t.Context(), out: io.Discard, tmp: tmp, options: options{version: tt.version}}
		err := r.chooseVersion()
		if tt.wantErr != "" {
			require.ErrorContains(t, err, tt.wantErr)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, r.version)
	}
}

func TestAPI(t *testing.T) {
	proxy, set := os.LookupEnv("GOPROXY") // for gorelease itself
	const three = "package core\n\nfunc One() int { return 1 }\n\nfunc Three() int { return 3 }\n"
	const changed = "package core\n\nfunc One() int8 { return 1 }\n"
	tests := []struct {
		name, last, version string
		core                string
		want, wantErr       string
	}{
		{"an addition in a minor version", "v1.0.0", "v1.1.0", three, "Three: added", ""},
		{"an addition in a patch", "v1.0.0", "v1.0.1", three, "", "v1.0.1 is not a valid semantic version"},
		{"an incompatible change", "v1.0.0", "v1.1.0", changed, "", "One: changed from func() int to func() int8"},
		{"before version 1, an incompatible change", "v0.1.0", "v0.2.0", changed, "One: changed from func() int to func() int8", ""},
		{"before version 1, an incompatible change in a patch", "v0.1.0", "v0.1.1", changed, "",
			"the API of example.com/core has changed since v0.1.0, so v0.1.1 must be a new minor version"},
		{"before version 1, a fix in a patch", "v0.1.0", "v0.1.1", strings.Replace(small["core.go"], "1", "2 - 1", 1), "v0.1.1 is a valid", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := repository(t, map[string]string{"sub/sub.go": "package sub\n\nimport \"example.com/core\"\n\nfunc Two() int { return int(core.One()) }\n"})
			git(t, dir, "tag", tt.last)
			write(t, dir, map[string]string{"core.go": tt.core})
			git(t, dir, "commit", "--quiet", "--all", "--message=Change")
			if t.Setenv("GOPROXY", proxy); !set {
				require.NoError(t, os.Unsetenv("GOPROXY"))
			}
			var out strings.Builder
			err := makeRelease(t.Context(), dir, options{version: tt.version}, &out)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, "step 3, tag the modules")
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err, "%s", &out)
			require.Contains(t, out.String(), tt.want)
			require.Contains(t, out.String(), "example.com/core/sub is new in this release")
		})
	}
}

func TestSupportedGoVersions(t *testing.T) {
	page, err := os.ReadFile("../../docs/support.md")
	require.NoError(t, err)
	for module, row := range map[string]string{
		"../..":            "| `retrip` with `aws`, `services` and `migrate` | %s |",
		"../../otelretrip": "| `otelretrip` | %s |",
		"../../redisquota": "| `redisquota` | %s |",
	} {
		file, err := os.ReadFile(filepath.Join(module, "go.mod"))
		require.NoError(t, err)
		parsed, err := modfile.Parse("go.mod", file, nil)
		require.NoError(t, err)
		require.Contains(t, string(page), fmt.Sprintf(row, strings.TrimSuffix(parsed.Go.Version, ".0")))
	}
}
