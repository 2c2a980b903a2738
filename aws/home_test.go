package aws

import (
	"os/user"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only a nil Getenv leads to the user database: a made-up environment must not
// be completed from the real one. Nothing is read in the directory.
func TestHomeWithoutVariable(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("USERPROFILE", "")
	if u, err := user.Current(); err == nil {
		require.Equal(t, u.HomeDir, Config{}.home())
	} else {
		require.Empty(t, Config{}.home())
	}
	require.Empty(t, Config{Getenv: func(string) string { return "" }}.home())
}
