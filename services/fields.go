package services

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file reads structured fields (RFC 9651, section 4.2) as far as
// RateLimit needs it: a List of Items. Values other than integers are checked
// and skipped, and so are Parameters but r and t.

// A member is one Item of the List.
type member struct {
	name, r, t bare
}

// A bare is a bare item.
type bare struct {
	kind kind
	n    int64 // of an integer
}

type kind uint8

const (
	none kind = iota
	integerKind
	stringKind
	otherKind
)

// isCount reports whether the value is a non-negative integer.
func (b bare) isCount() bool { return b.kind == integerKind && b.n >= 0 }

// eachMember calls do for each member of a List until it returns false, and
// reports whether the List is well-formed and do agreed to all of it. Nothing
// is kept, so that a huge field costs no memory.
func eachMember(field string, do func(member) bool) bool {
	s := &scanner{strings.Trim(field, " ")}
	for s.rest != "" {
		m, ok := s.member()
		if !ok || !do(m) {
			return false
		}
		s.skipAll(" \t")
		if s.rest == "" {
			return true
		}
		if !s.skip(",") {
			return false
		}
		s.skipAll(" \t")
		if s.rest == "" {
			return false // a comma at the end
		}
	}
	return true
}

// A scanner takes what it knows from the beginning of rest. Its methods return
// ok == false where parsing fails.
type scanner struct{ rest string }

func (s *scanner) skip(piece string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, piece)
	return ok
}

func (s *scanner) skipAll(chars string) { s.rest = strings.TrimLeft(s.rest, chars) }

// take takes characters as long as they are wanted.
func (s *scanner) take(wanted func(byte) bool) string {
	n := 0
	for n < len(s.rest) && wanted(s.rest[n]) {
		n++
	}
	taken := s.rest[:n]
	s.rest = s.rest[n:]
	return taken
}

// member is 4.2.3, an Item with its Parameters. Of several Parameters with the
// same key the last counts. (4.2.1.2, an Inner List, is no limit.)
func (s *scanner) member() (m member, ok bool) {
	if m.name, ok = s.bare(); !ok {
		return m, false
	}
	for s.skip(";") {
		s.skipAll(" ")
		if s.rest == "" || !isLower(s.rest[0]) && s.rest[0] != '*' {
			return m, false
		}
		key := s.take(isKeyChar)
		value := bare{kind: otherKind} // no value is the boolean true
		if s.skip("=") {
			if value, ok = s.bare(); !ok {
				return m, false
			}
		}
		switch key {
		case "r":
			m.r = value
		case "t":
			m.t = value
		}
	}
	return m, true
}

// bare is 4.2.3.1.
func (s *scanner) bare() (bare, bool) {
	if s.rest == "" {
		return bare{}, false
	}
	other := bare{kind: otherKind}
	switch c := s.rest[0]; {
	case c == '-', isDigit(c):
		return s.number()
	case s.skip(`"`):
		return bare{kind: stringKind}, s.quoted()
	case c == '*', isAlpha(c):
		s.take(isTokenChar)
		return other, true
	case s.skip(":"):
		return other, s.bytes()
	case s.skip("?"):
		return other, s.skip("0") || s.skip("1")
	case s.skip("@"): // a date
		n, ok := s.number()
		return other, ok && n.kind == integerKind
	case s.skip(`%"`):
		return other, s.display()
	default:
		return other, false
	}
}

// number is 4.2.4: an integer of up to 15 digits, or a decimal of up to 12 and
// 3 digits.
func (s *scanner) number() (bare, bool) {
	negative := s.skip("-")
	whole := s.take(isDigit)
	if s.skip(".") {
		fraction := len(s.take(isDigit))
		return bare{kind: otherKind}, 1 <= len(whole) && len(whole) <= 12 && 1 <= fraction && fraction <= 3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if negative {
		n = -n
	}
	return bare{integerKind, n}, err == nil && len(whole) <= 15
}

// quoted is 4.2.5, a string behind its opening quote.
func (s *scanner) quoted() bool {
	for {
		s.take(func(c byte) bool { return isPrintable(c) && c != '"' && c != '\\' })
		if !s.skip(`\"`) && !s.skip(`\\`) {
			return s.skip(`"`)
		}
	}
}

// bytes is 4.2.7, a byte sequence behind its opening colon. Base64 may be
// without its padding.
func (s *scanner) bytes() bool {
	text := s.take(func(c byte) bool { return isAlpha(c) || isDigit(c) || c == '+' || c == '/' || c == '=' })
	_, padded := base64.StdEncoding.DecodeString(text)
	_, unpadded := base64.RawStdEncoding.DecodeString(text)
	return (padded == nil || unpadded == nil) && s.skip(":")
}

// display is 4.2.10, a display string behind its opening quote.
func (s *scanner) display() bool {
	var text []byte
	for {
		text = append(text, s.take(func(c byte) bool { return isPrintable(c) && c != '"' && c != '%' })...)
		if !s.skip("%") {
			return s.skip(`"`) && utf8.Valid(text)
		}
		if len(s.rest) < 2 || strings.ToLower(s.rest[:2]) != s.rest[:2] {
			return false
		}
		octet, err := hex.DecodeString(s.rest[:2])
		if err != nil {
			return false
		}
		text, s.rest = append(text, octet...), s.rest[2:]
	}
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isLower(c byte) bool     { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool     { return isLower(c | 0x20) }
func isPrintable(c byte) bool { return ' ' <= c && c <= '~' }

func isKeyChar(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }

func isTokenChar(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
