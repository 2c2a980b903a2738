package errorcode

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// maxDepth is deeper than any error document, most of which have two levels. Our
// choice.
const maxDepth = 100

// xmlPlace is where an element stands on the way to a code.
type xmlPlace uint8

const (
	elsewhere  xmlPlace = iota
	inError             // Error, whose Code counts
	inErrors            // ErrorResponse or Errors, whose Error counts
	inResponse          // Response, whose Errors count
	inCode
)

// inside is the place of an element in an element at p; top is in none.
func (p xmlPlace) inside(local []byte, top bool) xmlPlace {
	switch name := string(local); {
	case p == inError && name == "Code":
		return inCode
	case p == inErrors && name == "Error", top && name == "Error":
		return inError
	case p == inResponse && name == "Errors", top && name == "ErrorResponse":
		return inErrors
	case top && name == "Response":
		return inResponse
	}
	return elsewhere
}

// An xmlElement is one that has begun and not ended.
type xmlElement struct {
	name  []byte
	place xmlPlace
}

// InXML returns the name of the outermost element of an XML document and the
// first code at Error/Code, ErrorResponse/Error/Code or
// Response/Errors/Error/Code, namespaces ignored. An incomplete document has
// neither.
//
// It doesn't use encoding/xml, which makes some fifty allocations for an error
// document. The fuzz target compares the two.
func InXML(body []byte) (root, code string) {
	var (
		text  []byte // of the code
		found bool   // the code is complete
		path  = make([]xmlElement, 1, 8)
	)
	for {
		upTo := bytes.IndexByte(body, '<')
		if upTo < 0 {
			break
		}
		last, before := path[len(path)-1], body[:upTo]
		reading, ok := last.place == inCode && !found, true
		switch {
		case len(path) == 1 && len(bytes.TrimSpace(before)) > 0:
			return "", "" // text outside the document
		case reading:
			text, ok = unescape(text, before)
		}
		tag, kind := xmlTag(body[upTo:])
		switch {
		case kind == brokenTag, !ok:
			return "", ""
		case kind == cdataTag && reading:
			text = append(text, tag[len("<![CDATA["):len(tag)-len("]]>")]...)
		case kind == startTag, kind == emptyTag:
			if len(path) == 1 && root != "" || len(path) > maxDepth {
				return "", "" // a second document, or none that an error has
			}
			name := tagName(tag[1:])
			local := localName(name)
			if root == "" {
				root = string(local)
			}
			place := last.place.inside(local, len(path) == 1)
			if kind == startTag {
				path = append(path, xmlElement{name, place})
			} else if place == inCode {
				found = true
			}
		case kind == endTag:
			if len(path) == 1 || !bytes.Equal(tagName(tag[2:]), last.name) {
				return "", ""
			}
			found = found || reading
			path = path[:len(path)-1]
		}
		if len(text) > maxCode {
			return "", ""
		}
		body = body[upTo+len(tag):]
	}
	if len(path) > 1 || len(bytes.TrimSpace(body)) > 0 {
		return "", ""
	}
	return root, string(bytes.TrimSpace(text))
}

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
	for i := 1; ; i++ {
		next := bytes.IndexAny(body[i:], `"'<>`)
		if next < 0 {
			return nil, brokenTag
		}
		switch i += next; body[i] {
		case '<':
			return nil, brokenTag
		case '>':
			if body[i-1] == '/' {
				return body[:i+1], emptyTag
			}
			return body[:i+1], startTag
		}
		end := bytes.IndexByte(body[i+1:], body[i]) // of what is quoted
		if end < 0 {
			return nil, brokenTag
		}
		i += 1 + end
	}
}

// tagName is the name that the inside of a tag begins with.
func tagName(inside []byte) []byte {
	if end := bytes.IndexAny(inside, " \t\r\n/>"); end >= 0 {
		return inside[:end]
	}
	return inside
}

// unescape appends a text with its references resolved, which codes don't have,
// as far as a code may be long. A reference to nothing makes it not ok.
func unescape(to, text []byte) (_ []byte, ok bool) {
	for {
		plain, rest, escaped := bytes.Cut(text, []byte("&"))
		if to = append(to, plain[:min(len(plain), maxCode+1)]...); !escaped || len(to) > maxCode {
			return to, true
		}
		name, rest, ok := bytes.Cut(rest, []byte(";"))
		r := reference(name)
		if !ok || r < 0 {
			return to, false
		}
		to, text = utf8.AppendRune(to, r), rest
	}
}

// reference is the character that XML 1.0 (4.1 and 4.6) calls by a name or a
// number, or -1.
func reference(name []byte) rune {
	switch string(name) {
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "amp":
		return '&'
	case "apos":
		return '\''
	case "quot":
		return '"'
	}
	base, digits := 10, bytes.TrimPrefix(name, []byte("#"))
	if len(digits) == len(name) {
		return -1
	}
	if hex, ok := bytes.CutPrefix(digits, []byte("x")); ok {
		base, digits = 16, hex
	}
	n, err := strconv.ParseUint(string(digits), base, 32)
	if err != nil || n > utf8.MaxRune {
		return -1
	}
	return rune(n)
}
