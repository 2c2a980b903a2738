package retrip

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
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
		require.Equal(t, tt.want, headerCode(h), "%+v", tt)
	}
}

func TestBodyCodes(t *testing.T) {
	for body, want := range map[string]string{
		`{"__type":"a#B:c"}`:                 "B",
		`{"code":"C","__type":"T"}`:          "T",
		`{"Code":"D"}`:                       "D",
		`{"CODE":"D"}`:                       "",
		`{"code":429,"Code":"D"}`:            "D",
		`{"__type":null,"code":""}`:          "",
		`{"__type":"First","__type":"Last"}`: "Last",
		`{"__type":"Cut`:                     "",
		`["Code"]`:                           "",
		` {"code":"X"} trailing`:             "",
		`{"error":{"code":"Nested"}}`:        "",
	} {
		require.Equal(t, want, jsonBodyCode([]byte(body)), body)
	}
	for body, want := range map[string]string{
		`<Error><Code>A</Code></Error>`:                                                                    "A",
		`<Error xmlns="urn:x"><Message>Code</Message><Code> A&amp;B </Code></Error>`:                       "A&B",
		`<ErrorResponse><Error><Code><![CDATA[A]]></Code></Error></ErrorResponse>`:                         "A",
		`<Response><Errors><Error><Code>A</Code></Error><Error><Code>B</Code></Error></Errors></Response>`: "A",
		`<Error><Code></Code><Code>B</Code></Error>`:                                                       "",
		`<Error><Code>A`:                "",
		`<Error><Code>A</Code>`:         "",
		`<error><code>A</code></error>`: "",
		`<DeleteResult><Error><Code>A</Code></Error></DeleteResult>`:               "",
		`<Error><Detail><Code>A</Code></Detail></Error>`:                           "",
		`<?xml version="1.0" encoding="ISO-8859-1"?><Error><Code>A</Code></Error>`: "",
		"  <?xml version=\"1.0\"?>\n<Error><Code>A</Code></Error>\n":               "A",
		`<!DOCTYPE x [<!ENTITY e "A">]><Error><Code>&e;</Code></Error>`:            "",
	} {
		require.Equal(t, want, xmlBodyCode([]byte(body)), body)
	}
}

// Whatever a body holds, its code is a piece of it, and nothing panics.
func FuzzBodyCodes(f *testing.F) {
	f.Add(`{"__type":"a#B:c","code":"C"}`)
	f.Add(`<Response><Errors><Error><Code>A</Code></Error></Errors></Response>`)
	f.Add(strings.Repeat("[", 20_000))
	f.Fuzz(func(t *testing.T, body string) {
		for _, code := range []string{jsonBodyCode([]byte(body)), xmlBodyCode([]byte(body))} {
			if strings.TrimSpace(code) != code || utf8.ValidString(body) && !utf8.ValidString(code) {
				t.Fatalf("%q gives %q", body, code)
			}
			if len(code) > len(body) {
				t.Fatalf("%q gives more than it has: %q", body, code)
			}
		}
	})
}
