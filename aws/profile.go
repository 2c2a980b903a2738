package aws

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
)

// maxFileSize bounds what is read of a file: some ten thousand profiles. Our
// choice, so that a path to a device ends with an error.
const maxFileSize = 8 << 20

// A profile is what the two files say about retries.
type profile struct{ mode, maxAttempts setting }

// bareDefault stands for [default] in the config file, beside which [profile
// default] is another section, and the better one. No profile has this name.
const bareDefault = ""

func (c Config) readProfile() (profile, error) {
	name := firstSet(setting{text: c.Profile, where: "Config.Profile"},
		c.variable("AWS_PROFILE"), c.variable("AWS_DEFAULT_PROFILE"))
	wanted := name.text
	if wanted == "" {
		wanted = "default"
	}

	configPath := c.path(c.ConfigFile, "AWS_CONFIG_FILE", "config")
	inConfig, missing1, err := readFile(configPath, configProfile)
	if err != nil {
		return profile{}, err
	}
	credentialsPath := c.path(c.CredentialsFile, "AWS_SHARED_CREDENTIALS_FILE", "credentials")
	inCredentials, missing2, err := readFile(credentialsPath, credentialsProfile)
	if err != nil {
		return profile{}, err
	}

	config, credentials := inConfig[wanted], inCredentials[wanted]
	if config == nil && wanted == "default" {
		config = inConfig[bareDefault]
	}
	if config == nil && credentials == nil && name.text != "" {
		return profile{}, fmt.Errorf("%s: there is no profile %.60q: neither [profile …] in %s nor […] in %s has that name",
			name.where, wanted, lookedAt(configPath, missing1), lookedAt(credentialsPath, missing2))
	}
	config, credentials = cmp.Or(config, &profile{}), cmp.Or(credentials, &profile{})
	return profile{
		mode:        firstSet(credentials.mode, config.mode),
		maxAttempts: firstSet(credentials.maxAttempts, config.maxAttempts),
	}, nil
}

// path is where a file is looked for, or "" if there is no home directory.
func (c Config) path(inCode, variable, inHome string) string {
	if inCode != "" {
		return inCode
	}
	if path := c.getenv(variable); path != "" {
		return path
	}
	home := c.home()
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".aws", inHome)
}

func (c Config) home() string {
	variable := "HOME"
	if runtime.GOOS == "windows" {
		variable = "USERPROFILE"
	}
	if home := c.getenv(variable); home != "" || c.Getenv != nil {
		return home
	}
	if u, err := user.Current(); err == nil {
		return u.HomeDir
	}
	return ""
}

// readFile reads the profiles of a file. One that does not exist is missing, as
// for both SDKs. One that may not be read is an error, where they pretend that
// it is missing: our choice, since settings that silently don't count are worse.
func readFile(path string, profileOf func(header string) (string, bool)) (profiles map[string]*profile, missing, err error) {
	if path == "" {
		return nil, errors.New("no home directory"), nil
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err, nil
	case err != nil:
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil { // it names the path; a directory, for one
		return nil, nil, err
	}
	if len(data) > maxFileSize {
		return nil, nil, fmt.Errorf("%s is larger than %d MiB: is it a config file?", path, maxFileSize>>20)
	}
	profiles, err = parse(path, string(data), profileOf)
	return profiles, nil, err
}

// lookedAt is a path, and why nothing was found there.
func lookedAt(path string, missing error) string {
	if missing == nil {
		return path
	}
	if path == "" {
		return fmt.Sprintf("(%v)", missing)
	}
	return fmt.Sprintf("%s (%v)", path, errors.Unwrap(missing))
}

// configProfile is the profile that a section of the config file is about, if
// it is about one: [profile name], [profile "name"] or [default].
func configProfile(header string) (string, bool) {
	kind, name := cutBlank(header)
	if kind == "default" && name == "" {
		return bareDefault, true
	}
	name = unquote(name)
	return name, kind == "profile" && name != ""
}

// credentialsProfile does the same for the credentials file, where the header
// is the name, and [profile name] is none.
func credentialsProfile(header string) (string, bool) {
	kind, rest := cutBlank(header)
	return header, header != "" && (kind != "profile" || rest == "")
}

// cutBlank splits a section header after its first word.
func cutBlank(s string) (first, rest string) {
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}
