package aws_test

import (
	"path/filepath"
	"testing"

	"github.com/retrip-go/retrip/internal/testkit"
)

// The vectors in testdata/vectors collect what the SDKs' own tests and sources
// say. Each row runs through RoundTrip in virtual time with the jitter pinned;
// a row on which we mean to differ stands here with the reason.
var deliberate = map[string]string{
	// Java draws whole milliseconds below the ceiling, we draw up to it: 1 ms.
	"backoff java_v2_full":                  "jitter is continuous",
	"backoff jitter_article_aws_claim":      "gives no numbers of its own",
	"backoff oss_go_v2_equal_jitter_option": "gives no numbers of its own",

	// RFC 9110 knows no fractions, services send them (Shopify's "2.0").
	"http_dates 1.5": "fractions of a second are read",

	// A server that asks for 292 years gets no retry, not an immediate one.
	"sdk_headers java_v2 pre-2026 (sync) 9223372036854775807": "a wait above the cap ends the request",
	"sdk_headers java_v2 pre-2026 (async) 1":                  "the asynchronous client looked at no header; ours is one client",

	// Not presets of ours.
	"sdk_headers smithy_typescript":  "no preset: its modes are those of 2026, clamp included",
	"sdk_headers go_v1":              "no preset",
	"sdk_headers smithy_rs pre-2026": "no preset",
	"sdk_headers alibaba openapi go": "no preset: the header's unit is that service's own",
}

func sdkVectors(t *testing.T, name string, into any) {
	t.Helper()
	testkit.ReadJSON(t, filepath.Join("..", "testdata", "vectors", name), into)
}
