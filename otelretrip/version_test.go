package otelretrip

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIsTheModules(t *testing.T) {
	released := debug.Module{Path: scope, Version: "v1.2.3"}
	for _, test := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a dependency", debug.BuildInfo{Deps: []*debug.Module{{Path: "other", Version: "v9.9.9"}, &released}}, "v1.2.3"},
		{"the main module", debug.BuildInfo{Main: released}, "v1.2.3"},
		{"replaced by a fork", debug.BuildInfo{Deps: []*debug.Module{{
			Path: scope, Version: "v0.0.0", Replace: &debug.Module{Path: "fork", Version: "v1.2.4"},
		}}}, "v1.2.4"},
		{"replaced by a checkout", debug.BuildInfo{Deps: []*debug.Module{{
			Path: scope, Version: "v0.0.0", Replace: &debug.Module{Path: "../"},
		}}}, "(devel)"},
		{"built without modules", debug.BuildInfo{}, "(devel)"},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, versionIn(&test.info)) })
	}
}
