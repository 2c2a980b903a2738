package retrip

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// A Condition is what the outcome of an attempt may show: a status, a header,
// an error code, a text in its body, or an error. And and Or combine conditions.
// On makes a rule of one, and HintWhen reads a server-directed wait under one.
//
// A condition on a response never holds for an error, nor the other way round. A
// list of no values never holds. The zero Condition never holds either, and
// Transport.Validate reports it. A Condition is safe for concurrent use. Print it
// to see what it asks for.
type Condition struct {
	text     string
	status   func(int) bool                  // if it is on the status alone
	holds    func(Attempt) (ok, byCode bool) // if it is on more; byCode: a code that CodeIs lists is part of why
	codes    []string                        // that CodeIs lists anywhere in it; without the others, it is on these
	below400 bool                            // it names a status below 400
	err      error                           // why it makes no sense, or nil
}

// ConditionFunc makes a Condition of a function, which is printed as text. The
// function is called from many goroutines at once. Attempt.Response is nil if
// the attempt ended with an error. A nil function makes the zero Condition.
func ConditionFunc(text string, holds func(Attempt) bool) Condition {
	if holds == nil {
		return Condition{}
	}
	return Condition{text: text, holds: func(a Attempt) (bool, bool) { return holds(a), false }}
}

// onResponse is a condition that only a response can meet.
func onResponse(text string, holds func(Attempt) bool) Condition {
	return Condition{text: text, holds: func(a Attempt) (bool, bool) { return a.Response != nil && holds(a), false }}
}

// StatusIs holds for a response with one of the statuses.
func StatusIs(statuses ...int) Condition {
	statuses = slices.Clone(statuses)
	return Condition{
		text:     "status " + list(statuses),
		status:   func(status int) bool { return slices.Contains(statuses, status) },
		below400: slices.ContainsFunc(statuses, func(status int) bool { return status < 400 }),
	}
}

// StatusFrom holds for a response with the least status or one above it.
func StatusFrom(least int) Condition {
	return Condition{
		text:     fmt.Sprint("status from ", least),
		status:   func(status int) bool { return status >= least },
		below400: least < 400,
	}
}

// HasHeader holds for a response with the header, which may be empty.
// Transport.Validate reports an empty name.
func HasHeader(name string) Condition {
	return onHeader(name, "", func(string) bool { return true })
}

// HeaderIs holds for a response whose first header of the name has one of the
// values, in upper or lower case. Transport.Validate reports an empty name.
func HeaderIs(name string, values ...string) Condition {
	values = slices.Clone(values)
	return onHeader(name, ": "+list(values), func(value string) bool {
		return slices.ContainsFunc(values, func(known string) bool { return strings.EqualFold(known, value) })
	})
}

func onHeader(name, text string, holds func(value string) bool) Condition {
	key := http.CanonicalHeaderKey(name)
	c := onResponse("header "+name+text, func(a Attempt) bool {
		values := a.Response.Header[key]
		return len(values) > 0 && holds(values[0])
	})
	if name == "" {
		c.err = errors.New("has no header name: name the header to look at")
	}
	return c
}

// CodeIs holds for a response with one of the error codes, in upper and lower
// case as given. Events and logs show a code only if a rule lists it here.
func CodeIs(codes ...string) Condition {
	codes = slices.DeleteFunc(append([]string{}, codes...), func(code string) bool { return code == "" })
	return Condition{text: "code " + list(codes), codes: codes}
}

// CodeContains holds for a response whose error code contains piece, in upper
// and lower case as given.
func CodeContains(piece string) Condition {
	return onResponse("code contains "+piece, func(a Attempt) bool {
		return a.Code != "" && strings.Contains(a.Code, piece)
	})
}

// FieldIs holds for a 4xx or 5xx response in whose JSON body (Attempt.Body) the
// text at path, such as "error.code", is one of the values. Transport.Validate
// reports an empty path.
func FieldIs(path string, values ...string) Condition {
	values = slices.Clone(values)
	return onField(path, fmt.Sprintf("body %s: %s", path, list(values)), func(text string) bool {
		return slices.Contains(values, text)
	})
}

// FieldContains holds as FieldIs does where the text at path contains one of the
// pieces, in upper or lower case.
func FieldContains(path string, pieces ...string) Condition {
	text := fmt.Sprintf("body %s: …%s…", path, strings.Join(pieces, "…, …"))
	lower := make([]string, len(pieces))
	for i, piece := range pieces {
		lower[i] = strings.ToLower(piece)
	}
	return onField(path, text, func(text string) bool {
		text = strings.ToLower(text)
		return slices.ContainsFunc(lower, func(piece string) bool { return strings.Contains(text, piece) })
	})
}

func onField(path, text string, holds func(text string) bool) Condition {
	c := onResponse(text, func(a Attempt) bool {
		var text *string // nil for null
		return json.Unmarshal(field(a.Body, path), &text) == nil && text != nil && holds(*text)
	})
	if path == "" {
		c.err = errors.New("has no path: name the field to look at, such as error.code")
	}
	return c
}

// field is the value at a path in a JSON body, or nil. An incomplete body has
// none.
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

// HasHint holds for a response in which r reads a hint. Transport.Validate reports
// a nil r.
func HasHint(r HintReader) Condition {
	c := onResponse("a hint in "+describe(r), func(a Attempt) bool {
		_, ok := r.ReadHint(a)
		return ok
	})
	c.err = checkPart(r)
	return c
}

// ErrorIs holds for an error that matches target by errors.Is.
func ErrorIs(target error) Condition {
	return ConditionFunc(fmt.Sprintf("errors.Is %v", target), func(a Attempt) bool {
		return a.Err != nil && errors.Is(a.Err, target)
	})
}

// ErrorAs holds for an error with an E in its tree, by errors.As.
func ErrorAs[E error]() Condition {
	return ConditionFunc(fmt.Sprintf("errors.As %v", reflect.TypeFor[E]()), func(a Attempt) bool {
		return a.Err != nil && errors.As(a.Err, new(E))
	})
}

// And holds where both conditions do.
func (c Condition) And(d Condition) Condition {
	return c.with(d, c.text+" and "+d.text, func(a Attempt) (ok, byCode bool) {
		if ok, byCode = c.match(&a); !ok {
			return false, false
		}
		ok, too := d.match(&a)
		return ok, ok && (byCode || too)
	})
}

// Or holds where at least one of the conditions does.
func (c Condition) Or(d Condition) Condition {
	return c.with(d, "("+c.text+" or "+d.text+")", func(a Attempt) (ok, byCode bool) {
		if ok, byCode = c.match(&a); byCode {
			return true, true
		}
		other, byCode := d.match(&a)
		return ok || other, byCode
	})
}

func (c Condition) with(d Condition, text string, holds func(Attempt) (ok, byCode bool)) Condition {
	err := c.check()
	if err == nil {
		err = d.check()
	}
	return Condition{
		text: text, holds: holds, codes: slices.Concat(c.codes, d.codes), below400: c.below400 || d.below400, err: err,
	}
}

func (c *Condition) match(a *Attempt) (ok, byCode bool) {
	switch {
	case c.status != nil:
		return a.Response != nil && c.status(a.Response.StatusCode), false
	case c.holds != nil:
		return c.holds(*a)
	}
	ok = a.Code != "" && slices.Contains(c.codes, a.Code)
	return ok, ok
}

// String returns the condition in words, such as "status 403, 429 and header
// X-RateLimit-Remaining: 0".
func (c Condition) String() string { return c.text }

func (c Condition) check() error {
	if c.err == nil && c.status == nil && c.holds == nil && c.codes == nil {
		return errors.New("has no condition: use StatusIs, CodeIs or another one")
	}
	return c.err
}

// list writes values as "a, b".
func list[T any](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, ", ")
}
