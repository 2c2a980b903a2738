package errorcode

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// inJSON finds the code in a JSON document: a non-empty string at its
// top named __type, code or Code, in this order, or else the Code in an object
// named Error, where Alibaba Cloud's OSS has it. A document that is not whole
// or not an object has none. encoding/json checks the document; it would decode
// it as well, for a few dozen allocations.
func inJSON(body []byte) string {
	body = bytes.TrimSpace(body)
	if !json.Valid(body) || body[0] != '{' {
		return ""
	}
	values := members(body)
	for _, value := range values[:nestedIn] {
		if code := bareCode(string(unquote(value))); code != "" {
			return code
		}
	}
	if nested := values[nestedIn]; len(nested) > 0 && nested[0] == '{' {
		return bareCode(string(unquote(members(nested)[plainCode])))
	}
	return ""
}

// The members that count, in the order of codeNames.
const (
	plainCode = 2 // Code
	nestedIn  = 3 // Error
)

var codeNames = [...]string{"__type", "code", "Code", "Error"}

// members returns the values of an object that have one of the codeNames.
func members(body []byte) (values [len(codeNames)][]byte) {
	for at := 1; ; {
		at += space(body[at:])
		if body[at] == '}' {
			return values
		}
		key := body[at : at+valueLength(body[at:])]
		at += len(key)
		at += space(body[at:])
		value := body[at : at+valueLength(body[at:])]
		at += len(value)
		if i := codeName(key); i >= 0 {
			values[i] = value // of several with one name, the last counts
		}
	}
}

// space is how many bytes of white space and punctuation a text begins with.
func space(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t\r\n:,")) }

// valueLength is the length of the value that valid JSON begins with.
func valueLength(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 { // the end of what a bare value stands in
				return i
			}
		case depth == 0 && strings.IndexByte(" \t\r\n:,", c) >= 0:
			return i
		}
	}
	return len(text)
}

// unquote is the text of a JSON string, and nothing for another value.
func unquote(value []byte) []byte {
	switch {
	case len(value) < 2 || value[0] != '"':
		return nil
	case bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value):
		return value[1 : len(value)-1]
	}
	var text string
	_ = json.Unmarshal(value, &text) // it is valid
	return []byte(text)
}

// codeName is the rank of a name that a code may have, or -1. It reads the
// quoted name by itself: a document may have thousands.
func codeName(quoted []byte) int {
	for rank, name := range codeNames {
		if isQuoted(quoted, name) {
			return rank
		}
	}
	return -1
}

// isQuoted reports whether a JSON string says name, whose characters can be
// escaped only by their numbers.
func isQuoted(quoted []byte, name string) bool {
	rest, ok := bytes.CutPrefix(quoted, []byte(`"`))
	for i := 0; ok && i < len(name); i++ {
		var escaped []byte
		if escaped, ok = bytes.CutPrefix(rest, []byte(`\u00`)); ok { // valid, so two digits follow
			n, _ := strconv.ParseUint(string(escaped[:2]), 16, 8)
			ok, rest = byte(n) == name[i], escaped[2:]
		} else if ok = len(rest) > 0 && rest[0] == name[i]; ok {
			rest = rest[1:]
		}
	}
	return ok && string(rest) == `"`
}
