package errorcode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileBodies are error documents made to be expensive, of about size bytes,
// by what they repeat.
func hostileBodies(size int) map[string]string {
	inCode := func(piece string) string {
		return "<Error><Code>" + strings.Repeat(piece, size/len(piece)) + "</Code></Error>"
	}
	inError := func(piece string) string {
		return "<Error>" + strings.Repeat(piece, size/len(piece)) + "</Error>"
	}
	long := strings.Repeat("n", size/2)
	inObject := func(piece string) string {
		return `{` + strings.Repeat(piece+`:0,`, size/len(piece+`:0,`)) + `"code":"X"}`
	}
	return map[string]string{
		"XML references to nothing": inCode("&no;<a/>"),
		"XML references":            inCode("&#9;<a/>"),
		"XML bare ampersands":       inCode("&<a/>"),
		"XML one text":              inCode("&amp;"),
		"XML long number":           "<Error><Code>&#" + strings.Repeat("0", size) + "65;</Code></Error>",
		"XML quotes":                inError(`<a b='"' c="'"/>`),
		"XML open quotes":           inError(`<a b='`),
		"XML comments":              inError("<!---->"),
		"XML open comments":         inError("<!--"),
		"XML CDATA in the code":     inCode("<![CDATA[]]>"),
		"XML open CDATA":            inCode("<![CDATA["),
		"XML depth":                 strings.Repeat("<a>", size/3),
		"XML elements":              inError("<a/>"),
		"XML long name":             "<" + long + ">" + strings.Repeat("<a/>", size/8) + "</" + long + ">",
		"XML long prefix":           "<" + long + ":Error><Code>" + strings.Repeat("<a/>", size/8),
		"XML spaces":                strings.Repeat(" ", size) + "<Error/>",
		"JSON escaped names":        inObject(`"\u0063\u006fdf"`),
		"JSON odd names":            inObject("\"\xff\""),
		"JSON depth":                strings.Repeat("[", size),
		"JSON one name":             inObject(`"code"`),
		"JSON backslashes":          `{"code":"` + strings.Repeat(`\\`, size/2) + `"}`,
	}
}

func hostileCode(name, body string) string {
	if strings.HasPrefix(name, "JSON") {
		return inJSON([]byte(body))
	}
	return XML.InBody([]byte(body))
}

// However long a hostile document is, it costs no more pieces of memory: each
// has a few, and encoding/xml or encoding/json is not called for each part.
func TestHostileErrorBodiesAreCheap(t *testing.T) {
	for name, body := range hostileBodies(maxDocument) {
		n := testing.AllocsPerRun(3, func() { hostileCode(name, body) })
		require.LessOrEqual(t, n, 30.0, name)
	}
}

// The codes are what encoding/xml and encoding/json make of the documents, or none
// where a document has something in an escaped form.
func TestHostileErrorBodiesAgree(t *testing.T) {
	documents := hostileBodies(1 << 10)
	for i, code := range []string{"A&#66;C", "&lt;&gt;&amp;&apos;&quot;", "A<![CDATA[&amp;]]>B", "&#x110000;", "A&b;", "A&amp"} {
		documents[fmt.Sprint("XML ", i)] = "<p:Response><Errors><q:Error><Code> " + code + " </Code><Code>X</Code></q:Error></Errors></p:Response>"
	}
	for i, name := range []string{`\u0063ode`, `cod\u0065`, `\u1063ode`, `code\u0000`, `cod`, `codes`} {
		documents[fmt.Sprint("JSON ", i)] = `{"` + name + `":"A"}`
	}
	for name, body := range documents {
		want := slowXMLCode([]byte(body))
		if strings.HasPrefix(name, "JSON") {
			want = slowJSONCode([]byte(body))
		}
		got := hostileCode(name, body)
		if got == "" && strings.ContainsAny(body, `\&!`) {
			continue
		}
		require.Equal(t, want, got, "%s: %s", name, body)
	}
}

// The time per byte must not grow with the document.
func BenchmarkHostileErrorBodies(b *testing.B) {
	for _, size := range []int{16 << 10, 32 << 10, 64 << 10} {
		for name, body := range hostileBodies(size) {
			b.Run(fmt.Sprintf("%s/%dKiB", strings.ReplaceAll(name, " ", "-"), size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					hostileCode(name, body)
				}
			})
		}
	}
}
