package services

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/retrip-go/retrip"
)

type (
	rules []retrip.Classifier
	waits []retrip.HintReader
)

// standard returns retrip.Standard with a service's own rules and waits: the
// rules are asked first, the waits are the only ones.
func standard(first rules, instead waits) *retrip.Strategy {
	s := retrip.Standard()
	s.Classifiers = append(first, s.Classifiers...)
	s.Hints = instead
	return s
}

// A sign is something that a 4xx or 5xx may show.
type sign struct {
	text string
	in   func(retrip.Attempt) bool
}

func (s sign) and(t sign) sign {
	return sign{s.text + " and " + t.text, func(a retrip.Attempt) bool { return s.in(a) && t.in(a) }}
}

func (s sign) or(t sign) sign {
	return sign{"(" + s.text + " or " + t.text + ")", func(a retrip.Attempt) bool { return s.in(a) || t.in(a) }}
}

// status is one of some statuses.
func status(codes ...int) sign {
	return sign{fmt.Sprintf("status %v", codes), func(a retrip.Attempt) bool { return slices.Contains(codes, a.Response.StatusCode) }}
}

// from is any status from the least on.
func from(least int) sign {
	return sign{fmt.Sprintf("status from %d", least), func(a retrip.Attempt) bool { return a.Response.StatusCode >= least }}
}

// header is a header with a value, upper and lower case being the same; an
// empty value stands for any.
func header(name, value string) sign {
	return sign{
		strings.TrimSuffix(fmt.Sprintf("header %s: %s", name, value), ": "),
		func(a retrip.Attempt) bool {
			values := a.Response.Header.Values(name)
			return len(values) > 0 && (value == "" || strings.EqualFold(values[0], value))
		},
	}
}

// asks is a wait that can be read.
func asks(w retrip.HintReader) sign {
	return sign{fmt.Sprint("a wait in ", w), func(a retrip.Attempt) bool {
		_, ok := w.ReadHint(a)
		return ok
	}}
}

// is is a text in a JSON body that is one of some values.
func is(path string, values ...string) sign {
	return sign{
		fmt.Sprintf("body %s: %s", path, strings.Join(values, ", ")),
		func(a retrip.Attempt) bool { return slices.Contains(values, text(a.Body, path)) },
	}
}

// says is a text in a JSON body that contains one of some pieces, which are in
// lower case; the text need not be.
func says(path string, pieces ...string) sign {
	return sign{
		fmt.Sprintf("body %s: …%s…", path, strings.Join(pieces, "…, …")),
		func(a retrip.Attempt) bool {
			said := strings.ToLower(text(a.Body, path))
			return slices.ContainsFunc(pieces, func(piece string) bool { return strings.Contains(said, piece) })
		},
	}
}

// on makes a rule of a sign.
func on(c retrip.Class, s sign) retrip.Classifier { return rule{c, s} }

type rule struct {
	class retrip.Class
	sign  sign
}

func (r rule) Classify(a retrip.Attempt) retrip.Class {
	if a.Response != nil && a.Response.StatusCode >= 400 && r.sign.in(a) {
		return r.class
	}
	return retrip.Unknown
}

// FailuresOnly keeps successes cheap; see retrip.Classifier.
func (r rule) FailuresOnly() bool { return true }

func (r rule) String() string { return fmt.Sprintf("%v: %s", r.class, r.sign.text) }

// when reads a wait only where there is a sign of it.
func when(s sign, w retrip.HintReader) retrip.HintReader { return conditional{s, w} }

type conditional struct {
	sign sign
	retrip.HintReader
}

func (c conditional) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	if !c.sign.in(a) {
		return retrip.Hint{}, false
	}
	return c.HintReader.ReadHint(a)
}

func (c conditional) String() string { return fmt.Sprintf("%v, with %s", c.HintReader, c.sign.text) }

// plus makes a wait longer.
func plus(w retrip.HintReader, more time.Duration) retrip.HintReader { return longer{w, more} }

type longer struct {
	retrip.HintReader
	more time.Duration
}

func (l longer) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	h, ok := l.HintReader.ReadHint(a)
	h.Wait = min(h.Wait, math.MaxInt64-l.more) + l.more
	return h, ok
}

func (l longer) String() string { return fmt.Sprintf("%v + %v", l.HintReader, l.more) }

// epoch is a header that names a moment, seconds a header that names a span.
func epoch(name string) retrip.HintReader {
	return retrip.HintHeader{Name: name, Format: retrip.EpochSeconds}
}

func seconds(name string) retrip.HintReader {
	return retrip.HintHeader{Name: name, Format: retrip.Seconds}
}

// A pause is what a service wants without saying so in the answer.
type pause struct {
	wait     time.Duration
	doubling bool // with each attempt
}

func (p pause) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	wait := p.wait
	if p.doubling {
		wait <<= min(max(a.Number-1, 0), 20) // a minute doubled 20 times is two years
	}
	return retrip.Hint{Wait: wait, From: "the service's documentation"}, true
}

func (p pause) String() string {
	if p.doubling {
		return fmt.Sprintf("%v, doubled with each attempt", p.wait)
	}
	return p.wait.String()
}

// jsonSeconds is a number of seconds in a JSON body.
type jsonSeconds string

func (path jsonSeconds) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	var n *float64 // nil for null
	if json.Unmarshal(field(a.Body, string(path)), &n) != nil || n == nil || *n < 0 {
		return retrip.Hint{}, false
	}
	wait := time.Duration(math.MaxInt64)
	if span := math.Round(*n * float64(time.Second)); span < math.MaxInt64 {
		wait = time.Duration(span)
	}
	return retrip.Hint{Wait: wait, From: string(path)}, true
}

func (path jsonSeconds) String() string { return fmt.Sprintf("%s in the body (seconds)", string(path)) }

// text is the string at a path in a JSON body, or empty.
func text(body []byte, path string) (s string) {
	if json.Unmarshal(field(body, path), &s) != nil {
		return ""
	}
	return s
}

// field is the value at a path in a JSON body, such as "error.code", or nil. A
// body of which only the beginning is at hand has none.
func field(body []byte, path string) json.RawMessage {
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			return nil
		}
		body = object[name]
	}
	return body
}
