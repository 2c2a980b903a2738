package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

const usage = `usage: fetch [flags] URL

Fetch sends one HTTP request, again if need be, and writes the response's body
to standard output.

  -mode name          how to retry: standard (the default), legacy,
                      adaptive or gated
  -attempts n         send the request n times at most; 1 means no retries
                      (default: as the mode says)
  -attempt-timeout d  how long an attempt may take to its response headers,
                      such as 2s (default: no limit)
  -timeout d          how long everything may take, such as 1m (default: no limit)
  -X method           the method (default: GET, or POST with -d)
  -H 'Name: value'    send a header; may be given more than once
  -d data             send data as the body: the text itself, @file for a file's
                      content, @- for standard input. Its Content-Type is up to -H
  -idempotent         the request may be sent again even if an attempt that
                      failed may have had its effect
  -o file             write the body to a file, which is replaced only when the
                      whole body is there
  -v                  report each attempt on standard error, and draw in the end
                      where the time went
  -h                  print this help

exit codes:

    0  a response with a status below 400
    1  a response with a status of 400 or more; its body is written as well
    2  the command line makes no sense; nothing was sent
    3  no response, or it could not be read or written to its end
  130  interrupted
`

// options is what the command line asks for.
type options struct {
	url            *url.URL
	method         string
	header         http.Header
	data           *string // nil: no body
	output         string  // empty: standard output
	mode           retrip.Mode
	attempts       int           // 0: as the mode says
	attemptTimeout time.Duration // 0: none
	timeout        time.Duration // 0: none
	idempotent     bool
	verbose        bool
}

// parse reads the command line. Its errors name the flag and say what to do,
// but don't repeat URL and headers, which may be confidential.
func parse(args []string) (options, error) {
	var (
		o       options
		headers []string
	)
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	flags.TextVar(&o.mode, "mode", retrip.ModeStandard, "")
	flags.Func("attempts", "", count(&o.attempts))
	flags.Func("attempt-timeout", "", duration(&o.attemptTimeout))
	flags.Func("timeout", "", duration(&o.timeout))
	flags.Func("X", "", method(&o.method))
	flags.Func("H", "", func(s string) error { headers = append(headers, s); return nil })
	flags.Func("d", "", func(s string) error { o.data = &s; return nil })
	flags.BoolVar(&o.idempotent, "idempotent", false, "")
	flags.StringVar(&o.output, "o", "", "")
	flags.BoolVar(&o.verbose, "v", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}

	switch {
	case flags.NArg() == 0:
		return o, errors.New("the URL is missing: put it after the flags")
	case flags.NArg() > 1:
		return o, errors.New("more than one argument after the flags: put the flags before the URL, and quote what has spaces")
	case o.method == "" && o.data != nil:
		o.method = http.MethodPost
	}
	var err error
	if o.header, err = parseHeaders(headers); err != nil {
		return o, err
	}
	o.url, err = parseURL(flags.Arg(0))
	return o, err
}

func count(n *int) func(string) error {
	return func(s string) (err error) {
		if *n, err = strconv.Atoi(s); err != nil || *n < 1 {
			return errors.New("use a whole number, 1 or more")
		}
		return nil
	}
}

func duration(d *time.Duration) func(string) error {
	return func(s string) (err error) {
		if *d, err = time.ParseDuration(s); err != nil || *d < 0 {
			return errors.New("use a duration such as 500ms, 10s or 1m, or 0 for no limit")
		}
		return nil
	}
}

func method(m *string) func(string) error {
	return func(s string) error {
		if !isToken(s) {
			return errors.New("use an HTTP method such as GET or POST")
		}
		*m = s
		return nil
	}
}

func parseHeaders(lines []string) (http.Header, error) {
	header := make(http.Header)
	for i, line := range lines {
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !found:
			return nil, fmt.Errorf("header %d has no colon: write -H 'Name: value'", i+1)
		case !isToken(name):
			return nil, fmt.Errorf("header %d has a name with other than letters, digits and dashes: write -H 'Name: value'", i+1)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, fmt.Errorf("header %d has a control character in its value: write -H 'Name: value' on one line", i+1)
		}
		header.Add(name, value)
	}
	return header, nil
}

// isToken reports whether s can be a method or a header's name: RFC 9110 5.6.2.
func isToken(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		isAlphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune(marks, r)
	})
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		if withURL := (*url.Error)(nil); errors.As(err, &withURL) {
			err = withURL.Err
		}
		return nil, fmt.Errorf("the URL makes no sense: %w", err)
	}
	switch {
	case u.Scheme == "" || u.Hostname() == "": // also of host:port, whose host is taken for a scheme
		return nil, errors.New("the URL is not complete: write it as https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("fetch speaks http and https, not %s: use a URL that begins with https:// or http://", u.Scheme)
	}
	return u, nil
}
