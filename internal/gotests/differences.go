package main

import "strings"

// A suite is a package whose tests run, with the least that must go through the
// wrapper. A request counts each time it reaches the transport below the
// wrapper. The tests that send from goroutines of helpers are not recognised.
type suite struct {
	path     string
	requests int
	senders  int // tests that send requests
}

// The numbers are some nine tenths of what was counted with Go 1.26.
var suites = []suite{
	{"net/http", 5300, 300},
	{"net/http/httputil", 1050, 40},
	{"net/http/httptest", 18, 7},
	{"net/http/cookiejar", 2, 1},
	{"golang.org/x/net/http2", 1500, 50},
}

var unsteady []string

func known(path, wrapper string) (expected map[string]string, alone []string) {
	expected = map[string]string{}
	if wrapper == "three" && path == "net/http" {
		alone = []string{"TestTransportPoolConnConnectionBecomesAvailableDuringDial"}
	}
	if wrapper == "three" && path == "net/http/httputil" {
		alone = []string{"TestReverseProxy_CopyBuffer"}
	}
	return
}
func isUnsteady(name string) bool { return strings.HasPrefix(name, "TestClientTimeout") }
