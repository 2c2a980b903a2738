package retrip

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// headerCode finds the error code in the headers of a response of AWS.
// X-Amzn-Query-Error comes first: services that once spoke another protocol
// put the code there that their old clients know.
func headerCode(h http.Header) string {
	if value := headerValue(h, "X-Amzn-Query-Error"); value != "" {
		if code, fault, _ := strings.Cut(value, ";"); fault == "Sender" || fault == "Receiver" {
			if code = bareCode(code); code != "" {
				return code
			}
		}
	}
	if value := headerValue(h, "X-Amzn-Errortype"); value != "" {
		return bareCode(value)
	}
	return ""
}

// ossHeadCode finds the error code of an answer of Alibaba Cloud's OSS that has
// no body, as to a HEAD: the XML document is then in a header, in base 64.
func ossHeadCode(a *Attempt) string {
	document := headerValue(a.Response.Header, "X-Oss-Err")
	if document == "" || base64.StdEncoding.DecodedLen(len(document)) > readAhead ||
		a.Request.Method != http.MethodHead && a.Response.ContentLength != 0 {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(document)
	if err != nil {
		return ""
	}
	return xmlBodyCode(text)
}

// bareCode cuts a code out of "namespace#Code:http://more", and copies it: the
// rest may be long, and errors and events keep the code.
func bareCode(s string) string {
	s, _, _ = strings.Cut(s, ":")
	if _, after, ok := strings.Cut(s, "#"); ok {
		s = after
	}
	if s = strings.TrimSpace(s); len(s) > maxCode {
		return ""
	}
	return strings.Clone(s)
}

// jsonBodyCode finds the code in a JSON document: a non-empty string at its
// top named __type, code or Code, in this order. A document that is not whole
// or not an object has none. encoding/json checks the document; it would decode
// it as well, for a few dozen allocations.
func jsonBodyCode(body []byte) string {
	body = bytes.TrimSpace(body)
	if !json.Valid(body) || body[0] != '{' {
		return ""
	}
	var values [3][]byte // of the three names
	for at := 1; ; {
		at += space(body[at:])
		if body[at] == '}' {
			break
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
	for _, value := range values {
		if code := bareCode(string(unquote(value))); code != "" {
			return code
		}
	}
	return ""
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
	for rank, name := range [...]string{"__type", "code", "Code"} {
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
