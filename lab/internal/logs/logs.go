// Package logs reads access logs: who asked when, and what came of it.
package logs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Entry is one attempt in a log.
type Entry struct {
	At      time.Time
	Client  string
	Request string // method and path, to tell repeated requests
	Status  int    // 0: no answer
	Took    time.Duration
	Retry   bool
	marked  bool // the log itself says whether it is a retry
	key     string
}

// A Log is what a file holds, in the order of time.
type Log struct {
	Entries []Entry
	// Marked tells that the log says which attempts are retries; otherwise they were
	// told by the same client repeating a request that failed.
	Marked bool
	// Timed tells that the log says how long attempts took.
	Timed bool
	// Skipped is how many lines could not be read.
	Skipped int
}

// Formats are the formats that Read knows.
var Formats = []string{"combined", "json", "otlp"}

// Read reads a file.
func Read(name, format string) (*Log, error) {
	if !slices.Contains(Formats, format) {
		return nil, fmt.Errorf("-format is %q: use one of %s", format, strings.Join(Formats, ", "))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name a log file that can be read", err)
	}
	defer f.Close()
	log := new(Log)
	if err := log.read(f, name, format); err != nil {
		return nil, err
	}
	if len(log.Entries) == 0 {
		return nil, fmt.Errorf("%s: no line is in the format %s (%d were skipped): choose another with -format", name, format, log.Skipped)
	}
	slices.SortStableFunc(log.Entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	log.tellRetries()
	return log, nil
}

func (l *Log) read(r io.Reader, name, format string) error {
	if format == "otlp" {
		return l.readOTLP(r, name)
	}
	parse := combined
	if format == "json" {
		parse = jsonLine
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		e, err := parse(text)
		if err != nil {
			l.Skipped++
			if l.Skipped > 100 && l.Skipped > len(l.Entries) {
				return fmt.Errorf("%s:%d: %w: most lines are not in the format %s; choose another with -format", name, n, err, format)
			}
			continue
		}
		l.Entries = append(l.Entries, e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w: the file must have lines of less than 1 MiB", name, err)
	}
	return nil
}

var combinedLine = regexp.MustCompile(`^(\S+) \S+ .*?\[([^\]]+)\] "([^"]*)" (\d{3}) (?:\d+|-)(.*)$`)

// combined reads a line of the Combined Log Format, with the request's time in
// seconds in a last field if there is one, as $request_time of nginx or %T of Apache
// write it, also as rt=0.123.
func combined(line string) (e Entry, err error) {
	m := combinedLine.FindStringSubmatch(line)
	if m == nil {
		return e, errors.New("is no line of the Combined Log Format")
	}
	e.Client, e.Request = m[1], m[3]
	if e.At, err = time.Parse("02/Jan/2006:15:04:05 -0700", m[2]); err != nil {
		return e, fmt.Errorf("has no time like 02/Jan/2006:15:04:05 -0700: %w", err)
	}
	e.Status, _ = strconv.Atoi(m[4])
	if fields := strings.Fields(m[5]); len(fields) > 0 {
		last := strings.TrimPrefix(fields[len(fields)-1], "rt=")
		if seconds, err := strconv.ParseFloat(last, 64); err == nil {
			e.Took = span(seconds)
		}
	}
	return e, nil
}

// span is a duration of so many seconds, without overflow.
func span(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(math.Min(seconds*1e9, math.MaxInt64/2))
}

// The names that fields of JSON logs go by.
var (
	timeNames    = []string{"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local"}
	clientNames  = []string{"client", "client_ip", "remote_addr", "remote_ip", "client.address", "host"}
	statusNames  = []string{"status", "status_code", "response_code", "http.response.status_code"}
	secondsNames = []string{"request_time", "duration", "latency", "elapsed", "took"}
	millisNames  = []string{"duration_ms", "latency_ms", "elapsed_ms", "took_ms"}
	resendNames  = []string{"http.request.resend_count", "resend_count", "retry_count"}
	amzNames     = []string{"amz-sdk-request", "amz_sdk_request", "http.request.header.amz-sdk-request"}
	keyNames     = []string{"idempotency_key", "idempotency-key", "traceparent", "trace_id"}
)

func jsonLine(line string) (e Entry, err error) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		return e, fmt.Errorf("is no JSON object: %w", err)
	}
	return entryOf(fields)
}

func entryOf(fields map[string]any) (e Entry, err error) {
	at, ok := find(fields, timeNames)
	if !ok {
		return e, fmt.Errorf("has no time: name it %s", timeNames[0])
	}
	if e.At, err = moment(at); err != nil {
		return e, err
	}
	status, ok := find(fields, statusNames)
	if !ok {
		return e, fmt.Errorf("has no status: name it %s", statusNames[0])
	}
	code, _ := numeric(status)
	e.Status = int(code)
	if v, ok := find(fields, clientNames); ok {
		e.Client = fmt.Sprint(v)
	}
	for _, name := range []string{"method", "request", "uri", "path", "url"} {
		if v, ok := fields[name]; ok {
			e.Request += fmt.Sprint(v) + " "
		}
	}
	if v, ok := find(fields, secondsNames); ok {
		e.Took = duration(v)
	} else if v, ok := find(fields, millisNames); ok {
		ms, _ := numeric(v)
		e.Took = span(ms / 1000)
	}
	e.mark(fields)
	return e, nil
}

// mark finds what says whether the attempt is a retry.
func (e *Entry) mark(fields map[string]any) {
	if v, ok := find(fields, resendNames); ok {
		n, _ := numeric(v)
		e.marked, e.Retry = true, n > 0
	} else if v, ok := find(fields, amzNames); ok {
		_, rest, found := strings.Cut(fmt.Sprint(v), "attempt=")
		number, _, _ := strings.Cut(rest, ";")
		n, _ := strconv.Atoi(strings.TrimSpace(number))
		e.marked, e.Retry = found, n > 1
	} else if v, ok := find(fields, keyNames); ok {
		e.key = fmt.Sprint(v)
		if parts := strings.Split(e.key, "-"); len(parts) == 4 {
			e.key = parts[1] // the trace of a traceparent
		}
	}
}

func find(fields map[string]any, names []string) (any, bool) {
	for _, name := range names {
		if v, ok := fields[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func moment(v any) (time.Time, error) {
	if text, ok := v.(string); ok {
		for _, layout := range []string{time.RFC3339Nano, "02/Jan/2006:15:04:05 -0700", "2006-01-02 15:04:05.999999999"} {
			if at, err := time.Parse(layout, text); err == nil {
				return at, nil
			}
		}
	}
	n, ok := numeric(v)
	if !ok || !(n > 0) || n > 4e18 {
		return time.Time{}, fmt.Errorf("has the time %v: write it as RFC 3339, or as seconds since 1970", v)
	}
	for n > 1e11 { // milli-, micro- or nanoseconds
		n /= 1000
	}
	return time.UnixMicro(int64(n * 1e6)).UTC(), nil
}

func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil
	}
	return 0, false
}

// duration reads seconds, or a text with a unit.
func duration(v any) time.Duration {
	if text, ok := v.(string); ok {
		if d, err := time.ParseDuration(text); err == nil {
			return max(d, 0)
		}
	}
	n, _ := numeric(v)
	return span(n)
}

// tellRetries marks retries where the log does not: an attempt that bears the key of
// an earlier one, or that repeats a request of the same client which failed within
// the half minute before.
func (l *Log) tellRetries() {
	type id struct{ client, request string }
	failed := map[id]time.Time{}
	keys := map[string]bool{}
	for i := range l.Entries {
		e := &l.Entries[i]
		l.Timed = l.Timed || e.Took > 0
		this := id{e.Client, e.Request}
		switch {
		case e.marked:
			l.Marked = true
		case e.key != "":
			l.Marked = true
			e.Retry = keys[e.key]
			keys[e.key] = true
		default:
			at, ok := failed[this]
			e.Retry = ok && e.At.Sub(at) <= 30*time.Second
		}
		if delete(failed, this); e.Failed() {
			failed[this] = e.At
		}
	}
}

// Failed reports whether the attempt failed in a way that is retried.
func (e *Entry) Failed() bool { return e.Status == 0 || e.Status == 429 || e.Status >= 500 }

// readOTLP reads OTLP/JSON: one export, or one per line. Of the spans it takes those
// of HTTP servers and clients.
func (l *Log) readOTLP(r io.Reader, name string) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w: name a file that can be read", name, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var export otlp
		if err := decoder.Decode(&export); err == io.EOF {
			return nil
		} else if err != nil {
			at := decoder.InputOffset()
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				at = syntax.Offset
			}
			line := 1 + bytes.Count(text[:min(int(at), len(text))], []byte("\n"))
			return fmt.Errorf("%s:%d: is no OTLP/JSON export of traces: %w", name, line, err)
		}
		for _, resource := range export.ResourceSpans {
			client := attributes(resource.Resource.Attributes)
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					l.add(s, client)
				}
			}
		}
	}
}

type otlp struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attribute }
		ScopeSpans []struct{ Spans []otlpSpan }
	}
}

type otlpSpan struct {
	StartTimeUnixNano, EndTimeUnixNano any
	Attributes                         []attribute
	Status                             struct{ Code any }
}

type attribute struct {
	Key   string
	Value struct{ StringValue, IntValue, DoubleValue any }
}

func attributes(list []attribute) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		for _, v := range []any{a.Value.StringValue, a.Value.IntValue, a.Value.DoubleValue} {
			if v != nil {
				all[a.Key] = v
			}
		}
	}
	return all
}

func (l *Log) add(s otlpSpan, resource map[string]any) {
	fields := attributes(s.Attributes)
	_, method := fields["http.request.method"]
	start, _ := numeric(s.StartTimeUnixNano)
	end, _ := numeric(s.EndTimeUnixNano)
	if !method || start <= 0 {
		l.Skipped++
		return
	}
	e := Entry{At: time.Unix(0, int64(start)).UTC(), Took: time.Duration(max(0, end-start))}
	status, _ := numeric(fields["http.response.status_code"])
	e.Status = int(status)
	for _, name := range []string{"client.address", "network.peer.address"} {
		if v, ok := fields[name]; ok && e.Client == "" {
			e.Client = fmt.Sprint(v)
		}
	}
	if e.Client == "" {
		e.Client = fmt.Sprint(resource["service.instance.id"], resource["service.name"])
	}
	e.Request = fmt.Sprint(fields["http.request.method"], fields["url.full"], fields["url.path"])
	e.marked = true // the conventions leave the count out of first attempts
	if n, ok := numeric(fields["http.request.resend_count"]); ok {
		e.Retry = n > 0
	}
	l.Entries = append(l.Entries, e)
}
