package aws_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// Each row takes away the best place of the one before.
func TestPrecedence(t *testing.T) {
	config := "[default]\nretry_mode = adaptive\nmax_attempts = 6\n"
	credentials := "[default]\nretry_mode = legacy\nmax_attempts = 7\n"
	env := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	full := env("AWS_RETRY_MODE", "adaptive", "AWS_MAX_ATTEMPTS", "8")
	for _, row := range []struct {
		name     string
		code     aws.Config
		machine  machine
		mode     retrip.Mode
		attempts int
	}{
		{"code", aws.Config{Mode: "standard", MaxAttempts: 9}, machine{full, &config, &credentials}, retrip.ModeStandard, 9},
		{"code, mode alone", aws.Config{Mode: "standard"}, machine{full, &config, &credentials}, retrip.ModeStandard, 8},
		{"code, attempts alone", aws.Config{MaxAttempts: 9}, machine{full, &config, &credentials}, retrip.ModeAdaptive, 9},
		{"environment", aws.Config{}, machine{full, &config, &credentials}, retrip.ModeAdaptive, 8},
		{"environment, mode alone", aws.Config{}, machine{env("AWS_RETRY_MODE", "adaptive"), &config, &credentials}, retrip.ModeAdaptive, 7},
		{"environment, attempts alone", aws.Config{}, machine{env("AWS_MAX_ATTEMPTS", "8"), &config, &credentials}, retrip.ModeLegacy, 8},
		{"credentials file", aws.Config{}, machine{nil, &config, &credentials}, retrip.ModeLegacy, 7},
		{"config file", aws.Config{}, machine{nil, &config, nil}, retrip.ModeAdaptive, 6},
		{"nothing", aws.Config{}, machine{}, retrip.ModeStandard, 3},
		{"a mode has attempts of its own", aws.Config{Mode: "legacy"}, machine{}, retrip.ModeLegacy, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := row.machine.on(t, t.TempDir(), row.code).Load()
			require.NoError(t, err)
			require.Equal(t, row.mode, modeOf(t, s))
			require.Equal(t, row.attempts, s.MaxAttempts)
		})
	}
}

func TestProfilePrecedence(t *testing.T) {
	config := "[default]\nmax_attempts = 11\n[profile a]\nmax_attempts = 12\n[profile b]\nmax_attempts = 13\n[profile c]\nmax_attempts = 14\n"
	for _, row := range []struct {
		name, code, aws, awsDefault string
		attempts                    int
	}{
		{"code", "a", "b", "c", 12},
		{"AWS_PROFILE", "", "b", "c", 13},
		{"AWS_DEFAULT_PROFILE", "", "", "c", 14},
		{"none", "", "", "", 11},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := machine{config: &config, env: map[string]string{"AWS_PROFILE": row.aws, "AWS_DEFAULT_PROFILE": row.awsDefault}}
			s, err := m.on(t, t.TempDir(), aws.Config{Profile: row.code}).Load()
			require.NoError(t, err)
			require.Equal(t, row.attempts, s.MaxAttempts)
		})
	}
}

func TestUse2026(t *testing.T) {
	for in, want := range map[string]func() *retrip.Strategy{
		"":         aws.Standard2026,
		"standard": aws.Standard2026,
		"adaptive": aws.Adaptive2026,
		"legacy":   retrip.Legacy,
	} {
		m := machine{env: map[string]string{"AWS_RETRY_MODE": in}}
		s, err := m.on(t, t.TempDir(), aws.Config{Use2026: true}).Load()
		require.NoError(t, err)
		require.Equal(t, want().String(), s.String(), in)
	}
	// Only code can ask for it.
	m := machine{env: map[string]string{"AWS_RETRY_MODE": "standard2026", "AWS_NEW_RETRIES_2026": "true"}}
	_, err := m.on(t, t.TempDir(), aws.Config{}).Load()
	require.ErrorContains(t, err, `AWS_RETRY_MODE: "standard2026" is not a retry mode`)
	m.env["AWS_RETRY_MODE"] = ""
	s, err := m.on(t, t.TempDir(), aws.Config{}).Load()
	require.NoError(t, err)
	require.Equal(t, retrip.ModeStandard, modeOf(t, s))
}

func TestEachLoadIsNew(t *testing.T) {
	c := machine{}.on(t, t.TempDir(), aws.Config{})
	a, err := c.Load()
	require.NoError(t, err)
	b, err := c.Load()
	require.NoError(t, err)
	require.NotSame(t, a, b)
	require.NotSame(t, a.Quota, b.Quota)
}

// The files' places: code, environment, home directory.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write(".aws/config", "[default]\nmax_attempts = 21\n")
	write(".aws/credentials", "[default]\nretry_mode = adaptive\n")
	env := map[string]string{"HOME": dir, "USERPROFILE": dir}
	c := aws.Config{Getenv: func(name string) string { return env[name] }}
	check := func(mode retrip.Mode, attempts int) {
		t.Helper()
		s, err := c.Load()
		require.NoError(t, err)
		require.Equal(t, mode, modeOf(t, s))
		require.Equal(t, attempts, s.MaxAttempts)
	}
	check(retrip.ModeAdaptive, 21)
	env["AWS_CONFIG_FILE"] = write("c1", "[default]\nmax_attempts = 22\n")
	env["AWS_SHARED_CREDENTIALS_FILE"] = write("k1", "[default]\nretry_mode = legacy\n")
	check(retrip.ModeLegacy, 22)
	c.ConfigFile = write("c2", "[default]\nmax_attempts = 23\n")
	c.CredentialsFile = write("k2", "[default]\nretry_mode = standard\n")
	check(retrip.ModeStandard, 23)
}

// The zero Config reads the process environment, when asked to.
func TestProcessEnvironment(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE":             configPath(dir),
		"AWS_SHARED_CREDENTIALS_FILE": credentialsPath(dir),
		"AWS_PROFILE":                 "",
		"AWS_DEFAULT_PROFILE":         "",
		"AWS_RETRY_MODE":              "adaptive",
		"AWS_MAX_ATTEMPTS":            "6",
	} {
		t.Setenv(name, value)
	}
	s, err := aws.Config{}.Load()
	require.NoError(t, err)
	require.Equal(t, retrip.ModeAdaptive, modeOf(t, s))
	require.Equal(t, 6, s.MaxAttempts)
}
