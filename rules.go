package retrip

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// OnStatus gives the responses with one of the statuses the class c.
func OnStatus(c Class, statuses ...int) Classifier {
	return statusRule{c, slices.Clone(statuses)}
}

// OnCode gives the responses with one of the error codes the class c. Codes
// are compared exactly.
func OnCode(c Class, codes ...string) Classifier {
	return newCodeRule(c, codes...)
}

// OnHeader gives the 4xx and 5xx responses whose first header of the name has
// the value the class c. An empty value stands for any, also an empty one.
// Upper and lower case are the same.
func OnHeader(c Class, name, value string) Classifier {
	return headerRule{c, http.CanonicalHeaderKey(name), value}
}

// OnError gives the errors that match target, by errors.Is, the class c.
func OnError(c Class, target error) Classifier {
	return errorRule{c, fmt.Sprintf("errors.Is %v", target), func(err error) bool { return errors.Is(err, target) }}
}

// OnErrorType gives the errors that have an E in their tree, by errors.As, the
// class c.
func OnErrorType[E error](c Class) Classifier {
	return errorRule{c, fmt.Sprintf("errors.As %T", *new(E)), func(err error) bool { return errors.As(err, new(E)) }}
}

type statusRule struct {
	class    Class
	statuses []int
}

func (r statusRule) Classify(a Attempt) Class {
	if a.Response != nil && slices.Contains(r.statuses, a.Response.StatusCode) {
		return r.class
	}
	return Unknown
}

func (r statusRule) String() string { return fmt.Sprintf("%v: status %v", r.class, r.statuses) }
func (r statusRule) check() error   { return r.class.check() }
func (r statusRule) FailuresOnly() bool {
	return !slices.ContainsFunc(r.statuses, func(status int) bool { return status < 400 })
}

// codeRule is a type of its own because its verdicts weigh more: they prove
// what happened to the request, and its codes are safe to show.
type codeRule struct {
	class  Class
	status int // that the response must have, or 0
	codes  map[string]struct{}
}

func newCodeRule(c Class, codes ...string) *codeRule {
	set := make(map[string]struct{}, len(codes))
	for _, code := range codes {
		if code != "" { // no code is no code, whoever lists it
			set[code] = struct{}{}
		}
	}
	return &codeRule{class: c, codes: set}
}

func (r *codeRule) Classify(a Attempt) Class {
	if a.Code == "" || r.status != 0 && a.Response.StatusCode != r.status {
		return Unknown
	}
	if _, listed := r.codes[a.Code]; listed {
		return r.class
	}
	return Unknown
}

func (r *codeRule) String() string {
	if r.status != 0 {
		return fmt.Sprintf("%v: %d codes with status %d", r.class, len(r.codes), r.status)
	}
	return fmt.Sprintf("%v: %d codes", r.class, len(r.codes))
}
func (r *codeRule) check() error       { return r.class.check() }
func (r *codeRule) FailuresOnly() bool { return true }

type headerRule struct {
	class       Class
	name, value string
}

func (r headerRule) Classify(a Attempt) Class {
	if a.Response == nil || a.Response.StatusCode < 400 {
		return Unknown
	}
	if values := a.Response.Header[r.name]; len(values) > 0 && (r.value == "" || strings.EqualFold(values[0], r.value)) {
		return r.class
	}
	return Unknown
}

func (r headerRule) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%v: header %s: %s", r.class, r.name, r.value), ": ")
}

func (r headerRule) check() error {
	if r.name == "" {
		return errors.New("has no header name")
	}
	return r.class.check()
}

func (r headerRule) FailuresOnly() bool { return true }

type errorRule struct {
	class Class
	what  string
	match func(error) bool
}

func (r errorRule) Classify(a Attempt) Class {
	if a.Err != nil && r.match(a.Err) {
		return r.class
	}
	return Unknown
}

func (r errorRule) String() string { return fmt.Sprintf("%v: %s", r.class, r.what) }
func (r errorRule) check() error   { return r.class.check() }

func (r errorRule) FailuresOnly() bool { return true }
