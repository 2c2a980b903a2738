package aws_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/testkit"
)

// A rule that looks at successes costs no allocation where it has no opinion.
func TestSuccessAllocatesNothing(t *testing.T) {
	req, err := http.NewRequest("PUT", "https://bucket.s3.eu-central-1.amazonaws.com/key", nil)
	require.NoError(t, err)
	for name, s := range map[string]*retrip.Strategy{
		"Standard2026": aws.Standard2026(), "Standard2026DynamoDB": aws.Standard2026DynamoDB(),
		"Botocore": aws.Botocore("dynamodb"), "JavaV1": aws.JavaV1(),
	} {
		header := http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
		transport := &retrip.Transport{Strategy: s, Base: testkit.Same(&http.Response{StatusCode: 200, Header: header, Body: http.NoBody})}
		require.Zero(t, testkit.Allocations(t, transport, req), name)
	}
}

func BenchmarkSuccess(b *testing.B) {
	req, err := http.NewRequest("PUT", "https://bucket.s3.eu-central-1.amazonaws.com/key", nil)
	require.NoError(b, err)
	transport := &retrip.Transport{Strategy: aws.Standard2026(), Base: testkit.Same(&http.Response{StatusCode: 200, Body: http.NoBody})}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = transport.RoundTrip(req)
	}
}
