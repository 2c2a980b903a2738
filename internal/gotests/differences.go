package main

import (
	"slices"
	"strings"
)

// A suite is a package whose tests run, with the least that must go through the
// wrapper. A request counts each time it reaches the transport below the
// wrapper. A test that sends from a goroutine of a helper is not recognised.
type suite struct {
	path     string
	requests int
	senders  int // tests that send requests
}

// The numbers are some nine tenths of what Go 1.26 sends.
var suites = []suite{
	{"net/http", 5300, 300},
	{"net/http/httputil", 1050, 40},
	{"net/http/httptest", 18, 7},
	{"net/http/cookiejar", 2, 1},
	{"golang.org/x/net/http2", 1400, 50},
}

// A difference is some tests that pass with the forwarder and fail with retrip,
// and why.
type difference struct {
	path  string
	with  []string // the wrappers
	why   string
	tests []string
	alone bool // the tests end the process, or hang: each runs in a process of its own
}

var (
	one   = []string{"one"}
	three = []string{"three"}
	both  = append(one, three...)
)

// differences are all that are known with Go 1.26.8.
var differences = []difference{{
	path: "net/http", with: three,
	why: "The test compares the error, its text or its type. After retries, retrip returns an *Error, which wraps that of " +
		"the base: errors.Is and errors.As find it.",
	tests: []string{
		"TestStripPasswordFromError/Don't_Strip_password_from_domain_name",
		"TestStripPasswordFromError/Don't_Strip_password_from_path",
		"TestStripPasswordFromError/Strip_escaped_password",
		"TestStripPasswordFromError/Strip_password_from_error_message",
		"TestTransportDialPreservesNetOpProxyError",
		"TestTransportReturnsPeekError",
		"TestTransportTraceGotConnH2IdleConns",
	},
}, {
	path: "golang.org/x/net/http2", with: three,
	why:   "The test asserts the error's type, without errors.As; see net/http.",
	tests: []string{"TestAPITransportIDNA"},
}, {
	path: "net/http", with: both,
	why: "The test sends an empty Request, to make the Transport read its settings. " +
		"retrip returns an error for a request without a URL before it calls its base.",
	tests: []string{
		"TestTransportAutomaticHTTP2",
		"TestTransportAutomaticHTTP2_DialerAndTLSConfigSupportsHTTP2AndTLSConfig",
		"TestTransportAutomaticHTTP2_ExpectContinueTimeout",
	},
}, {
	path: "golang.org/x/net/http2", with: both,
	why: "The test sends a request whose Header is nil, which http2.Transport accepts. " +
		"retrip returns an error, as http.Transport does; http.Client never sends such a request.",
	tests: []string{"TestTransport", "TestTransportFailsOnInvalidHeadersAndTrailers"},
}, {
	path: "net/http", with: three,
	why: "The server answers each request with a 503 or closes its connection. The test counts requests, connections or " +
		"lines of the server's log, names the HTTP/2 stream that fails, or has a handler for one request only.",
	tests: []string{
		"TestDontCacheBrokenHTTP2Conn/h2",
		"TestOnProxyConnectResponse",
		"TestServerKeepAliveAfterWriteError/h1",
		"TestTimeoutHandler/h1",
		"TestTimeoutHandlerSuperfluousLogs/h1/return_after_timeout",
		"TestWriteDeadlineEnforcedPerStream/h2",
		"TestWriteHeader0/h1",
		"TestWriteHeader0/h2",
	},
}, {
	path: "net/http", with: three, alone: true,
	why: "The server fails the only request that it expects. It has no answer to the retry, and waits for ever.",
	tests: []string{
		"TestTransportExpect100Continue500ResponseNoConnClose",
		"TestTransportProxyConnectHeader",
		"TestTransportProxyGetConnectHeader",
		"TestTransportResponseHeaderTimeout",
	},
}, {
	path: "net/http", with: three, alone: true,
	why: "The second request's cancellation closes the connection that the first has still to get its response from. " +
		"The first, which was not cancelled, is retried, and the test's handler does not answer a third request.",
	tests: []string{"TestCancelRequestWhenSharingConnection"},
}, {
	path: "net/http", with: three, alone: true,
	why: "The test calls Transport.CancelRequest, which is deprecated and knows a request by its pointer. The base gets a " +
		"copy of a request whose body has no GetBody. Whether the test then hangs depends on who is first.",
	tests: []string{"TestTransportAndServerSharedBodyRace"},
}, {
	path: "net/http", with: three, alone: true,
	why: "The test's connection goes on after its Close, and the test waits until the body of a cancelled request has " +
		"been sent over it. Reading a body that is kept for a retry ends with the request's context.",
	tests: []string{"TestTransportPoolConnConnectionBecomesAvailableDuringDial"},
}, {
	path: "net/http/httputil", with: three, alone: true,
	why:   "The proxy breaks off each response, and the test's handler waits for ever in the second request.",
	tests: []string{"TestReverseProxy_CopyBuffer"},
}, {
	path: "golang.org/x/net/http2", with: three,
	why: "The test expects the error at once, of a dial or a connection that fails or of a stream that the server resets. " +
		"retrip retries a GET after any error that it does not know to be permanent.",
	tests: []string{
		"TestAPITransportCoalescedDial/failure",
		"TestAPITransportCoalescedDial/leader_got_bad_conn",
		"TestTransportNoRetryOnStreamProtocolError",
		"TestTransportRetryAfterGOAWAYNoRetry",
		"TestTransportTLSNextProtoConnIdleTimoutBeforeUse",
		"TestTransportTLSNextProtoConnImmediateFailureUnused",
		"TestTransportTLSNextProtoConnImmediateFailureUsed",
	},
}}

// unsteady are the tests of net/http that fail now and then with the forwarder:
// for a transport that it does not know, http.Client.Timeout has a timer and a
// context's deadline, and only if the timer is first does the error's text have
// the words Client.Timeout, which these tests look for. The last hangs now and
// then with retrip; see above.
var unsteady = []string{"TestClientTimeout", "TestClientTimeout_Headers", "TestTransportAndServerSharedBodyRace"}

func isUnsteady(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains(unsteady, top)
}

// known returns the reasons of a suite's differences with one wrapper, by the
// test's name, and the tests that run alone.
func known(path, wrapper string) (expected map[string]string, alone []string) {
	expected = map[string]string{}
	for _, d := range differences {
		if d.path != path || !slices.Contains(d.with, wrapper) {
			continue
		}
		for _, test := range d.tests {
			expected[test] = d.why
			if d.alone {
				alone = append(alone, test)
			}
		}
	}
	return expected, alone
}
