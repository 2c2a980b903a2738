package retrip

import "net/http"

// sendPlain makes the first attempt of a plain request: one that nobody wants
// prepared, timed or observed, whose context says nothing about it and whose
// body can be reopened. Most requests are plain and succeed at once, and need
// none of what a call keeps. For another request sent is false and nothing was
// done, but that its entry may have been found.
func (t *Transport) sendPlain(req *http.Request) (e *entry, sent bool, resp *http.Response, err error) {
	if !t.plain || req == nil || req.URL == nil || req.Header == nil ||
		hasBody(req) && req.GetBody == nil || overridesOf(req.Context()) != nil {
		return nil, false, nil, nil
	}
	e = &t.single
	if t.Strategy == nil {
		e = t.entryOrClose(req)
	}
	p := &e.policy
	if !p.plain || p.limiter != nil && !p.limiter.pass() {
		return e, false, nil, nil
	}
	if hasBody(req) {
		resp, err = t.sendBody(req)
	} else {
		resp, err = t.base.RoundTrip(req)
	}
	return e, true, resp, err
}

// sendBody closes the body of a plain request if the base panics.
func (t *Transport) sendBody(req *http.Request) (resp *http.Response, err error) {
	returned := false
	defer func() {
		if !returned {
			closeQuietly(req.Body)
		}
	}()
	resp, err = t.base.RoundTrip(req)
	returned = true
	return resp, err
}

// entryOrClose is entryOf, but closes the body if Key or PerKey panics: here is
// no call yet that would.
func (t *Transport) entryOrClose(req *http.Request) (e *entry) {
	defer func() {
		if e == nil {
			closeBody(req)
		}
	}()
	return t.entryOf(req)
}

// plainSuccess takes note of a plain request that succeeded at once.
func (t *Transport) plainSuccess(e *entry) {
	p := &e.policy
	if p.bucket != nil {
		p.bucket.Give(1)
	}
	if p.limiter != nil {
		p.limiter.update(p.limiter.clock(), false)
	}
	if t.counting.Load() {
		t.count(e, tally{sent: true, final: true})
	}
}
