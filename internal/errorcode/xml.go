package errorcode

import "bytes"

// maxDepth is deeper than any error document, most of which have two levels. Our
// choice.
const maxDepth = 100

// xmlPlace is where an element stands on the way to a code.
type xmlPlace uint8

const (
	outside    xmlPlace = iota // of the document
	elsewhere                  // in it
	inError                    // Error, whose Code counts
	inErrors                   // ErrorResponse or Errors, whose Error counts
	inResponse                 // Response, whose Errors count
	inCode
)

// inside is the place of an element of this name, without its prefix, in one at p.
func (p xmlPlace) inside(local []byte) xmlPlace {
	switch name, top := string(local), p == outside; {
	case name == "Code" && p == inError:
		return inCode
	case name == "Error" && (top || p == inErrors):
		return inError
	case name == "Errors" && p == inResponse, name == "ErrorResponse" && top:
		return inErrors
	case name == "Response" && top:
		return inResponse
	}
	return elsewhere
}

// InXML returns the name of the outermost element of an XML document and the
// first code at Error/Code, ErrorResponse/Error/Code or
// Response/Errors/Error/Code, namespaces ignored. A document that is cut off has
// neither. A code is plain text, perhaps in CDATA: if it has references or elements
// in it, there is none.
//
// It doesn't use encoding/xml, which makes some fifty allocations for an error
// document. The fuzz target compares the two.
func InXML(document []byte) (root, code string) {
	var (
		found bool                     // the first code
		text  []byte                   // of it
		path  = make([]xmlPlace, 1, 8) // of the open elements
	)
	for {
		before, rest, more := bytes.Cut(document, []byte("<"))
		at := path[len(path)-1]
		switch {
		case at == outside && len(bytes.TrimSpace(before)) > 0, at != outside && !more:
			return "", ""
		case !more:
			return root, code
		}
		length, kind := xmlTag(rest)
		if at == inCode && !found {
			text = appendTo(text, before)
		}
		switch kind {
		case brokenTag:
			return "", ""
		case startTag, emptyTag:
			if at == outside && root != "" || len(path) > maxDepth {
				return "", "" // a second document, or none that an error has
			}
			name := localName(rest[:length])
			place := at.inside(name)
			if at == outside {
				root = string(name)
			}
			if kind == startTag {
				path = append(path, place)
			}
			found = found || at == inCode || kind == emptyTag && place == inCode
		case otherTag:
			found = found || at == inCode
		case cdataTag:
			if at == inCode && !found {
				text = appendTo(text, rest[len("![CDATA["):length-len("]]>")])
			}
		case endTag:
			if at == outside {
				return "", ""
			}
			if at == inCode && !found {
				found, code = true, plainText(text)
			}
			path = path[:len(path)-1]
		}
		document = rest[length:]
	}
}

// appendTo is append, but takes the first piece as it is.
func appendTo(text, piece []byte) []byte {
	if len(text) == 0 {
		return piece[:len(piece):len(piece)]
	}
	return append(text, piece...)
}

// plainText is a text that is short enough for a code and has no references in it,
// which codes don't have.
func plainText(text []byte) string {
	if text = bytes.TrimSpace(text); len(text) > maxCode || bytes.IndexByte(text, '&') >= 0 {
		return ""
	}
	return string(text)
}

// localName is the name that the inside of a tag begins with, without its prefix.
func localName(inside []byte) []byte {
	name := inside[:bytes.IndexAny(inside, " \t\r\n/>")]
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

// xmlTag says what markup is, which begins after its '<', and how long up to its
// end. A document type is broken: no error has one, and its entities are a trap.
func xmlTag(markup []byte) (length int, kind tagKind) {
	upTo := func(end string, kind tagKind) (int, tagKind) {
		if i := bytes.Index(markup, []byte(end)); i >= 0 {
			return i + len(end), kind
		}
		return 0, brokenTag
	}
	switch {
	case bytes.HasPrefix(markup, []byte("/")):
		return upTo(">", endTag)
	case bytes.HasPrefix(markup, []byte("?")):
		return upTo("?>", otherTag)
	case bytes.HasPrefix(markup, []byte("!--")):
		return upTo("-->", otherTag)
	case bytes.HasPrefix(markup, []byte("![CDATA[")):
		return upTo("]]>", cdataTag)
	case bytes.HasPrefix(markup, []byte("!")):
		return 0, brokenTag
	}
	for i := 0; ; i++ {
		next := bytes.IndexAny(markup[i:], `"'<>`)
		if next < 0 {
			return 0, brokenTag
		}
		switch i += next; {
		case markup[i] == '<':
			return 0, brokenTag
		case markup[i] == '>' && i > 0 && markup[i-1] == '/':
			return i + 1, emptyTag
		case markup[i] == '>':
			return i + 1, startTag
		}
		quoted := bytes.IndexByte(markup[i+1:], markup[i])
		if quoted < 0 {
			return 0, brokenTag
		}
		i += 1 + quoted
	}
}
