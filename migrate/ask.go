package migrate

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/retrip-go/retrip"
)

// ask puts an attempt to a policy, which returns a class. If it read a body
// that was not read ahead yet, it is asked again when that is done.
func ask(a retrip.Attempt, policy func(*http.Response) retrip.Class) retrip.Class {
	resp, body := shown(a)
	class := policy(resp)
	if body != nil && body.missed {
		return retrip.NeedsBody
	}
	return class
}

// again is the class of an outcome that a policy wants to retry.
func again(resp *http.Response) retrip.Class {
	if resp != nil && resp.StatusCode == http.StatusTooManyRequests {
		return retrip.Throttled
	}
	return retrip.Transient
}

// settled is the class of an outcome that a policy leaves as it is.
func settled(resp *http.Response) retrip.Class {
	if resp != nil && resp.StatusCode < 400 {
		return retrip.Success
	}
	return retrip.Permanent
}

// cause is the error of an attempt as it was before AttemptTimeout took the
// place of a deadline for each attempt.
func cause(a retrip.Attempt) error {
	if errors.As(a.Err, new(*retrip.AttemptTimeoutError)) {
		return context.DeadlineExceeded
	}
	return a.Err
}

// shown is the response as a policy may see it: a copy with a body of its own,
// since policies read bodies, close them and put others in their place, while
// the caller is still to get them whole.
func shown(a retrip.Attempt) (*http.Response, *preview) {
	if a.Response == nil {
		return nil, nil
	}
	resp := *a.Response
	if resp.Body == nil || resp.Body == http.NoBody {
		return &resp, nil
	}
	body := &preview{known: a.Body != nil}
	body.Reset(a.Body)
	if resp.Body = body; body.known && strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		// retrip has undone it: say so as net/http does.
		resp.Header = resp.Header.Clone()
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	return &resp, body
}

// A preview is the beginning of a body, or takes note that it would be wanted.
type preview struct {
	bytes.Reader
	known, missed bool
}

func (p *preview) Read(b []byte) (int, error) {
	p.missed = p.missed || !p.known
	return p.Reader.Read(b)
}

func (p *preview) Close() error { return nil }
