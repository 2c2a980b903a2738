package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const printed = `GET <a> & "b"
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in 17ms (backoff)
  2        429 Too Many Requests    throttled  again in 1s (Retry-After)
  3        200 OK                   success    done
  returned: 200 OK, "hello"

POST that fails
  attempt  outcome  class      what next
  1        timeout  transient  stop: not idempotent
  returned: 500 Internal Server Error, "oops"

2 requests in 4 attempts.
`

func TestParseKeepsEveryAttempt(t *testing.T) {
	t.Parallel()
	got, err := parse(printed)
	require.NoError(t, err)
	require.Equal(t, story{
		requests: []request{
			{`GET <a> & "b"`, []attempt{{"503", "transient", "backoff", ""}, {"429", "throttled", "Retry-After: 1s", ""}, {"200", "success", "", ""}}},
			{"POST that fails", []attempt{{"timeout", "transient", "", "stop: not idempotent"}}},
		},
		summary: "2 requests in 4 attempts.",
	}, got)
}

func drawn(t *testing.T, printed string) string {
	t.Helper()
	s, err := parse(printed)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, draw(&b, s))
	return b.String()
}

// Otherwise the picture would be out of date after each run.
func TestRandomBackoffsDoNotChangeThePicture(t *testing.T) {
	t.Parallel()
	require.Equal(t, drawn(t, printed), drawn(t, strings.ReplaceAll(printed, "17ms", "1m2.5s")))
}

func TestPictureIsWellFormed(t *testing.T) {
	t.Parallel()
	text := drawn(t, printed)
	require.Contains(t, text, "&lt;a&gt; &amp;")
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestUnknownOutputIsAnError(t *testing.T) {
	t.Parallel()
	for old, changed := range map[string]string{
		"POST that":                 "PATCH that",
		"stop: not":                 "halt: not",
		"2 requests in 4 attempts.": "",
		"timeout  transient":        "timeout transient",
		"GET <a>":                   "  1        200 OK  success  done\nGET <a>",
	} {
		_, err := parse(strings.Replace(printed, old, changed, 1))
		require.Error(t, err, changed)
	}
}
