package errorcode

import (
	"strings"
	"testing"
)

// Error documents of typical size, as DynamoDB and S3 send them.
var (
	jsonDocument = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"` +
		"The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API. " +
		`","Item":{"Id":{"S":"0123456789"},"Count":{"N":"42"}},"TableName":"orders","RequestId":"4C6JNV1RGE4S4AB7AGP5OCCAAFVV4KQNSO5AEMVJF66Q9ASUAAJG"}`
	xmlDocument = `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message><Resource>/bucket/some/longer/key/of/an/object.bin</Resource>` +
		`<RequestId>4442587FB7D0A2F9</RequestId><HostId>Uuag1LuByRx9e6j5Onimru9pO4ZVKnJ2Qz7/C1NPcfTWAtRPfTaOFg==` +
		strings.Repeat("0", 80) + `</HostId></Error>`
)

// Each document costs a few allocations.
func TestFindingACodeAllocatesLittle(t *testing.T) {
	for name, read := range map[string]func(){
		"json": func() { inJSON([]byte(jsonDocument)) },
		"xml":  func() { InXML([]byte(xmlDocument)) },
	} {
		if n := testing.AllocsPerRun(1000, read); n >= 15 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCode(b *testing.B) {
	for name, document := range map[string]string{"json": jsonDocument, "xml": xmlDocument} {
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

// BenchmarkErrorAnswer is the whole way of an error with a code, peek included.
