package retrip

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/retrip-go/retrip/internal/testkit"
)

func TestStatuses(t *testing.T) {
	ours := map[int]Class{
		100: Success, 101: Success, 200: Success, 204: Success, 206: Success, 301: Success, 304: Success, 399: Success,
		400: Permanent, 401: Permanent, 403: Permanent, 404: Permanent, 409: Permanent, 417: Permanent, 423: Permanent,
		408: Transient, 425: Transient, 429: Throttled,
		500: Transient, 502: Transient, 503: Transient, 504: Transient, 507: Transient, 508: Transient,
		509: Transient, 520: Transient, 529: Transient, 599: Transient,
		501: Permanent, 505: Permanent, 510: Permanent, 511: Permanent,
	}
	for code, want := range ours {
		a := Attempt{Request: newRequest(t, "GET", nil), Response: &http.Response{StatusCode: code}}
		c, _ := policyOf(Standard()).classify(&a)
		require.Equal(t, want, c, code)
	}
}

func TestOnAHeader(t *testing.T) {
	tests := []struct {
		rule   Classifier
		status int
		header http.Header
		want   Class
	}{
		{On(Permanent, HeaderIs("x-should-retry", "false")), 503, http.Header{"X-Should-Retry": {"False"}}, Permanent},
		{On(Permanent, HeaderIs("x-should-retry", "false")), 503, http.Header{"X-Should-Retry": {"true", "false"}}, Unknown},
		{On(Permanent, HeaderIs("x-should-retry", "false")), 503, nil, Unknown},
		{On(Permanent, HeaderIs("x-should-retry", "false")), 200, http.Header{"X-Should-Retry": {"false"}}, Unknown},
		{On(Permanent, HasHeader("X-Maintenance-Mode")), 503, http.Header{"X-Maintenance-Mode": {""}}, Permanent},
		{On(Permanent, HasHeader("X-Maintenance-Mode")), 503, http.Header{"X-Maintenance-Mode": {"on"}}, Permanent},
		{On(Permanent, HasHeader("X-Maintenance-Mode")), 503, http.Header{"X-Other": {""}}, Unknown},
	}
	for _, tt := range tests {
		got := tt.rule.Classify(Attempt{Response: &http.Response{StatusCode: tt.status, Header: tt.header}})
		require.Equal(t, tt.want, got, "%v of %d %v", tt.rule, tt.status, tt.header)
	}
	require.Equal(t, Unknown, On(Permanent, HasHeader("A")).Classify(Attempt{Err: errReset}))
	require.Equal(t, "permanent: header X-Maintenance-Mode", fmt.Sprint(On(Permanent, HasHeader("X-Maintenance-Mode"))))
	require.Equal(t, "transient: header X-Should-Retry: true", fmt.Sprint(On(Transient, HeaderIs("X-Should-Retry", "true"))))
	s := Standard()
	s.Classifiers = []Classifier{On(Permanent, HasHeader(""))}
	require.ErrorContains(t, (&Transport{Strategy: s}).Validate(), "has no header name")
}

func TestErrors(t *testing.T) {
	tests := []struct {
		err       error
		class     Class
		processed bool // or not provably unprocessed
	}{
		{socketerr.ConnReset, Transient, true},
		{socketerr.BrokenPipe, Transient, true},
		{io.EOF, Transient, true},
		{io.ErrUnexpectedEOF, Transient, true},
		{net.ErrClosed, Transient, true},
		{errors.New("http: server closed idle connection"), Transient, true},
		{errors.New("http2: server sent GOAWAY and closed the connection"), Transient, true},
		{http2StreamError{Code: 0x2}, Transient, true},
		{http2StreamError{Code: refusedStream}, Transient, false},
		{context.DeadlineExceeded, Transient, true}, // the base's own timeout: the caller's was looked at before
		{&net.OpError{Op: "dial", Err: socketerr.ConnRefused}, Transient, false},
		{&net.OpError{Op: "read", Err: socketerr.ConnReset}, Transient, true},
		{&net.OpError{Op: "remote error", Err: tlsAlert(40)}, Transient, false},
		{&net.OpError{Op: "remote error", Err: tlsAlert(80)}, Transient, true}, // internal error: at any time
		{handshakeTimeout{}, Transient, false},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, Transient, false},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, Transient, false},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, Permanent, false},
		{x509.UnknownAuthorityError{}, Permanent, true},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}}}, Permanent, true},
		{&tls.CertificateVerificationError{Err: x509.UnhandledCriticalExtension{}}, Permanent, true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, Permanent, true}, // as tls.Config.VerifyConnection may return it
		{x509.SystemRootsError{}, Permanent, true},
		{x509.CertificateInvalidError{Reason: x509.Expired}, Permanent, true},
		{tls.RecordHeaderError{}, Permanent, true},
		{errors.New(`unsupported protocol scheme "ftp"`), Permanent, true},
		{errors.New(`net/http: invalid header field name "a b"`), Permanent, true},
		{errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`), Permanent, true},
	}
	for _, tt := range tests {
		for _, err := range []error{tt.err, fmt.Errorf("wrapped: %w", tt.err), &url.Error{Op: "Get", URL: "x", Err: tt.err}} {
			c, _ := policyOf(Standard()).classify(&Attempt{Err: err})
			require.Equal(t, tt.class, c, "%v", err)
			require.Equal(t, !tt.processed, unprocessed(&outcome{Attempt: Attempt{Request: newRequest(t, "POST", nil), Err: err}}, verdict{class: c}), "%v", err)
		}
	}
}

type tlsAlert uint8

func (a tlsAlert) Error() string { return "tls: alert" }

type handshakeTimeout struct{}

func (handshakeTimeout) Error() string { return "net/http: TLS handshake timeout" }
func (handshakeTimeout) Timeout() bool { return true }

// The errors of real servers and of net/http itself, without url.Error around
// them: one attempt for what can't get better.
func TestHopelessErrorsOfNetHTTP(t *testing.T) {
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	defer tlsServer.Close()
	plainServer := httptest.NewServer(http.NotFoundHandler())
	defer plainServer.Close()
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer garbage.Close()
	go func() {
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c)) // else its reset may overtake the answer
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
			_ = c.Close()
		}
	}()
	tests := map[string]func(*http.Request){
		"unknown authority":   func(r *http.Request) { r.URL, _ = url.Parse(tlsServer.URL) },
		"TLS to plain server": func(r *http.Request) { r.URL, _ = url.Parse(strings.Replace(plainServer.URL, "http", "https", 1)) },
		"unknown scheme":      func(r *http.Request) { r.URL.Scheme = "gopher" },
		"bad header":          func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"bad header value":    func(r *http.Request) { r.Header.Set("A", "b\nc") },
		"bad method":          func(r *http.Request) { r.Method = "G T"; *r = *r.WithContext(WithIdempotent(r.Context())) },
		"no host":             func(r *http.Request) { r.URL.Host = "" },
		"malformed response":  func(r *http.Request) { r.URL, _ = url.Parse("http://" + garbage.Addr().String()) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			transport := &Transport{Strategy: noWait()}
			defer transport.CloseIdleConnections()
			ctx, trace := WithTrace(t.Context())
			req := newRequest(t, "GET", nil).WithContext(ctx)
			spoil(req)
			_, err := transport.RoundTrip(req)
			require.Error(t, err)
			events := trace.Requests()[0]
			require.Len(t, events, 1, "%v", err)
			require.Equal(t, NotRetryable, events[0].Reason, "%v", err)
		})
	}
}

// Requests that net/http itself refuses, over HTTP/1 and HTTP/2, are not tried
// again at the cost of everybody's quota.
func TestRequestsThatCannotBeWritten(t *testing.T) {
	testkit.NoLeaks(t)
	for name, spoil := range map[string]func(*http.Request){
		"body longer than Content-Length": func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("hello")), 3
		},
		"trailer": func(r *http.Request) {
			r.Body, r.ContentLength, r.Trailer = opaque("x"), -1, http.Header{"Content-Length": nil}
		},
		"HTTP/1: control character in URL": func(r *http.Request) { r.URL.Opaque = "/a\nb" },
		"HTTP/2: host":                     func(r *http.Request) { r.Host = "a b\x00" },
		"HTTP/2: path":                     func(r *http.Request) { r.URL.Opaque = "x:y" },
		"HTTP/2: Upgrade":                  func(r *http.Request) { r.Header.Set("Upgrade", "other") },
		"HTTP/2: Connection":               func(r *http.Request) { r.Header.Set("Connection", "other") },
		"HTTP/2: Transfer-Encoding":        func(r *http.Request) { r.Header.Set("Transfer-Encoding", "other") },
		"HTTP/2: headers":                  func(r *http.Request) { r.Header.Set("Cookie", strings.Repeat("x", 3<<20)) },
	} {
		for _, protocol := range []string{"h1", "h2c"} {
			if only, _, one := strings.Cut(name, ": "); one && (only == "HTTP/2") != (protocol == "h2c") {
				continue
			}
			t.Run(name+"/"+protocol, func(t *testing.T) {
				url, base := testkit.Serve(t, protocol, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				transport := &Transport{Base: base, Strategy: noWait()}
				resp, err := transport.RoundTrip(testkit.RequestTo(t, "GET", url, nil)) // so that the server's settings are known
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				ctx, trace := WithTrace(t.Context())
				req := testkit.RequestTo(t, "PUT", url, nil).WithContext(ctx)
				spoil(req)
				_, err = transport.RoundTrip(req)
				require.Error(t, err)
				require.Equal(t, 1, lastOf(trace).Attempt, "%v", err)
				require.Equal(t, NotRetryable, lastOf(trace).Reason, "%v", err)
			})
		}
	}
}

// A refused connection is worth a retry, whatever the method, and the error
// of a real dial is recognised.
func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	transport := &Transport{Strategy: noWait()}
	req := newRequest(t, "POST", strings.NewReader("body"))
	req.URL, _ = url.Parse("http://" + l.Addr().String())
	_, err = transport.RoundTrip(req)
	require.ErrorIs(t, err, ErrAttemptsExhausted)
	require.ErrorIs(t, err, socketerr.ConnRefused)
}

func TestOneRuleMore(t *testing.T) {
	errFlaky := errors.New("flaky")
	rules := []Classifier{
		On(Transient, StatusIs(404, 409)),
		On(Throttled, CodeIs("Throttling.User", "")),
		On(Permanent, ErrorIs(socketerr.ConnReset)),
		On(Transient, ErrorAs[*net.DNSError]()),
		ClassifierFunc(func(a Attempt) Class {
			if a.Response != nil && a.Response.Header.Get("X-Should-Retry") == "false" {
				return Permanent
			}
			return Unknown
		}),
	}
	tests := []struct {
		attempt Attempt
		want    Class
	}{
		{Attempt{Response: &http.Response{StatusCode: 404}}, Transient},
		{Attempt{Response: &http.Response{StatusCode: 400}, Code: "Throttling.User"}, Throttled},
		{Attempt{Response: &http.Response{StatusCode: 400}}, Permanent},
		{Attempt{Err: fmt.Errorf("read: %w", socketerr.ConnReset)}, Permanent},
		{Attempt{Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}}, Transient},
		{Attempt{Err: errFlaky}, Transient},
		{Attempt{Response: &http.Response{StatusCode: 503, Header: http.Header{"X-Should-Retry": {"false"}}}}, Permanent},
		{Attempt{Response: &http.Response{StatusCode: 503}}, Transient},
	}
	s := Standard()
	s.Classifiers = slices.Insert(s.Classifiers, 0, rules...)
	for i, tt := range tests {
		c, _ := policyOf(s).classify(&tt.attempt)
		require.Equal(t, tt.want, c, "row %d", i)
	}
	c, _ := (&policy{Strategy: &Strategy{}}).classify(&Attempt{Err: errFlaky})
	require.Equal(t, Permanent, c, "without classifiers nothing is retried")
	c, _ = (&policy{Strategy: &Strategy{}}).classify(&Attempt{Response: &http.Response{StatusCode: 302}})
	require.Equal(t, Success, c)
}

func TestNames(t *testing.T) {
	require.Equal(t, "clock-skewed", ClockSkewed.String())
	require.Equal(t, "retrip.Class(9)", Class(9).String())
	require.Equal(t, "quota exhausted", ErrQuotaExhausted.Error())
	require.Equal(t, "prepare failed", PrepareFailed.String())
}

func policyOf(s *Strategy) *policy {
	p := newPolicy(s, "")
	return &p
}

// A body that is there in name only can't be the cause of an error.
func TestDialErrorUnderAnEmptyBody(t *testing.T) {
	for _, body := range []io.Reader{nil, strings.NewReader(""), bytes.NewReader(nil), strings.NewReader("x")} {
		base := script(fails(&net.OpError{Op: "dial", Err: socketerr.ConnRefused}))
		req, err := http.NewRequest("POST", "http://example.com", body)
		require.NoError(t, err)
		_, err = (&Transport{Base: base, Strategy: noWait()}).RoundTrip(req)
		require.ErrorIs(t, err, ErrAttemptsExhausted, "%T", body)
	}
}
