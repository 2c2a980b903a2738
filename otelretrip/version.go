package otelretrip

import (
	"cmp"
	"runtime/debug"
	"slices"
	"sync"
)

const (
	scope   = "github.com/retrip-go/retrip/otelretrip"
	unknown = "(devel)" // as Go calls what was built from a checkout
)

// version is the instrumentation version of metrics and spans: that of this
// module in the program that runs.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok { // built without modules
		return unknown
	}
	return versionIn(info)
})

func versionIn(info *debug.BuildInfo) string {
	for _, m := range slices.Concat(info.Deps, []*debug.Module{&info.Main}) {
		if m.Path == scope {
			if m.Replace != nil {
				m = m.Replace
			}
			return cmp.Or(m.Version, unknown)
		}
	}
	return unknown
}
