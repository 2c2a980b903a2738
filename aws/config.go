package aws

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/retrip-go/retrip"
)

// Config is what the program itself decides about the retry settings that AWS
// SDKs read from the environment and from files, and wins over them. The zero
// Config leaves everything to them. The package documentation has the rules.
type Config struct {
	// Mode is "standard", "legacy" or "adaptive". Empty leaves it to
	// AWS_RETRY_MODE and retry_mode.
	Mode string

	// MaxAttempts is how often a request is sent at most, the first time
	// included. 0 leaves it to AWS_MAX_ATTEMPTS and max_attempts; less is an
	// error.
	MaxAttempts int

	// Use2026 takes the parameters that AWS SDKs use since November 2026 for the
	// modes standard and adaptive: Standard2026 and Adaptive2026. Legacy has no
	// newer ones and stays as it is. No variable or file says this, since in them
	// "standard" has meant both.
	Use2026 bool

	// Profile names the profile. Empty leaves it to AWS_PROFILE and
	// AWS_DEFAULT_PROFILE. A profile named here or there must exist.
	Profile string

	// ConfigFile and CredentialsFile are paths, taken literally. Empty leaves
	// them to AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE, and those to
	// .aws/config and .aws/credentials in the home directory.
	ConfigFile, CredentialsFile string

	// Getenv looks up an environment variable; nil is os.Getenv. A variable
	// that is empty counts as not set. The home directory is $HOME, on Windows
	// $USERPROFILE; if that is not set and Getenv is nil, the user database is
	// asked (aws-sdk-go-v2, internal/shareddefaults).
	Getenv func(string) string
}

// Load reads the environment and the files, once, and returns a new strategy.
// Its settings may be changed before its first use; Clone makes more of it,
// each with a quota of its own, as Transport.PerKey wants them.
//
// An error names the variable, field, or file and line to look at; a setting
// of the wrong value also the value and what is allowed. If both settings are
// wrong it names both. Values that a better place overrides, and other
// profiles' values, are not checked.
func (c Config) Load() (*retrip.Strategy, error) {
	fromProfile, err := c.readProfile()
	if err != nil {
		return nil, fmt.Errorf("aws: %w", err)
	}

	inCode := setting{where: "Config.MaxAttempts"}
	if c.MaxAttempts != 0 {
		inCode.text = strconv.Itoa(c.MaxAttempts)
	}
	mode, err1 := firstSet(setting{text: c.Mode, where: "Config.Mode"},
		c.variable("AWS_RETRY_MODE"), fromProfile.mode).asMode()
	attempts, err2 := firstSet(inCode,
		c.variable("AWS_MAX_ATTEMPTS"), fromProfile.maxAttempts).asAttempts()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("aws: %w", err)
	}

	s := mode.Strategy()
	switch {
	case c.Use2026 && mode == retrip.ModeStandard:
		s = Standard2026()
	case c.Use2026 && mode == retrip.ModeAdaptive:
		s = Adaptive2026()
	}
	if attempts != 0 {
		s.MaxAttempts = attempts
	}
	return s, nil
}

func (c Config) getenv(name string) string {
	if c.Getenv == nil {
		return os.Getenv(name)
	}
	return c.Getenv(name)
}

func (c Config) variable(name string) setting {
	return setting{text: c.getenv(name), where: name}
}

// A setting is a value and the place it was found in. The zero setting is one
// that was not found.
type setting struct {
	text   string
	where  string // a Config field, a variable, or path:line: name
	inFile bool   // in a file an empty value is a value, and a wrong one
	flaw   string // why it has no one value; see reader
}

func firstSet(settings ...setting) setting {
	for _, s := range settings {
		if s.text != "" || s.inFile {
			return s
		}
	}
	return setting{}
}

// modes are the names that both SDKs or one of them know, in their spelling:
// not retrip.Mode's, which takes capitals.
var modes = map[string]retrip.Mode{
	"standard": retrip.ModeStandard,
	"legacy":   retrip.ModeLegacy,
	"adaptive": retrip.ModeAdaptive,
}

func (s setting) asMode() (retrip.Mode, error) {
	if s.where == "" {
		return retrip.ModeStandard, nil
	}
	if m, ok := modes[s.text]; ok && s.flaw == "" {
		return m, nil
	}
	return 0, s.wrong("is not a retry mode", "standard, legacy or adaptive, in lower case")
}

// attemptsForm is the decimal notation of both SDKs; the underscores are theirs.
var attemptsForm = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*$`)

// asAttempts returns 0 if the setting was not found.
func (s setting) asAttempts() (int, error) {
	if s.where == "" {
		return 0, nil
	}
	if s.flaw == "" && attemptsForm.MatchString(s.text) {
		// An error is one of range.
		if n, err := strconv.Atoi(strings.ReplaceAll(s.text, "_", "")); err == nil && n >= 1 {
			return n, nil
		}
	}
	return 0, s.wrong("is not a number of attempts", "a whole number, 1 or more")
}

// wrong shows only the beginning of a value, which may be a whole file.
func (s setting) wrong(what, allowed string) error {
	if s.flaw != "" {
		return fmt.Errorf("%s %s: give it one value, %s", s.where, s.flaw, allowed)
	}
	return fmt.Errorf("%s: %.60q %s: use %s", s.where, s.text, what, allowed)
}
