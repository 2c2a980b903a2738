package retrip

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hint is a wait the server asked for.
type Hint struct {
	// Wait is how long, counted from when the response came. A moment in the past
	// asks for no wait: a negative Wait counts as 0.
	Wait time.Duration
	// From names where the hint was read, such as "Retry-After". It must come
	// from the program, never from the server: events and logs show it.
	From string
	// MaxExcess, if above 0, is how far the hint may go beyond our own backoff. A
	// longer hint is cut to that before Strategy.MaxRetryAfter measures it.
	MaxExcess time.Duration
	// Additive tells that the wait comes on top of our own backoff; otherwise the
	// longer of the two is waited.
	Additive bool
}

// A HintReader reads a Hint from an attempt that got a response; ok is false
// if there is none or it makes no sense. ReadHint is called from many
// goroutines at once.
type HintReader interface {
	ReadHint(Attempt) (h Hint, ok bool)
}

// HintReaderFunc makes a HintReader of a function, which must be safe for
// concurrent use.
type HintReaderFunc func(Attempt) (h Hint, ok bool)

// ReadHint calls f.
func (f HintReaderFunc) ReadHint(a Attempt) (Hint, bool) { return f(a) }

// HintFormat is how a header writes a wait.
type HintFormat uint8

const (
	// SecondsOrDate is RFC 9110's Retry-After: whole seconds or an HTTP date in
	// any of its three forms; here also seconds with a fraction, as some
	// services send. A date counts from the response's own Date if it has one,
	// so that a wrong clock on either side does no harm.
	SecondsOrDate HintFormat = iota
	// Milliseconds may have a fraction.
	Milliseconds
	// WholeMilliseconds are nothing but ASCII digits.
	WholeMilliseconds
	// Seconds may have a fraction.
	Seconds
	// EpochSeconds is a moment in seconds since 1970, perhaps with a fraction.
	// Like a date, it counts from the response's own Date if it has one.
	EpochSeconds
)

var hintFormatNames = [...]string{"seconds or date", "milliseconds", "whole milliseconds", "seconds", "seconds since 1970"}

// String returns the format in words.
func (f HintFormat) String() string { return nameOf(hintFormatNames[:], f) }

// HintHeader is a HintReader for one response header, by default (Format) in the
// form of RFC 9110's Retry-After. The first of several header lines counts.
// Negative values, exponents, NaN and garbage are ignored; a number too large for
// a time.Duration is the largest one. Transport.Validate reports an empty Name, a
// negative MaxExcess and a Format that does not exist.
type HintHeader struct {
	Name      string
	Format    HintFormat
	MaxExcess time.Duration // see Hint.MaxExcess
	Additive  bool          // see Hint.Additive
}

// The headers that mean the same wherever they appear, the most exact first.
// Headers that mean different things at different services are not among them.
var (
	amzRetryAfter = HintHeader{ // AWS SDKs and Tools Reference Guide, "Retry behavior"
		Name: "X-Amz-Retry-After", Format: WholeMilliseconds, MaxExcess: 5 * time.Second,
	}
	retryAfterMS   = HintHeader{Name: "Retry-After-Ms", Format: Milliseconds}      // Azure, OpenAI, Anthropic
	msRetryAfterMS = HintHeader{Name: "X-Ms-Retry-After-Ms", Format: Milliseconds} // Azure
	retryAfter     = HintHeader{Name: "Retry-After", Format: SecondsOrDate}        // RFC 9110 10.2.3
)

// modeReaders are the hints of the modes.
var modeReaders = withHeaders(modeHints)

// ReadHint reads the header.
func (w HintHeader) ReadHint(a Attempt) (Hint, bool) {
	value := a.Response.Header.Get(w.Name)
	if value == "" {
		return Hint{}, false
	}
	var (
		wait time.Duration
		ok   bool
	)
	switch w.Format {
	case WholeMilliseconds:
		wait, ok = parseDecimal(value, time.Millisecond)
		ok = ok && !strings.Contains(value, ".")
	case Milliseconds:
		wait, ok = parseDecimal(strings.TrimSpace(value), time.Millisecond)
	case Seconds:
		wait, ok = parseDecimal(strings.TrimSpace(value), time.Second)
	case EpochSeconds:
		if wait, ok = parseDecimal(strings.TrimSpace(value), time.Second); ok {
			wait = until(time.Unix(0, int64(wait)), a)
		}
	default:
		value = strings.TrimSpace(value)
		if wait, ok = parseDecimal(value, time.Second); !ok {
			wait, ok = parseDate(value, a)
		}
	}
	return Hint{Wait: wait, From: w.Name, MaxExcess: w.MaxExcess, Additive: w.Additive}, ok
}

// HintWhen reads a hint with r where the condition holds. Use it for a header
// that a service sends with every response, such as X-RateLimit-Reset.
// Transport.Validate reports a zero condition and a nil r.
func HintWhen(c Condition, r HintReader) HintReader { return conditionalHint{c, r} }

type conditionalHint struct {
	when Condition
	HintReader
}

func (c conditionalHint) ReadHint(a Attempt) (Hint, bool) {
	if ok, _ := c.when.match(&a); !ok {
		return Hint{}, false
	}
	return c.HintReader.ReadHint(a)
}

func (c conditionalHint) String() string {
	return fmt.Sprintf("%s, with %v", describe(c.HintReader), c.when)
}

func (c conditionalHint) check() error {
	if err := c.when.check(); err != nil {
		return err
	}
	return checkPart(c.HintReader)
}

// HintField is a HintReader for a number of seconds at a path in the JSON body
// of a 4xx or 5xx response, such as "retry_after". Negative numbers are ignored.
// Transport.Validate reports an empty path.
type HintField string

// ReadHint reads the field.
func (path HintField) ReadHint(a Attempt) (Hint, bool) {
	var n *float64 // nil for null
	if json.Unmarshal(field(a.Body, string(path)), &n) != nil || n == nil || *n < 0 {
		return Hint{}, false
	}
	wait := time.Duration(math.MaxInt64)
	if span := math.Round(*n * float64(time.Second)); span < math.MaxInt64 {
		wait = time.Duration(span)
	}
	return Hint{Wait: wait, From: string(path)}, true
}

// String returns, for example, "retry_after in the body (seconds)".
func (path HintField) String() string { return string(path) + " in the body (seconds)" }

func (path HintField) check() error {
	if path == "" {
		return errors.New("has no path: name the field to read, such as retry_after")
	}
	return nil
}

// A headerReader is a HintReader that need not be asked if the response lacks
// its header, unless that is "": most responses have none of those headers.
type headerReader struct {
	header string
	HintReader
}

// headerReaders finds out which headers the readers read. Those of our own modes
// are shared, or they would be half of what an idle host takes.
func headerReaders(readers []HintReader) []headerReader {
	if slices.Equal(readers, modeHints) {
		return modeReaders
	}
	return withHeaders(readers)
}

func withHeaders(readers []HintReader) []headerReader {
	known := make([]headerReader, len(readers))
	for i, reader := range readers {
		known[i].HintReader = reader
		if w, ok := reader.(HintHeader); ok {
			known[i].header = http.CanonicalHeaderKey(w.Name)
		}
	}
	return known
}

// headerValue is Header.Get for a name that is known to be in canonical form,
// which takes a third of the time.
func headerValue(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// String returns, for example, "Retry-After (seconds or date)".
func (w HintHeader) String() string {
	if w.MaxExcess > 0 {
		return fmt.Sprintf("%s (%v, at most %v above the backoff)", w.Name, w.Format, w.MaxExcess)
	}
	if w.Additive {
		return fmt.Sprintf("%s (%v, added to the backoff)", w.Name, w.Format)
	}
	return fmt.Sprintf("%s (%v)", w.Name, w.Format)
}

func (w HintHeader) check() error {
	switch {
	case w.Name == "":
		return errors.New("has no header name: name the header to read")
	case w.MaxExcess < 0:
		return fmt.Errorf("has a MaxExcess of %v, which is negative: use 0 for no bound", w.MaxExcess)
	case int(w.Format) >= len(hintFormatNames):
		return fmt.Errorf("has the format %v, which does not exist: use one of SecondsOrDate to EpochSeconds", w.Format)
	}
	return nil
}

// parseDecimal reads digits, perhaps with a fraction, as a multiple of unit.
// strconv alone would also take signs, exponents, hexadecimals and infinity.
func parseDecimal(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" || s[0] == '.' || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(n, 1) {
		return 0, false // two points
	}
	if product := n * float64(unit); product < math.MaxInt64 {
		return time.Duration(product), true
	}
	return math.MaxInt64, true
}

func parseDate(s string, a Attempt) (time.Duration, bool) {
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return until(at, a), true
}

// until is how long before a moment the response was sent, by the sender's own
// clock if it tells it.
func until(at time.Time, a Attempt) time.Duration {
	now, err := http.ParseTime(headerValue(a.Response.Header, "Date"))
	if err != nil {
		now = a.Done
	}
	return max(0, at.Sub(now)) // Sub saturates
}
