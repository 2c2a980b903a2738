package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	reset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	fine  = outcome{name: "200", status: 200, body: "hello"}
	busy  = outcome{name: "503", status: 503, body: "busy"}
)

// outcomes are what may come of an attempt, each of which a policy may take in
// its own way.
var outcomes = func() []outcome {
	all := []outcome{
		fine,
		{name: "200, but busy", status: 200, body: "busy"},
		{name: "200 after a while", status: 200, body: "hello", takes: 1500 * time.Millisecond},
		{name: "503 after a while", status: 503, body: "busy", takes: 1500 * time.Millisecond},
		{name: "503 in JSON", status: 503, header: "Content-Type: application/json", body: `{"code":"busy"}`},
		{name: "throttled by code", status: 400, header: "X-Amzn-Errortype: ThrottlingException"},
		{name: "reset", err: reset},
		{name: "refused", err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}},
		{name: "end", err: io.ErrUnexpectedEOF},
		{name: "timeout", err: &net.OpError{Op: "read", Net: "tcp", Err: timedOut{}}},
		{name: "hangs", hangs: true},
		{name: "no such host", err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "host", IsNotFound: true}}},
		{name: "unknown authority", err: x509.UnknownAuthorityError{}},
		{name: "certificate", err: x509.CertificateInvalidError{Reason: x509.Expired}},
		{name: "scheme", err: errors.New(`unsupported protocol scheme "ftp"`)},
		{name: "header", err: errors.New(`net/http: invalid header field name "a b"`)},
	}
	for _, status := range []int{201, 202, 204, 400, 401, 403, 404, 408, 409, 413, 421, 423, 425, 429, 500, 501, 502, 504, 505, 507, 511, 599} {
		all = append(all, outcome{name: fmt.Sprint(status), status: status, body: "text"})
	}
	for _, value := range []string{"0", "1", "7", "+4s", "-4s", "-5", "1.5", " 2", "soon", "", "9223372037", "+7h0m0s"} {
		for _, status := range []int{429, 503, 500, 400} {
			all = append(all, outcome{name: fmt.Sprintf("%d, Retry-After %q", status, value), status: status, header: "Retry-After: " + value})
		}
	}
	return all
}()

type timedOut struct{}

func (timedOut) Error() string   { return "timeout" }
func (timedOut) Timeout() bool   { return true }
func (timedOut) Temporary() bool { return true }

var requests = []request{
	{method: http.MethodGet},
	{method: http.MethodPost, body: "an order"},
	{method: http.MethodPut, body: "a thing", opaque: true},
}

// compare sends requests both ways, each outcome alone and in many a sequence,
// and expects the same attempts, at the same times, with the same bodies. Where
// the peer returns the last response, so does retrip. Where it returns an
// error, ours is that of the base, or there is a response, which comes back in
// place of the peer's error: the first of the differences on purpose.
func compare(t *testing.T, peer, ours way) {
	t.Helper()
	compareOnly(t, peer, ours, func(outcome) bool { return true })
}

// compareOnly does so with those outcomes that a peer takes as we do.
func compareOnly(t *testing.T, peer, ours way, taken func(outcome) bool) {
	t.Helper()
	outcomes := slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !taken(o) })
	check := func(script []outcome, r request) {
		t.Helper()
		want, got := play(t, script, r, peer), play(t, script, r, ours)
		what := fmt.Sprintf("%s: %+v", r.method, script)
		require.Equal(t, want.at, got.at, what)
		require.Equal(t, want.bodies, got.bodies, what)
		require.Equal(t, want.took, got.took, what)
		last := script[min(len(want.at), len(script))-1]
		switch {
		case want.err == nil:
			require.NoError(t, got.err, what)
			require.Equal(t, want.status, got.status, what)
			require.Equal(t, want.body, got.body, what)
		case last.err != nil:
			require.ErrorIs(t, got.err, last.err, what)
		case last.hangs:
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, got.err, &timeout, what)
			require.True(t, timeout.Timeout(), what)
		default:
			require.NoError(t, got.err, what)
			require.Equal(t, last.status, got.status, what)
			require.Equal(t, last.body, got.body, what)
		}
	}
	for _, o := range outcomes {
		for _, r := range requests {
			check([]outcome{o}, r)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		script := make([]outcome, 1+rng.IntN(6))
		for i := range script {
			script[i] = outcomes[rng.IntN(len(outcomes))]
		}
		check(append(script, fine), requests[rng.IntN(len(requests))])
	}
}
