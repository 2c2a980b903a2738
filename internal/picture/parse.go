package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// A story is what the quickstart printed.
type story struct {
	requests []request
	summary  string // the last line
}

type request struct {
	title    string
	attempts []attempt
}

type attempt struct {
	outcome string // "503", "400 ThrottlingException", "timeout"
	class   string // "success", "transient", "throttled"
	wait    string // what is waited for before the next attempt, or ""
	stop    string // why there is no next attempt after a failure, or ""
}

var (
	columns = regexp.MustCompile(` {2,}`)
	backoff = regexp.MustCompile(`^again in \S+ \(backoff\)$`)
	hint    = regexp.MustCompile(`^again in (\S+) \((\S+)\)$`)
)

// parse reads the quickstart's tables. A line that it does not know is an error,
// so that no change of the quickstart is left out of the picture.
func parse(printed string) (story, error) {
	var s story
	for line := range strings.Lines(printed) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "", strings.HasPrefix(line, "  attempt "), strings.HasPrefix(line, "  returned: "):
		case strings.HasPrefix(line, "  "):
			a, err := parseAttempt(line)
			if err != nil {
				return story{}, err
			}
			if len(s.requests) == 0 {
				return story{}, fmt.Errorf("an attempt before the first request: %q", line)
			}
			last := &s.requests[len(s.requests)-1]
			last.attempts = append(last.attempts, a)
		case strings.HasPrefix(line, "GET "), strings.HasPrefix(line, "POST "):
			s.requests = append(s.requests, request{title: line})
		case s.summary == "" && len(s.requests) > 0:
			s.summary = line
		default:
			return story{}, fmt.Errorf("the quickstart printed a line that this command does not know: %q", line)
		}
	}
	if s.summary == "" {
		return story{}, fmt.Errorf("the quickstart printed no summary")
	}
	return s, nil
}

func parseAttempt(line string) (attempt, error) {
	cells := columns.Split(strings.TrimSpace(line), -1)
	if len(cells) != 4 {
		return attempt{}, fmt.Errorf("%d columns where 4 are expected: %q", len(cells), line)
	}
	a := attempt{outcome: short(cells[1]), class: cells[2]}
	next := cells[3]
	switch {
	case next == "done":
	case backoff.MatchString(next):
		a.wait = "backoff"
	case hint.MatchString(next):
		a.wait = hint.ReplaceAllString(next, "$2: $1")
	case strings.HasPrefix(next, "stop: "):
		a.stop = next
	default:
		return attempt{}, fmt.Errorf("unknown next step %q", next)
	}
	return a, nil
}

// short leaves out the text of a status: "503 Service Unavailable" is 503.
func short(outcome string) string {
	number, text, _ := strings.Cut(outcome, " ")
	if status, err := strconv.Atoi(number); err == nil && text == http.StatusText(status) {
		return number
	}
	return outcome
}
