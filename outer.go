package retrip

import (
	"net/http"
	"strconv"
	"strings"
)

// outerAttempt is the number of the attempt that a retrier further out says
// the request is of, or 0 if none says so; if several say so, the highest. An
// SDK, a proxy or a mesh tells it in a header of its own; what does not look
// like such a number is ignored.
func outerAttempt(req *http.Request) (number int) {
	if value := headerValue(req.Header, "Amz-Sdk-Request"); value != "" { // AWS SDKs: "attempt=2; max=3"
		for parameter := range strings.SplitSeq(value, ";") {
			if n, ok := strings.CutPrefix(strings.TrimSpace(parameter), "attempt="); ok {
				number = attemptNumber(n, 0)
			}
		}
	}
	for _, h := range [...]struct {
		name   string
		before int // attempts before the one that is numbered 0
	}{
		{"X-Stainless-Retry-Count", 1},    // the SDKs of OpenAI, Anthropic and Cloudflare
		{"X-Envoy-Attempt-Count", 0},      // Envoy, and meshes made of it
		{"Retry-Attempt", 1},              // Microsoft's Kiota
		{"Grpc-Previous-Rpc-Attempts", 1}, // gRPC
	} {
		if value := headerValue(req.Header, h.name); value != "" {
			number = max(number, attemptNumber(value, h.before))
		}
	}
	return number
}

func attemptNumber(s string, before int) int {
	const unlikely = 1000
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > unlikely {
		return 0
	}
	return int(n) + before
}
