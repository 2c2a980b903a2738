package retrip

import (
	"bytes"
	"encoding/xml"
)

// maxCode is longer than any error code, and keeps a hostile one cheap.
const maxCode = 256

// xmlBodyCode finds the code in an XML document: the first of Error/Code,
// ErrorResponse/Error/Code and Response/Errors/Error/Code, namespaces ignored.
// A document that is not whole has none.
func xmlBodyCode(body []byte) string {
	_, code := xmlRootAndCode(body)
	return code
}

// xmlRootAndCode also returns the name of the outermost element, or nothing of
// a document that is not whole.
//
// It reads by itself because encoding/xml makes some fifty allocations of an
// error document; the fuzz target holds the two against each other.
func xmlRootAndCode(body []byte) (root, code string) {
	var (
		text  []byte // of the code
		found bool   // the code is complete
		path  = make([][]byte, 0, 8)
	)
	for {
		upTo := bytes.IndexByte(body, '<')
		if upTo < 0 {
			break
		}
		switch before := body[:upTo]; {
		case len(path) == 0 && len(bytes.TrimSpace(before)) > 0:
			return "", "" // text outside the document
		case !found && isCodePath(path):
			text = append(text, unescape(before)...)
		}
		if len(text) > maxCode {
			return "", ""
		}
		body = body[upTo:]
		tag, kind := xmlTag(body)
		switch kind {
		case brokenTag:
			return "", ""
		case cdataTag:
			if !found && isCodePath(path) {
				text = append(text, tag[len("<![CDATA["):len(tag)-len("]]>")]...)
			}
		case startTag, emptyTag:
			if len(path) == 0 && root != "" {
				return "", "" // a second document
			}
			path = append(path, tagName(tag[1:]))
			if root == "" {
				root = string(localName(path[0]))
			}
			if kind == emptyTag {
				found = found || isCodePath(path)
				path = path[:len(path)-1]
			}
		case endTag:
			if len(path) == 0 || !bytes.Equal(tagName(tag[2:]), path[len(path)-1]) {
				return "", ""
			}
			found = found || isCodePath(path)
			path = path[:len(path)-1]
		}
		body = body[len(tag):]
	}
	if len(path) > 0 || len(bytes.TrimSpace(body)) > 0 {
		return "", ""
	}
	return root, string(bytes.TrimSpace(text))
}

func isCodePath(path [][]byte) bool {
	switch len(path) {
	case 2:
		return is(path[0], "Error") && is(path[1], "Code")
	case 3:
		return is(path[0], "ErrorResponse") && is(path[1], "Error") && is(path[2], "Code")
	case 4:
		return is(path[0], "Response") && is(path[1], "Errors") && is(path[2], "Error") && is(path[3], "Code")
	}
	return false
}

func is(name []byte, local string) bool { return string(localName(name)) == local }

func localName(name []byte) []byte {
	if prefix, local, ok := bytes.Cut(name, []byte(":")); ok && len(prefix) > 0 && len(local) > 0 {
		return local
	}
	return name
}

type tagKind uint8

const (
	brokenTag tagKind = iota
	startTag
	emptyTag
	endTag
	cdataTag
	otherTag // comments and instructions
)

// xmlTag is what body, which begins with '<', has up to the end of that markup.
// A document type is broken: no error has one, and its entities are a trap.
func xmlTag(body []byte) (tag []byte, kind tagKind) {
	until := func(end string, kind tagKind) ([]byte, tagKind) {
		if i := bytes.Index(body, []byte(end)); i >= 0 {
			return body[:i+len(end)], kind
		}
		return nil, brokenTag
	}
	switch {
	case bytes.HasPrefix(body, []byte("<!--")):
		return until("-->", otherTag)
	case bytes.HasPrefix(body, []byte("<![CDATA[")):
		return until("]]>", cdataTag)
	case bytes.HasPrefix(body, []byte("<!")):
		return nil, brokenTag
	case bytes.HasPrefix(body, []byte("<?")):
		return until("?>", otherTag)
	case bytes.HasPrefix(body, []byte("</")):
		return until(">", endTag)
	}
	var quote byte
	for i := 1; i < len(body); i++ {
		switch c := body[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '\'':
			quote = c
		case c == '<':
			return nil, brokenTag
		case c == '>' && body[i-1] == '/':
			return body[:i+1], emptyTag
		case c == '>':
			return body[:i+1], startTag
		}
	}
	return nil, brokenTag
}

// tagName is the name that the inside of a tag begins with.
func tagName(inside []byte) []byte {
	if end := bytes.IndexAny(inside, " \t\r\n/>"); end >= 0 {
		return inside[:end]
	}
	return inside
}

// unescape undoes the character references of a text, which codes don't have.
func unescape(text []byte) []byte {
	if bytes.IndexByte(text, '&') < 0 {
		return text
	}
	var plain string
	if xml.Unmarshal([]byte("<x>"+string(text)+"</x>"), &plain) != nil {
		return nil
	}
	return []byte(plain)
}
