package testkit

import "strings"

// Error documents of typical size, as DynamoDB and S3 send them.
var (
	JSONDocument = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"` +
		"The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API. " +
		`","Item":{"Id":{"S":"0123456789"},"Count":{"N":"42"}},"TableName":"orders","RequestId":"4C6JNV1RGE4S4AB7AGP5OCCAAFVV4KQNSO5AEMVJF66Q9ASUAAJG"}`
	XMLDocument = `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message><Resource>/bucket/some/longer/key/of/an/object.bin</Resource>` +
		`<RequestId>4442587FB7D0A2F9</RequestId><HostId>Uuag1LuByRx9e6j5Onimru9pO4ZVKnJ2Qz7/C1NPcfTWAtRPfTaOFg==` +
		strings.Repeat("0", 80) + `</HostId></Error>`
)
