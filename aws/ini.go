package aws

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The files are read by hand, not by an INI library. The format is what two
// SDKs do, not what INI is: indented blocks that may repeat our setting names,
// comments after a value only behind a blank, quoted profile names, an error
// that names the line, lines that must not be ignored. A library would have to
// be configured into that or corrected afterwards, and would be a dependency
// of all users of this module. Only two settings of one section are needed here.

// parse reads the settings about retries of all profiles of a file. profileOf
// tells which profile a section header is about.
func parse(path, data string, profileOf func(header string) (string, bool)) (map[string]*profile, error) {
	r := reader{path: path, profileOf: profileOf, profiles: map[string]*profile{}}
	if strings.HasPrefix(data, "\ufeff") {
		return nil, r.bad("the file starts with a byte order mark, which hides the first section from AWS SDKs: save the file without it")
	}
	data = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
	for line := range strings.SplitSeq(data, "\n") {
		if err := r.read(line); err != nil {
			return nil, err
		}
		r.line++
	}
	return r.profiles, nil
}

// A reader holds the place in a file.
type reader struct {
	path      string
	line      int // lines before this one
	profileOf func(header string) (string, bool)
	profiles  map[string]*profile

	inSection bool
	current   *profile // the section's; nil if it is about none
	key       string   // the setting above, "" at the top of a section
	indent    int      // of that setting
}

func (r *reader) read(line string) error {
	if !utf8.ValidString(line) {
		return r.bad("this is not UTF-8 text: save the file as UTF-8")
	}
	text := strings.TrimSpace(line)
	if text == "" || text[0] == '#' || text[0] == ';' {
		return nil
	}
	if text[0] == '[' && strings.Contains(text, "]") {
		r.startSection(text)
		return nil
	}
	if !r.inSection {
		return r.bad("this setting stands before the first [section], so it is in no profile: move it below one")
	}
	// Python's configparser counts like this; aws-sdk-go-v2 takes any
	// indentation for one. They differ in settings all indented alike.
	indent := len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
	if r.key != "" && indent > r.indent {
		r.continueSetting()
		return nil
	}
	// The line is not shown: in a credentials file it may be a secret.
	sep := strings.IndexAny(text, "=:")
	if sep < 0 && text[0] == '[' {
		return r.bad("this section header has no ]: add it")
	}
	if sep < 1 {
		return r.bad("this is not a setting (name = value), a [section] or a comment (#)")
	}
	r.key, r.indent = strings.ToLower(strings.TrimSpace(text[:sep])), indent
	r.set(value(text[sep+1:]))
	return nil
}

// startSection reads a line like "[name] # comment". The ] is the first that
// ends the line but for a comment, or else the last one.
func (r *reader) startSection(text string) {
	end := strings.LastIndexByte(text, ']')
	for i := range len(text) {
		if text[i] != ']' {
			continue
		}
		if rest := strings.TrimSpace(text[i+1:]); rest == "" || rest[0] == '#' || rest[0] == ';' {
			end = i
			break
		}
	}
	r.inSection, r.key, r.current = true, "", nil
	if name, ok := r.profileOf(strings.TrimSpace(text[1:end])); ok {
		if r.profiles[name] == nil {
			r.profiles[name] = &profile{}
		}
		r.current = r.profiles[name]
	}
}

// ours is the setting r is at if it is one of the two, and of a profile.
func (r *reader) ours() (s *setting, ok bool) {
	switch {
	case r.current == nil:
		return nil, false
	case r.key == "retry_mode":
		return &r.current.mode, true
	case r.key == "max_attempts":
		return &r.current.maxAttempts, true
	}
	return nil, false
}

func (r *reader) set(text string) {
	s, ok := r.ours()
	switch {
	case !ok:
	case s.inFile:
		s.flaw = fmt.Sprintf("is given twice in this profile, again in line %d", r.line+1)
	default:
		*s = setting{text: text, where: fmt.Sprintf("%s:%d: %s", r.path, r.line+1, r.key), inFile: true}
	}
}

// continueSetting notes an indented line. It belongs to the setting above, as
// sub-property or continuation, and neither of ours can have any. It may hold
// a secret whose line was indented by mistake, so it is not made part of the
// value, which an error would show.
func (r *reader) continueSetting() {
	if s, ok := r.ours(); ok {
		s.flaw = fmt.Sprintf("continues in line %d, which is indented", r.line+1)
	}
}

// bad returns an error about the line.
func (r *reader) bad(what string) error {
	return fmt.Errorf("%s:%d: %s", r.path, r.line+1, what)
}

// value is what stands behind the separator: without the comment, which needs
// a blank before it, without blanks and without a pair of quotes
// (aws-sdk-go-v2, internal/ini/strings.go).
func value(text string) string {
	for i := 1; i < len(text); i++ {
		if (text[i] == '#' || text[i] == ';') && (text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
			break
		}
	}
	return unquote(strings.TrimSpace(text))
}

// unquote takes off one pair of quotes. A quote alone is no pair.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[0] == s[len(s)-1] {
		return s[1 : len(s)-1]
	}
	return s
}
