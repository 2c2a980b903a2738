package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// netVersion is the version of golang.org/x/net whose tests run.
const netVersion = "v0.62.0"

// hooks are the files that the patch adds. Their directory's name keeps them out
// of this module's packages.
//
//go:embed testdata/*.go
var hooks embed.FS

// An edit replaces a text that occurs exactly once in a file.
type edit struct{ file, old, new string }

// stdEdits give the transports of net/http their wrapper. The methods that they
// rename are in testdata/hook.go again.
var stdEdits = []edit{
	{"net/http/transport.go", "type Transport struct {\n", "type Transport struct {\n\tgotests GotestsWrapper\n"},
	{"net/http/transport.go", "func (t *Transport) CloseIdleConnections() {", "func (t *Transport) gotestsCloseIdleConnections() {"},
	{"net/http/roundtrip.go", "func (t *Transport) RoundTrip(req", "func (t *Transport) gotestsRoundTrip(req"},
	{"net/http/client.go", "\t\treturn c.Transport\n\t}\n\treturn DefaultTransport\n", "\t\treturn GotestsWrap(c.Transport)\n\t}\n\treturn GotestsWrap(DefaultTransport)\n"},
	{"net/http/httputil/reverseproxy.go", "\t\ttransport = http.DefaultTransport\n\t}\n", "\t\ttransport = http.DefaultTransport\n\t}\n\ttransport = http.GotestsWrap(transport)\n"},
}

// netEdits do the same for golang.org/x/net/http2. An http.Transport that uses
// an http2.Transport calls it without its wrapper: it has one itself, and knows
// the errors of the http2.Transport by their type.
var netEdits = []edit{
	{"http2/transport_common.go", "type Transport struct {\n", "type Transport struct {\n\tgotests http.GotestsWrapper\n\n"},
	{"http2/transport_common.go", "func (t *Transport) CloseIdleConnections() {", "func (t *Transport) gotestsCloseIdleConnections() {"},
	{"http2/transport_common.go", "func (t *Transport) RoundTrip(req", "func (t *Transport) gotestsRoundTrip(req"},
	{"http2/transport.go", "rt.Transport.RoundTrip(req)", "rt.Transport.gotestsRoundTrip(req)"},
	{"http2/transport.go", "\t\t\treturn (*unencryptedTransport)(t2)\n\t\t}\n\t\treturn t2\n", "\t\t\treturn (*unencryptedTransport)(t2)\n\t\t}\n\t\treturn gotestsPlain{t2}\n"},
}

// patched is the sources with the wrapper, ready to be built.
type patched struct {
	dir     string            // everything is below it
	src     string            // GOROOT/src, which stays as it is
	net     string            // a patched copy of golang.org/x/net
	overlay map[string]string // files that go reads in the place of others
}

// patch prepares the sources.
func patch(ctx context.Context, dir string) (*patched, error) {
	root, err := command(ctx, "", nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	p := &patched{dir: dir, net: filepath.Join(dir, "net"), overlay: map[string]string{}}
	// The go command knows the files of a GOROOT by their real names.
	if p.src, err = filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(root)), "src")); err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{p.addRetrip, p.patchStd, p.patchNet, p.addDrivers}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": p.overlay})
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.overlayFile(), overlay, 0o600)
}

func (p *patched) overlayFile() string { return filepath.Join(p.dir, "overlay.json") }

// sources is the directory of a suite's package.
func (p *patched) sources(s suite) string {
	if below, ok := strings.CutPrefix(s.path, "golang.org/x/net/"); ok {
		return filepath.Join(p.net, below)
	}
	return filepath.Join(p.src, s.path)
}

// env is the environment of the go command: without settings that belong to the
// module this program stands in.
func (p *patched) env() []string {
	return append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=")
}

// replace makes the go command read text in the place of the file, which need
// not exist, of GOROOT/src.
func (p *patched) replace(file string, text []byte) error {
	copied := filepath.Join(p.dir, "overlay", file)
	p.overlay[filepath.Join(p.src, file)] = copied
	return write(copied, text)
}

// localPaths are where the packages that retrip is made of go in the standard
// library, which can't import from elsewhere.
var localPaths = strings.NewReplacer(
	"github.com/retrip-go/retrip", "gotests/retrip",
	"github.com/hashicorp/go-cleanhttp", "gotests/cleanhttp",
)

// addRetrip adds the root package and what it imports to the standard library.
func (p *patched) addRetrip(ctx context.Context) error {
	output, err := command(ctx, "", nil, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Standard", "github.com/retrip-go/retrip")
	if err != nil {
		return err
	}
	for packages := json.NewDecoder(bytes.NewReader(output)); packages.More(); {
		var pkg struct {
			ImportPath, Dir string
			GoFiles         []string
			Standard        bool
		}
		if err := packages.Decode(&pkg); err != nil {
			return err
		}
		if pkg.Standard {
			continue
		}
		for _, name := range pkg.GoFiles {
			text, err := os.ReadFile(filepath.Join(pkg.Dir, name))
			if err != nil {
				return err
			}
			file := localPaths.Replace(pkg.ImportPath) + "/" + name
			if err := p.replace(file, []byte(localPaths.Replace(string(text)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// patchStd patches the standard library.
func (p *patched) patchStd(context.Context) error {
	texts := map[string]string{}
	for _, e := range stdEdits {
		if err := e.apply(p.src, texts); err != nil {
			return err
		}
	}
	for file, text := range texts {
		if err := p.replace(file, []byte(text)); err != nil {
			return err
		}
	}
	return p.replaceByHook("net/http/gotests_hook.go", "hook.go")
}

// patchNet patches a copy of golang.org/x/net: the go command does not let an
// overlay replace files of the module cache.
func (p *patched) patchNet(ctx context.Context) error {
	output, err := command(ctx, p.dir, p.env(), "go", "mod", "download", "-json", "golang.org/x/net@"+netVersion)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return err
	}
	if err := os.RemoveAll(p.net); err != nil {
		return err
	}
	if err := os.CopyFS(p.net, os.DirFS(module.Dir)); err != nil {
		return err
	}
	texts := map[string]string{}
	for _, e := range netEdits {
		if err := e.apply(module.Dir, texts); err != nil {
			return err
		}
	}
	text, err := hooks.ReadFile("testdata/hook_http2.go")
	if err != nil {
		return err
	}
	texts["http2/gotests_hook.go"] = string(text)
	for file, text := range texts {
		file = filepath.Join(p.net, file)
		if err := errors.Join(os.RemoveAll(file), write(file, []byte(text))); err != nil {
			return err
		}
	}
	return nil
}

// addDrivers makes the test binary of each suite import the driver.
func (p *patched) addDrivers(context.Context) error {
	for _, s := range suites {
		text := fmt.Appendf(nil, "package %s_test\n\nimport _ \"gotests/driver\"\n", filepath.Base(s.path))
		const name = "gotests_driver_test.go"
		if strings.HasPrefix(s.path, "golang.org/") {
			if err := write(filepath.Join(p.sources(s), name), text); err != nil {
				return err
			}
		} else if err := p.replace(s.path+"/"+name, text); err != nil {
			return err
		}
	}
	return p.replaceByHook("gotests/driver/driver.go", "driver.go")
}

func (p *patched) replaceByHook(file, hook string) error {
	text, err := hooks.ReadFile("testdata/" + hook)
	if err != nil {
		return err
	}
	return p.replace(file, text)
}

// apply applies the edit to the file below dir, or to its text in texts.
func (e edit) apply(dir string, texts map[string]string) error {
	text, ok := texts[e.file]
	if !ok {
		original, err := os.ReadFile(filepath.Join(dir, e.file))
		if err != nil {
			return err
		}
		text = string(original)
	}
	if n := strings.Count(text, e.old); n != 1 {
		return fmt.Errorf("%s has %d times, not once, the text %q: change the edits in patch.go to fit this version", e.file, n, e.old)
	}
	texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	return nil
}

// command runs a command and returns its output.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, complaint.String())
	}
	return output, nil
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
