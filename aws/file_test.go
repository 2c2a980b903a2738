package aws_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

const standard, adaptive, legacy = retrip.ModeStandard, retrip.ModeAdaptive, retrip.ModeLegacy

// What the vectors' rows leave open of how a config file is read; either SDK
// reads the row so, unless the package documentation says otherwise.
var fileFormats = []struct {
	name, config, profile string
	mode                  retrip.Mode
	attempts              int // 0: the mode's own
}{
	{"no line at all", "", "", standard, 0},
	{"no line end", "[default]\nretry_mode = adaptive", "", adaptive, 0},
	{"CRLF", "[default]\r\ns3 =\r\n  max_attempts = 9\r\nretry_mode = \"adaptive\" # c\r\nmax_attempts = 4\r\n", "", adaptive, 4},
	{"CR", "[default]\rretry_mode = adaptive\r", "", adaptive, 0},
	{"colon", "[default]\nretry_mode: adaptive\n", "", adaptive, 0},
	{"long line", "# " + strings.Repeat("x", 1<<20) + "\n[default]\nca = " + strings.Repeat("y", 1<<20) + "\nretry_mode = adaptive\n", "", adaptive, 0},

	{"comment with #", "[default]\nmax_attempts = 5 # c\n", "", standard, 5},
	{"comment with ;", "[default]\nmax_attempts = 5\t; c\n", "", standard, 5},
	{"comment after a quoted value", "[default]\nretry_mode = 'legacy' # c\n", "", legacy, 0},
	{"comment with an = is no setting", "[default]\nretry_mode # c = adaptive\n", "", standard, 0},

	{"decimal, not octal", "[default]\nmax_attempts = 010\n", "", standard, 10},
	{"underscores", "[default]\nmax_attempts = 1_0\n", "", standard, 10},
	{"plus sign", "[default]\nmax_attempts = +5\n", "", standard, 5},
	{"many", "[default]\nmax_attempts = 2147483647\n", "", standard, 1<<31 - 1},

	{"section merged", "[default]\nretry_mode = adaptive\n[profile x]\na = b\n[default]\nmax_attempts = 5\n", "", adaptive, 5},
	{"section in other spelling merged", "[profile dev]\nretry_mode = adaptive\n[profile 'dev']\nmax_attempts = 5\n", "dev", adaptive, 5},
	{"setting twice in another profile", "[default]\nretry_mode = adaptive\n[profile x]\nretry_mode = x\nretry_mode = y\n", "", adaptive, 0},
	{"[profile default] before [default]", "[profile default]\nretry_mode = adaptive\n[default]\nmax_attempts = 5\n", "", adaptive, 0},
	{"default named", "[default]\nretry_mode = adaptive\n", "default", adaptive, 0},
	{"[Default]", "[Default]\nretry_mode = adaptive\n", "", standard, 0},
	{"[default x]", "[default x]\nretry_mode = adaptive\n", "", standard, 0},
	{"[DEFAULT] is not inherited", "[DEFAULT]\nretry_mode = adaptive\n[profile dev]\n", "dev", standard, 0},
	{"[profile] without a name", "[profile]\nretry_mode = adaptive\n[profile \"\"]\nretry_mode = adaptive\n", "", standard, 0},
	{"section without a name", "[]\nretry_mode = adaptive\n", "", standard, 0},
	{"section with blanks", "[ profile  dev ]\nretry_mode = adaptive\n", "dev", adaptive, 0},
	{"section indented", "[default]\nregion = x\n  [profile dev]\nretry_mode = adaptive\n", "", standard, 0},
	{"section with brackets", "[profile a]b] # [c]\nretry_mode = adaptive\n", "a]b", adaptive, 0},
	{"section with brackets and text", "[profile a]b] text\nretry_mode = adaptive\n", "a]b", adaptive, 0},
	{"section with #", "[profile a#b]\nretry_mode = adaptive\n", "a#b", adaptive, 0},
	{"section and text", "[profile dev]\n[default] text\nretry_mode = adaptive\n", "dev", standard, 0},

	{"indented first setting", "[default]\n  retry_mode = adaptive\n", "", adaptive, 0},
	{"indented first setting of a later section", "[profile x]\nregion = y\n[default]\n  retry_mode = adaptive\n", "", adaptive, 0},
	{"all indented", "[default]\n  region = x\n  s3 =\n    max_attempts = 9\n  max_attempts = 4\n", "", standard, 4},
	{"indented less", "[default]\n  region = x\n retry_mode = adaptive\n", "", adaptive, 0},
	{"continuation", "[default]\nregion = x\n  retry_mode = adaptive\n", "", standard, 0},
	{"block across blank lines and comments", "[default]\ns3 =\n\n# c\n  max_attempts = 9\n", "", standard, 0},
	{"block with tab", "[default]\ns3 =\n\tmax_attempts = 9\n", "", standard, 0},
	{"block of no settings", "[default]\ns3 =\n  text\nretry_mode = adaptive\n", "", adaptive, 0},
}

func TestFileFormat(t *testing.T) {
	for _, row := range fileFormats {
		t.Run(row.name, func(t *testing.T) {
			s, err := machine{config: &row.config}.on(t, t.TempDir(), aws.Config{Profile: row.profile}).Load()
			require.NoError(t, err)
			require.Equal(t, row.mode, modeOf(t, s))
			if row.attempts == 0 {
				row.attempts = row.mode.Strategy().MaxAttempts
			}
			require.Equal(t, row.attempts, s.MaxAttempts)
		})
	}
}

func TestProfilesOfTheCredentialsFile(t *testing.T) {
	for _, row := range []struct {
		name, credentials, profile string
		found                      bool
	}{
		{"bare name", "[dev]\nmax_attempts = 5\n", "dev", true},
		{"name with blank", "[my dev]\nmax_attempts = 5\n", "my dev", true},
		{"quotes are part of the name", "[\"dev\"]\nmax_attempts = 5\n", "dev", false},
		{"prefix", "[profile dev]\nmax_attempts = 5\n", "dev", false},
		{"no prefix but a name", "[profile]\nmax_attempts = 5\n", "profile", true},
		{"default", "[default]\nmax_attempts = 5\n", "default", true},
		{"keys are not looked at", "[dev]\naws_access_key_id = x\nmax_attempts = 5\n", "dev", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := machine{credentials: &row.credentials}.on(t, t.TempDir(), aws.Config{Profile: row.profile}).Load()
			if !row.found {
				require.ErrorContains(t, err, "there is no profile")
				return
			}
			require.NoError(t, err)
			require.Equal(t, 5, s.MaxAttempts)
		})
	}
}

// The whole texts: they must name the place, the value, what is allowed.
func TestErrors(t *testing.T) {
	const modes = ": use standard, legacy or adaptive, in lower case"
	const attempts = ": use a whole number, 1 or more"
	for _, row := range []struct {
		name, config string
		env          map[string]string
		code         aws.Config
		want         string // CONFIG and CREDENTIALS stand for the paths, MISSING for why there is none
	}{
		{"mode in code", "", nil, aws.Config{Mode: "Standard"}, `Config.Mode: "Standard" is not a retry mode` + modes},
		{"attempts in code", "", nil, aws.Config{MaxAttempts: -1}, `Config.MaxAttempts: "-1" is not a number of attempts` + attempts},
		{"mode in environment", "", map[string]string{"AWS_RETRY_MODE": " standard"}, aws.Config{}, `AWS_RETRY_MODE: " standard" is not a retry mode` + modes},
		{"attempts in environment", "", map[string]string{"AWS_MAX_ATTEMPTS": "0"}, aws.Config{}, `AWS_MAX_ATTEMPTS: "0" is not a number of attempts` + attempts},
		{"mode in file", "[default]\n\nretry_mode = Legacy\n", nil, aws.Config{}, `CONFIG:3: retry_mode: "Legacy" is not a retry mode` + modes},
		{"attempts in file", "[default]\r\n# c\r\nMAX_ATTEMPTS = 0x5\r\n", nil, aws.Config{}, `CONFIG:3: max_attempts: "0x5" is not a number of attempts` + attempts},
		{"empty value", "[default]\nretry_mode = # c\n", nil, aws.Config{}, `CONFIG:2: retry_mode: "" is not a retry mode` + modes},
		{"half a pair of quotes", "[default]\nretry_mode = \"\n", nil, aws.Config{}, `CONFIG:2: retry_mode: "\"" is not a retry mode` + modes},
		{"long value", "[default]\nmax_attempts = " + strings.Repeat("9", 1<<20), nil, aws.Config{}, `CONFIG:2: max_attempts: "` + strings.Repeat("9", 60) + `" is not a number of attempts` + attempts},
		{"both", "[default]\nretry_mode = x\n", map[string]string{"AWS_MAX_ATTEMPTS": "x"}, aws.Config{}, `CONFIG:2: retry_mode: "x" is not a retry mode` + modes + "\n" + `AWS_MAX_ATTEMPTS: "x" is not a number of attempts` + attempts},

		{"given twice", "[default]\nretry_mode = standard\nregion = x\nRetry_Mode = adaptive\n", nil, aws.Config{}, "CONFIG:2: retry_mode is given twice in this profile, again in line 4: give it one value, standard, legacy or adaptive, in lower case"},
		{"goes on", "[default]\nmax_attempts = 4\n\n  retry_mode = adaptive\n", nil, aws.Config{}, "CONFIG:2: max_attempts continues in line 4, which is indented: give it one value, a whole number, 1 or more"},
		{"no setting", "[default]\nretry_mode adaptive\n", nil, aws.Config{}, "CONFIG:2: this is not a setting (name = value), a [section] or a comment (#)"},
		{"no setting, in another profile", "[default]\n[profile x]\ntext\n", nil, aws.Config{}, "CONFIG:3: this is not a setting (name = value), a [section] or a comment (#)"},
		{"no name", "[default]\n= adaptive\n", nil, aws.Config{}, "CONFIG:2: this is not a setting (name = value), a [section] or a comment (#)"},
		{"open section", "[default]\nretry_mode = adaptive\n[profile x\n", nil, aws.Config{}, "CONFIG:3: this section header has no ]: add it"},
		{"before the sections", "# c\nretry_mode = adaptive\n", nil, aws.Config{}, "CONFIG:2: this setting stands before the first [section], so it is in no profile: move it below one"},
		{"BOM", "\ufeff[default]\nretry_mode = adaptive\n", nil, aws.Config{}, "CONFIG:1: the file starts with a byte order mark, which hides the first section from AWS SDKs: save the file without it"},
		{"Latin-1", "[default]\n# caf\xe9\n", nil, aws.Config{}, "CONFIG:2: this is not UTF-8 text: save the file as UTF-8"},
		{"UTF-16", "\xff\xfe[\x00d\x00", nil, aws.Config{}, "CONFIG:1: this is not UTF-8 text: save the file as UTF-8"},
		{"NUL", "[default]\n\x00\n", nil, aws.Config{}, "CONFIG:2: this is not a setting (name = value), a [section] or a comment (#)"},

		{"no profile of the code", "[dev]\n", nil, aws.Config{Profile: "dev"}, `Config.Profile: there is no profile "dev": neither [profile …] in CONFIG nor […] in CREDENTIALS (MISSING) has that name`},
		{"no profile of AWS_PROFILE", "[profile DEV]\n", map[string]string{"AWS_PROFILE": "dev"}, aws.Config{}, `AWS_PROFILE: there is no profile "dev": neither [profile …] in CONFIG nor […] in CREDENTIALS (MISSING) has that name`},
		{"no profile of AWS_DEFAULT_PROFILE", "", map[string]string{"AWS_DEFAULT_PROFILE": "default"}, aws.Config{}, `AWS_DEFAULT_PROFILE: there is no profile "default": neither [profile …] in CONFIG nor […] in CREDENTIALS (MISSING) has that name`},
		{"no home", "", map[string]string{"AWS_PROFILE": "dev", "AWS_CONFIG_FILE": "", "AWS_SHARED_CREDENTIALS_FILE": ""}, aws.Config{}, `AWS_PROFILE: there is no profile "dev": neither [profile …] in (no home directory) nor […] in (no home directory) has that name`},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := machine{env: row.env, config: &row.config}.on(t, dir, row.code).Load()
			require.Nil(t, s)
			_, missing := os.Open(credentialsPath(dir)) // each system has its words
			want := strings.NewReplacer("CONFIG", configPath(dir), "CREDENTIALS", credentialsPath(dir),
				"MISSING", errors.Unwrap(missing).Error()).Replace(row.want)
			require.EqualError(t, err, "aws: "+want)
		})
	}
}

// A line that can't be read, or was indented by mistake, may hold a secret.
func TestErrorsKeepSecrets(t *testing.T) {
	for _, credentials := range []string{
		"[default]\naws_secret_access_key s3cret\n",
		"[default]\nretry_mode = standard\n  aws_secret_access_key = s3cret\n",
		"aws_secret_access_key = s3cret\n",
	} {
		dir := t.TempDir()
		_, err := machine{credentials: &credentials}.on(t, dir, aws.Config{}).Load()
		require.ErrorContains(t, err, credentialsPath(dir)+":")
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestDirectoryForFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []aws.Config{{ConfigFile: dir}, {CredentialsFile: dir}} {
		_, err := machine{}.on(t, t.TempDir(), c).Load()
		require.ErrorContains(t, err, dir)
		var pathErr *fs.PathError
		require.ErrorAs(t, err, &pathErr)
	}
}

// A file that is there and can't be opened is an error that names it.
func TestFileThatCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c := machine{}.on(t, t.TempDir(), aws.Config{ConfigFile: filepath.Join(file, "below")})
	_, err := c.Load()
	require.ErrorContains(t, err, c.ConfigFile)
	require.ErrorContains(t, err, "not a directory")
}

func TestFileAboveTheLimitIsRefused(t *testing.T) {
	const limit = 8 << 20
	setting := "[default]\nmax_attempts = 5\n"
	config := setting + strings.Repeat("#", limit-len(setting))
	c := machine{config: &config}.on(t, t.TempDir(), aws.Config{})
	s, err := c.Load()
	require.NoError(t, err)
	require.Equal(t, 5, s.MaxAttempts)
	config += "#"
	dir := t.TempDir()
	_, err = machine{config: &config}.on(t, dir, aws.Config{}).Load()
	require.EqualError(t, err, "aws: "+configPath(dir)+" is larger than 8 MiB: is it a config file?")
}
