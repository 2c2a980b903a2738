package errorcode

import (
	"testing"

	"github.com/retrip-go/retrip/internal/testkit"
)

// Each document costs a few allocations.
func TestFindingACodeAllocatesLittle(t *testing.T) {
	for name, read := range map[string]func(){
		"json": func() { inJSON([]byte(testkit.JSONDocument)) },
		"xml":  func() { InXML([]byte(testkit.XMLDocument)) },
	} {
		if n := testing.AllocsPerRun(1000, read); n >= 15 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCode(b *testing.B) {
	for name, document := range map[string]string{"json": testkit.JSONDocument, "xml": testkit.XMLDocument} {
		body := []byte(document)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if name == "json" {
					inJSON(body)
				} else {
					InXML(body)
				}
			}
		})
	}
}
