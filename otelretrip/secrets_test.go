package otelretrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/retrip-go/retrip"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const secret = "s3cret"

// Whatever is secret stays so, in the URL, the headers, the body, the errors
// and the key, and what a hostile server says is not repeated: in metrics,
// scraped as well as read, and spans.
func TestSecrets(t *testing.T) {
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json; "+secret+"="+secret)
		w.Header().Set("X-Amzn-Errortype", secret)
		w.Header().Set("X-Amzn-Error-Message", secret)
		w.Header().Set("X-Ms-Error-Code", secret)
		w.Header().Set("Server", secret)
		w.Header().Set("Traceparent", secret)
		w.Header().Set("Retry-After", secret)
		w.Header().Set("Location", "http://"+secret+":"+secret+"@"+r.Host+"/"+secret+"?"+secret)
		switch r.Header.Get("Case") {
		case "redirect":
			w.WriteHeader(http.StatusFound)
		case "reset":
			panic(http.ErrAbortHandler)
		case "malformed":
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 "+secret+" "+secret+"\r\n"+secret+"\r\n\r\n")
			_ = conn.Close()
			return
		case "known":
			w.Header().Set("X-Amzn-Errortype", "SlowDown:"+secret)
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintf(w, `{"__type":%q,"code":%q,"message":%q}`, secret, secret, secret)
	}))
	defer hostile.Close()

	registry := prometheus.NewRegistry()
	scraped, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	k := newKit(scraped)
	network := new(http.Transport)
	defer network.CloseIdleConnections()
	transport, err := Wrap(&retrip.Transport{
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			switch req.Header.Get("Case") {
			case "error":
				return nil, errors.New(secret)
			case "dns":
				return nil, &net.DNSError{Name: secret, Err: secret}
			case "url":
				return nil, &url.Error{Op: secret, URL: secret, Err: &net.OpError{Op: "read", Err: errors.New(secret)}}
			}
			return network.RoundTrip(req)
		}),
		Key: func(*http.Request) string { return secret },
		PerKey: func(string) *retrip.Strategy {
			s := hurried()
			s.Hints = append(s.Hints, retrip.HintReaderFunc(func(retrip.Attempt) (retrip.Hint, bool) {
				return retrip.Hint{Wait: 2 * time.Millisecond, From: secret}, true
			}))
			return s
		},
		Prepare: func(req *http.Request, _ retrip.PrepareInfo) error {
			if req.Header.Get("Case") == "prepare" {
				return errors.New(secret)
			}
			return nil
		},
	}, k.options)
	require.NoError(t, err)
	for _, c := range []string{"", "redirect", "reset", "malformed", "known", "error", "dns", "url", "prepare"} {
		target := strings.Replace(hostile.URL, "://", "://"+secret+":"+secret+"@", 1) + "/" + secret + "?" + secret + "=" + secret + "#" + secret
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, target, bytes.NewReader([]byte(secret)))
		require.NoError(t, err)
		req.Header.Set("Case", c)
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Idempotency-Key", secret)
		req.Header.Set("User-Agent", secret)
		req.Host = secret
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
	}

	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, scrape.Code)
	spans := k.recorder.Ended()
	signals := strings.Join(append(k.lines(t), tell(spans)...), "\n") + scrape.Body.String() + everything(spans)
	require.Contains(t, signals, "error.type=503")
	require.Contains(t, signals, "retrip.code=SlowDown", "a code that a classifier lists is told")
	require.Contains(t, signals, "retrip.wait.from=server")
	require.Contains(t, signals, "retrip.reason=prepare failed")
	require.Contains(t, scrape.Body.String(), "retrip_quota_tokens{")
	require.NotContains(t, signals, secret)
}

// everything is what the SDK would export of the spans, in whatever field.
func everything(spans []sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%+v %+v %+v %+v %+v %+v\n", s.Name(), s.Attributes(), s.Events(), s.Links(), s.Status(), s.SpanContext())
	}
	return b.String()
}

// A URL is told as far as the user says.
func TestURLFull(t *testing.T) {
	k := newKit()
	k.options.URLFull = func(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }
	transport, err := Wrap(&retrip.Transport{Base: script(status(200))}, k.options)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://user:"+secret+"@example.com/items?"+secret, nil)
	require.NoError(t, err)
	_, err = transport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, "https://example.com/items", attributeOf(k.recorder.Ended()[0], "url.full").AsString())
	require.NotContains(t, everything(k.recorder.Ended()), secret)
}
