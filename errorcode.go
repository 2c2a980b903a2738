package retrip

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
)

// headerCode finds the error code in the headers of a response of AWS.
// X-Amzn-Query-Error comes first: services that once spoke another protocol
// put the code there that their old clients know.
func headerCode(h http.Header) string {
	if code, fault, ok := strings.Cut(h.Get("X-Amzn-Query-Error"), ";"); ok && (fault == "Sender" || fault == "Receiver") {
		if code = bareCode(code); code != "" {
			return code
		}
	}
	return bareCode(h.Get("X-Amzn-Errortype"))
}

// bareCode cuts a code out of "namespace#Code:http://more".
func bareCode(s string) string {
	s, _, _ = strings.Cut(s, ":")
	if _, after, ok := strings.Cut(s, "#"); ok {
		s = after
	}
	return strings.TrimSpace(s)
}

// jsonBodyCode finds the code in a JSON document: a non-empty string at its
// top named __type, code or Code, in this order. A document that is not whole
// or not an object has none.
func jsonBodyCode(body []byte) string {
	var document map[string]json.RawMessage // a struct would match names whatever their case
	if json.Unmarshal(body, &document) != nil {
		return ""
	}
	for _, name := range [...]string{"__type", "code", "Code"} {
		var code string
		if json.Unmarshal(document[name], &code) == nil && bareCode(code) != "" {
			return bareCode(code)
		}
	}
	return ""
}

// xmlBodyCode finds the code in an XML document: the first of Error/Code,
// ErrorResponse/Error/Code and Response/Errors/Error/Code, namespaces ignored.
// A document that is not whole has none.
func xmlBodyCode(body []byte) string {
	_, code := xmlRootAndCode(body)
	return code
}

// xmlRootAndCode also returns the name of the outermost element, or nothing of
// a document that is not whole.
func xmlRootAndCode(body []byte) (root, code string) {
	var (
		decoder = xml.NewDecoder(bytes.NewReader(body))
		path    = make([]string, 0, 8) // of the element we are in
		text    []byte                 // of the code
		found   bool                   // the code is complete
	)
	for {
		token, err := decoder.Token()
		switch {
		case err == io.EOF:
			return root, string(bytes.TrimSpace(text))
		case err != nil:
			return "", ""
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			root = path[0]
		case xml.EndElement:
			found = found || isCodePath(path)
			path = path[:len(path)-1]
		case xml.CharData:
			if !found && isCodePath(path) {
				text = append(text, token...)
			}
		}
	}
}

func isCodePath(path []string) bool {
	switch len(path) {
	case 2:
		return path[0] == "Error" && path[1] == "Code"
	case 3:
		return path[0] == "ErrorResponse" && path[1] == "Error" && path[2] == "Code"
	case 4:
		return path[0] == "Response" && path[1] == "Errors" && path[2] == "Error" && path[3] == "Code"
	}
	return false
}
