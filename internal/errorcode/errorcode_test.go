package errorcode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/testkit"
)

func TestHeaderCode(t *testing.T) {
	tests := []struct{ query, errorType, want string }{
		{"", "", ""},
		{"", "ThrottlingException", "ThrottlingException"},
		{"", "ns#ThrottlingException:http://x/#y", "ThrottlingException"},
		{"", "  ThrottlingException  ", "ThrottlingException"},
		{"A;Sender", "B", "A"},
		{"A;Receiver", "", "A"},
		{";Sender", "B", "B"},
		{"A;Sender;x", "B", "B"},
		{"A", "B", "B"},
	}
	for _, tt := range tests {
		h := http.Header{}
		h.Set("x-amzn-query-error", tt.query)
		h.Set("x-amzn-ErrorType", tt.errorType)
		require.Equal(t, tt.want, awsCode(h), "%+v", tt)
	}
}

func TestBodyCodes(t *testing.T) {
	for body, want := range map[string]string{
		`{"__type":"a#B:c"}`:                    "B",
		`{"code":"C","__type":"T"}`:             "T",
		`{"Code":"D"}`:                          "D",
		`{"CODE":"D"}`:                          "",
		`{"code":429,"Code":"D"}`:               "D",
		`{"__type":null,"code":""}`:             "",
		`{"__type":"First","__type":"Last"}`:    "Last",
		`{"__type":"Cut`:                        "",
		`["Code"]`:                              "",
		` {"code":"X"} trailing`:                "",
		`{"error":{"code":"Nested"}}`:           "",
		`{"Error":{"Code":"Nested"}}`:           "Nested",
		`{"Error":{"Code":"N"},"code":"Top"}`:   "Top",
		`{"Error":[{"Code":"N"}]}`:              "",
		`{"x":{"Error":{"Code":"N"}}}`:          "",
		`{"x":["Code",{"Code":"N"}]}`:           "",
		`{"a":"\\\"}","Code":"E\u0041"}`:        "EA",
		`{"C\u006fde":"escaped name"}`:          "",
		`{"Error":{"Code":"a#B:c","x":1}}`:      "B",
		`{"Error":{"Code":"N"},"Code":"Top"}`:   "Top",
		`{"Error":{"Code":"N"},"code":7}`:       "N",
		`{"Error":{"code":"N"}}`:                "",
		`{"Error":{"Error":{"Code":"Deeper"}}}`: "",
		`{"Error":"Code"}`:                      "",
		`{"Error":{"Code":"N"},"Error":{}}`:     "",
		`{"Errors":{"Code":"N"}}`:               "",
		`{"Code":"A"}{"Code":"B"}`:              "",
	} {
		require.Equal(t, want, inJSON([]byte(body)), body)
	}
	for body, want := range map[string]string{
		`<Error><Code>A</Code></Error>`:                                                                    "A",
		`<Error xmlns="urn:x"><Message>Code</Message><Code> A </Code></Error>`:                             "A",
		`<Error><Code>A&amp;B</Code></Error>`:                                                              "",
		`<Error><Code>A<!-- x --></Code><Code>B</Code></Error>`:                                            "",
		`<ErrorResponse><Error><Code>A</Code></Error></ErrorResponse>`:                                     "A",
		`<Error><Code><![CDATA[A]]></Code></Error>`:                                                        "A",
		`<Error><Code>A<![CDATA[B]]>C</Code></Error>`:                                                      "ABC",
		`<Error><Code><![CDATA[` + strings.Repeat("A", maxCode+1) + `]]></Code></Error>`:                   "",
		`<Response><Errors><Error><Code>A</Code></Error><Error><Code>B</Code></Error></Errors></Response>`: "A",
		`<Error><Code></Code><Code>B</Code></Error>`:                                                       "",
		`<Error><Code>A`:                                                           "",
		`<Error><Code>A</Code>`:                                                    "",
		`<a/><Error><Code>A</Code></Error>`:                                        "",
		`junk<Error><Code>A</Code></Error>`:                                        "",
		`<Error><Code>A</Code></Error>junk`:                                        "",
		`<Error><Code>` + strings.Repeat("A", maxCode+1) + `</Code></Error>`:       "",
		`<error><code>A</code></error>`:                                            "",
		`<DeleteResult><Error><Code>A</Code></Error></DeleteResult>`:               "",
		`<Error><Detail><Code>A</Code></Detail></Error>`:                           "",
		`<?xml version="1.0" encoding="ISO-8859-1"?><Error><Code>A</Code></Error>`: "A",
		"  <?xml version=\"1.0\"?>\n<Error><Code>A</Code></Error>\n":               "A",
		`<!DOCTYPE x [<!ENTITY e "A">]><Error><Code>&e;</Code></Error>`:            "",
	} {
		require.Equal(t, want, XML.InBody([]byte(body)), body)
	}
}

// What encoding/json and encoding/xml make of a document decides what its code
// is; they only take longer. Of names and codes in an escaped form ours says
// nothing, and it does not look for every error in a document.
func FuzzBodyCodes(f *testing.F) {
	f.Add(`{"__type":"a#B:c","code":"C"}`)
	f.Add(`{"_type":"T\u0041","x":{"code":["}"]},"Code":1.5e3,"code":"","Code":"last"}`)
	f.Add(`{"Error":{"Code":"Nested"},"code":null}`)
	f.Add(`<Response><Errors><Error><Code>A</Code></Error></Errors></Response>`)
	f.Add(`<?xml version="1.0"?><!-- > --><a:Error b="/>" c='<'><Code>A</Code><x/></a:Error>`)
	f.Add(testkit.JSONDocument)
	f.Add(testkit.XMLDocument)
	f.Add(strings.Repeat("[", 20_000))
	f.Fuzz(func(t *testing.T, body string) {
		got, want := JSON.InBody([]byte(body)), slowJSONCode([]byte(body))
		if got != want && json.Valid([]byte(body)) && !strings.Contains(body, `\`) {
			t.Errorf("JSON %q: %q, want %q", body, got, want)
		}
		if got, want = XML.InBody([]byte(body)), slowXMLCode([]byte(body)); want != "" && got != "" && got != want {
			t.Errorf("XML %q: %q, want %q", body, got, want)
		}
		if len(got) > len(body) {
			t.Errorf("XML %q gives more than it has: %q", body, got)
		}
	})
}

func slowJSONCode(body []byte) string {
	var document map[string]json.RawMessage
	if json.Unmarshal(body, &document) != nil {
		return ""
	}
	for _, name := range []string{"__type", "code", "Code"} {
		var code string
		if json.Unmarshal(document[name], &code) == nil && bareCode([]byte(code)) != "" {
			return bareCode([]byte(code))
		}
	}
	var nested map[string]json.RawMessage
	var code string
	if json.Unmarshal(document["Error"], &nested) == nil {
		_ = json.Unmarshal(nested["Code"], &code)
	}
	return bareCode([]byte(code))
}

func slowXMLCode(body []byte) string {
	var (
		path  []string
		code  string
		found bool
		roots int
	)
	for decoder := xml.NewDecoder(bytes.NewReader(body)); ; {
		token, err := decoder.Token()
		if err != nil {
			if err == io.EOF && found && len(code) <= maxCode {
				return strings.TrimSpace(code)
			}
			return ""
		}
		if text, ok := token.(xml.CharData); ok && len(path) == 0 && strings.TrimSpace(string(text)) != "" {
			return ""
		}
		if _, ok := token.(xml.StartElement); ok && len(path) == 0 {
			if roots++; roots > 1 {
				return ""
			}
		}
		at := strings.Join(path, "/")
		isCode := at == "Error/Code" || at == "ErrorResponse/Error/Code" || at == "Response/Errors/Error/Code"
		switch token := token.(type) {
		case xml.StartElement:
			if path = append(path, token.Name.Local); len(path) > maxDepth {
				return ""
			}
		case xml.EndElement:
			found = found || isCode
			path = path[:len(path)-1]
		case xml.CharData:
			if isCode && !found {
				code += string(token)
			}
		}
	}
}

// A header is longer than any body that we would look at.
func TestCodeInAHugeHeader(t *testing.T) {
	code := func(document string) string {
		header := http.Header{"X-Oss-Err": {base64.StdEncoding.EncodeToString([]byte(document))}}
		return InHeaders("HEAD", &http.Response{Header: header})
	}
	const document = "<Error><Code>Busy</Code></Error>"
	require.Equal(t, "Busy", code(document))
	require.Equal(t, "Busy", code(document+strings.Repeat(" ", maxDocument-100)))
	require.Empty(t, code(document+strings.Repeat(" ", maxDocument)))
}
