package aws_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// A machine is what Load can see of one: nothing of the machine the tests run
// on, not even a home directory. A nil file does not exist.
type machine struct {
	env                 map[string]string
	config, credentials *string
}

// configPath and credentialsPath are where on puts the files in dir.
func configPath(dir string) string      { return filepath.Join(dir, "config") }
func credentialsPath(dir string) string { return filepath.Join(dir, "credentials") }

// on returns c, looking at m, whose files are written into dir.
func (m machine) on(t testing.TB, dir string, c aws.Config) aws.Config {
	t.Helper()
	write := func(path string, text *string) {
		if text == nil {
			require.NoError(t, os.RemoveAll(path))
			return
		}
		require.NoError(t, os.WriteFile(path, []byte(*text), 0o600))
	}
	write(configPath(dir), m.config)
	write(credentialsPath(dir), m.credentials)
	env := map[string]string{
		"AWS_CONFIG_FILE":             configPath(dir),
		"AWS_SHARED_CREDENTIALS_FILE": credentialsPath(dir),
	}
	for name, value := range m.env {
		env[name] = value
	}
	c.Getenv = func(name string) string { return env[name] }
	return c
}

// modeOf is the mode whose settings s has but for MaxAttempts.
func modeOf(t testing.TB, s *retrip.Strategy) retrip.Mode {
	t.Helper()
	for m := retrip.ModeStandard; m <= retrip.ModeAdaptive; m++ {
		like := m.Strategy()
		like.MaxAttempts = s.MaxAttempts
		if like.String() == s.String() {
			return m
		}
	}
	require.Fail(t, "a strategy of no mode", "%v", s)
	return 0
}
