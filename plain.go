package retrip

import "net/http"

// sendPlain makes the first attempt of a plain request: one that nobody wants
// prepared, timed or observed, whose context says nothing about it and whose
// body can be reopened. Most requests are plain and succeed at once, and need
// none of what a call keeps. For another request the policy it returns is nil,
// and nothing was done.
func (t *Transport) sendPlain(req *http.Request) (*policy, *http.Response, error) {
	if !t.plain || req == nil || req.URL == nil || req.Header == nil ||
		hasBody(req) && req.GetBody == nil || overridesOf(req.Context()) != nil {
		return nil, nil, nil
	}
	p := t.policy
	if p == nil {
		p = &t.entryOf(req).policy
	}
	if !p.plain || p.limiter != nil && !p.limiter.pass() {
		return nil, nil, nil
	}
	resp, err := t.base.RoundTrip(req)
	return p, resp, err
}

// succeeded takes note of a plain request that succeeded at once.
func (p *policy) succeeded() {
	if p.bucket != nil {
		p.bucket.Give(1)
	}
	if p.limiter != nil {
		p.limiter.update(p.limiter.clock(), false)
	}
}
