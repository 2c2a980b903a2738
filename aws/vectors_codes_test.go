package aws_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
	"github.com/retrip-go/retrip/services"
)

// namedErrors are the errors that the vectors name.
var namedErrors = map[string]error{
	"connection reset by peer (read or write)": socketerr.ConnReset,
	"connection refused":                       &net.OpError{Op: "dial", Err: socketerr.ConnRefused},
	"broken pipe":                              socketerr.BrokenPipe,
	"use of closed network connection":         net.ErrClosed,
	"DNS temporary (SERVFAIL, timeout)":        &net.DNSError{IsTemporary: true},
	"connect timeout":                          &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
	"attempt timeout (SDK's own)":              &retrip.AttemptTimeoutError{After: time.Second},
	"HTTP/2 GOAWAY / REFUSED_STREAM":           http2StreamError{Code: 7},
	"EOF":                                      io.EOF,
	"read timeout":                             os.ErrDeadlineExceeded,
	"unexpected EOF":                           io.ErrUnexpectedEOF,
}

// http2StreamError has the shape of net/http's own.
type http2StreamError struct {
	StreamID, Code uint32
	Cause          error
}

func (e http2StreamError) Error() string { return "REFUSED_STREAM" }

func TestVectorsErrorCodes(t *testing.T) {
	var file struct {
		Codes map[string]struct{ Class, Vendor string }
	}
	sdkVectors(t, "error_codes.json", &file)
	classes := map[string]retrip.Class{
		"throttling": retrip.Throttled, "transient": retrip.Transient, "none": retrip.Permanent,
		"clock_skew_if_skewed": retrip.Permanent, // the clocks agree here; see the clock skew vectors
	}
	for code, row := range file.Codes {
		modes := []func() *retrip.Strategy{retrip.Standard, retrip.Legacy, retrip.Adaptive, aws.Standard2026, aws.Adaptive2026}
		if row.Vendor == "alibaba" {
			modes = []func() *retrip.Strategy{services.AlibabaKMS, services.AlibabaKMSJava}
		}
		for _, mode := range modes {
			require.Equal(t, classes[row.Class], classOf(t, mode(), status(400, "X-Amzn-Errortype: "+code)), code)
		}
	}
	require.Equal(t, retrip.Throttled, classOf(t, aws.Standard2026(), jsonError(503, "SlowDown")), "a code beats a status")
}

// The lists of the SDKs: their presets know these codes and no others.
func TestVectorsErrorCodesOfSDKs(t *testing.T) {
	var file struct {
		Codes map[string]any
		Sets  map[string]struct {
			Throttling []string
			Transient  []string
			Retryable  []string
			ClockSkew  []string `json:"clock_skew"`
			Definite   []string `json:"clock_skew_definite"`
		} `json:"sdk_sets"`
	}
	sdkVectors(t, "error_codes.json", &file)
	sets := map[string]func() *retrip.Strategy{"aws2026": aws.Standard2026, "java_v2": aws.AdaptiveV1, "java_v1": aws.JavaV1, "js_v2": aws.JavaScriptV2}
	for name, preset := range sets {
		set := file.Sets[name]
		for _, code := range set.Throttling {
			require.Equal(t, retrip.Throttled, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
		}
		retryable := slices.Concat(set.Transient, set.Retryable, set.Definite)
		if name == "java_v1" {
			retryable = append(retryable, set.ClockSkew...)
		}
		for _, code := range retryable {
			switch code {
			case "NetworkingError", "TimeoutError", "CRC32CheckFailed": // the SDK's own names, not the server's
				continue
			}
			require.Equal(t, retrip.Transient, classOf(t, preset(), jsonError(400, code)), "%s: %s", name, code)
		}
		listed := slices.Concat(retryable, set.Throttling, set.ClockSkew)
		for code := range file.Codes {
			if !slices.Contains(listed, code) {
				require.Equal(t, retrip.Permanent, classOf(t, preset(), jsonError(400, code)), "%s does not know %s", name, code)
			}
		}
	}
}

func TestVectorsStatuses(t *testing.T) {
	var file struct{ Statuses []map[string]any }
	sdkVectors(t, "error_codes.json", &file)
	columns := map[string]func() *retrip.Strategy{
		"aws2026": aws.Standard2026, "java_v2": aws.AdaptiveV1, "js_v2": aws.JavaScriptV2,
		"botocore_legacy": func() *retrip.Strategy { return aws.Botocore("") }, "java_v1": aws.JavaV1,
	}
	for _, row := range file.Statuses {
		code := int(row["status"].(float64))
		for column, preset := range columns {
			word, ok := row[column].(string)
			if !ok {
				continue
			}
			got := classOf(t, preset(), status(code))
			switch {
			case strings.HasPrefix(word, "none"), word == "by code only", word == "possible clock skew", strings.HasPrefix(word, "redirect"):
				require.Contains(t, []retrip.Class{retrip.Permanent, retrip.Success}, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "throttling"):
				require.Equal(t, retrip.Throttled, got, "%s: %d", column, code)
			case strings.HasPrefix(word, "transient"), strings.HasPrefix(word, "retry"):
				require.Contains(t, []retrip.Class{retrip.Transient, retrip.Throttled}, got, "%s: %d", column, code)
			default:
				t.Fatalf("%s: %d: %q?", column, code, word)
			}
		}
	}
}

func TestVectorsErrors(t *testing.T) {
	var file struct {
		IO []struct {
			Error string
			GoV2  string `json:"go_v2"`
		}
	}
	sdkVectors(t, "error_codes.json", &file)
	for _, row := range file.IO {
		err, ok := namedErrors[row.Error]
		switch {
		case ok:
			require.Equal(t, retrip.Transient, classOf(t, aws.Standard2026(), fails(err)), row.Error)
		case strings.HasPrefix(row.Error, "caller cancelled"):
			ctx, cancel := context.WithCancel(t.Context())
			base := script(func(*http.Request) (*http.Response, error) { cancel(); return nil, context.Canceled })
			_, err := get(ctx, &retrip.Transport{Base: base})
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, base.Sent(), 1)
		case strings.HasPrefix(row.Error, "response body truncated"):
			base := script(testkit.Stream(200, iotest.ErrReader(io.ErrUnexpectedEOF)))
			_, err := get(t.Context(), &retrip.Transport{Base: base})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Len(t, base.Sent(), 1)
		default:
			t.Errorf("no error for %q", row.Error)
		}
	}
}
