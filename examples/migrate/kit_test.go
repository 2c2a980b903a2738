package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An outcome is what the base makes of one attempt: an error, or a response.
type outcome struct {
	name   string
	status int
	header string // "Name: value"; in the value, +3s is the date in three seconds
	body   string
	err    error
	moved  bool          // whenever it is not asked for elsewhere
	takes  time.Duration // until the response's headers or the error
	hangs  bool          // until the context ends, if the error does not come first
	stalls time.Duration // before the body begins
}

// A request is what is sent, and how long the caller waits for it.
type request struct {
	method   string
	body     string
	opaque   bool // the body can't be opened again
	deadline time.Duration
	enough   time.Duration // after which the caller cancels
	times    int           // how often, one after the other
}

// A record is what came of a request sent one way: attempts, waits and the end.
type record struct {
	at     []time.Duration // since the start
	bodies []string        // that the base was sent
	took   time.Duration
	status int
	body   string
	err    error
}

// A way sends a request over a base: with a peer's client, or with retrip.
type way func(base http.RoundTripper) *http.Client

// play sends a request on a fresh clock, in the same second as all others.
func play(t *testing.T, outcomes []outcome, r request, send way) (got record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := &base{outcomes: outcomes, start: start}
		ctx := t.Context()
		if r.deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, r.deadline)
			defer cancel()
		}
		if r.enough > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(r.enough, cancel)
		}
		client := send(b)
		for range max(r.times, 1) {
			got.status, got.body, got.err = call(ctx, t, client, r)
		}
		got.took, got.at, got.bodies = time.Since(start), b.at, b.bodies
		time.Sleep(time.Hour) // for whoever still reads a body that stalls
	})
	return got
}

func call(ctx context.Context, t *testing.T, client *http.Client, r request) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, r.method, "http://host/path", nil)
	require.NoError(t, err)
	if r.body != "" {
		req.Body = io.NopCloser(strings.NewReader(r.body))
		req.ContentLength = int64(len(r.body))
		if !r.opaque {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(r.body)), nil }
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(text), nil
}

// atOnce makes a base's first attempt take no time.
func atOnce(rt http.RoundTripper) http.RoundTripper {
	b := rt.(*base)
	b.outcomes = append([]outcome{}, b.outcomes...)
	if first := &b.outcomes[0]; first.hangs {
		first.hangs, first.err = false, timedOut{}
	} else {
		first.takes = 0
	}
	return b
}

// A base plays its outcomes one after the other, the last one for ever, and
// keeps account.
type base struct {
	outcomes []outcome
	start    time.Time
	at       []time.Duration
	bodies   []string
}

func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	o := b.outcomes[min(len(b.at), len(b.outcomes)-1)]
	if first := b.outcomes[0]; first.moved && req.URL.Path == "/path" {
		o = first
	}
	b.at = append(b.at, time.Since(b.start))
	body, err := readAndClose(req.Body)
	if b.bodies = append(b.bodies, body); err != nil {
		return nil, err
	}
	if o.hangs {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	time.Sleep(o.takes)
	if o.err != nil {
		return nil, o.err
	}
	resp := &http.Response{
		StatusCode: o.status, Status: strconv.Itoa(o.status) + " " + http.StatusText(o.status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, ContentLength: -1, Request: req,
		Body: &answer{strings.NewReader(o.body), o.stalls},
	}
	if name, value, ok := strings.Cut(o.header, ": "); ok {
		if wait, err := time.ParseDuration(value); err == nil && value[0] == '+' {
			value = time.Now().Add(wait).UTC().Format(http.TimeFormat)
		}
		resp.Header.Set(name, value)
	}
	return resp, nil
}

func readAndClose(body io.ReadCloser) (string, error) {
	if body == nil {
		return "", nil
	}
	text, err := io.ReadAll(body)
	return string(text), errors.Join(err, body.Close())
}

// An answer is a response's body.
type answer struct {
	text   *strings.Reader // not embedded: io.Copy would find its WriteTo
	stalls time.Duration
}

func (a *answer) Read(p []byte) (int, error) {
	if a.text.Len() > 0 {
		time.Sleep(a.stalls)
		a.stalls = 0
	}
	return a.text.Read(p)
}

func (a *answer) Close() error { return nil }
