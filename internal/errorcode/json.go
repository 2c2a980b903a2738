package errorcode

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// codeNames are the members of an object that may hold a code, best first.
var codeNames = [...]string{"__type", "code", "Code"}

// inJSON finds the code in a JSON document: a non-empty string that its object has
// under one of codeNames, or that Error, an object in it, has under Code, as
// Alibaba Cloud's OSS writes it. A document that is cut off or no object has none.
// Names are compared as they are written, without undoing escapes.
//
// It goes through the document once and skips what is not a string or a bracket.
// encoding/json would take some twenty allocations for an error document.
func inJSON(document []byte) string {
	document = bytes.TrimSpace(document)
	var (
		codes       [len(codeNames) + 1][]byte // by rank; of several with one name, the last counts
		depth       int
		inError     bool   // the object at depth 2 is Error
		name, value []byte // of the member under way
	)
	if len(document) == 0 || document[0] != '{' {
		return ""
	}
	for i := 0; i < len(document); i++ {
		switch c := document[i]; c {
		case '"':
			length := stringLength(document[i:])
			if length < 0 {
				return ""
			}
			value = document[i : i+length]
			i += length - 1
		case ':':
			name, value = value, nil
		case '{', '[':
			if depth++; depth == 2 {
				if inError = c == '{' && string(name) == `"Error"`; inError {
					codes[len(codeNames)] = nil
				}
			}
			name, value = nil, nil
		case ',', '}', ']':
			if rank := codeRank(name); rank >= 0 && depth == 1 {
				codes[rank] = value
			} else if depth == 2 && inError && string(name) == `"Code"` {
				codes[len(codeNames)] = value
			}
			name, value = nil, nil
			if c != ',' {
				depth--
			}
			if depth == 0 && i < len(document)-1 {
				return "" // more than one document
			}
		}
	}
	if depth != 0 {
		return ""
	}
	for _, quoted := range codes {
		if code := bareCode(unquote(quoted)); code != "" {
			return code
		}
	}
	return ""
}

// codeRank is the place of a quoted name among codeNames, or -1.
func codeRank(quoted []byte) int {
	for rank, name := range codeNames {
		if len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name {
			return rank
		}
	}
	return -1
}

// stringLength is the length of the JSON string that a text begins with, quotes
// included, or -1 if it has no end. It looks at no byte twice, however many are
// escaped.
func stringLength(text []byte) int {
	for i, quote := 1, 0; ; {
		if quote < i {
			if i >= len(text) {
				return -1
			}
			next := bytes.IndexByte(text[i:], '"')
			if next < 0 {
				return -1
			}
			quote = i + next
		}
		escape := bytes.IndexByte(text[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
}

// unquote is the text of a JSON string, and nothing for another value.
func unquote(value []byte) []byte {
	if len(value) < 2 {
		return nil
	}
	if inside := value[1 : len(value)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return inside
	}
	var text string
	_ = json.Unmarshal(value, &text)
	return []byte(text)
}
