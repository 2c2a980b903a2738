package retrip

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// modelLayer says what stands between two stacked Transports.
type modelLayer int

const (
	layerNone modelLayer = iota
	layerHeader
	layerHost
	layerPath
	layerQuery
	layerToken    // asks for a token on the way, with the same context
	layerWrapping // wraps errors with %w
	layerOwnError // puts errors into a type of its own
	modelLayers
)

func (l modelLayer) String() string {
	return [...]string{"none", "header", "host", "path", "query", "token", "wrapping", "own error"}[l]
}

// A modelStack is what the outer Transport takes for its base: a layer over an
// inner Transport over the script's base.
type modelStack struct {
	script *modelScript
	layer  modelLayer
	inner  *Transport
	ledger *modelLedger
	max    int
}

func (s *modelStack) String() string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("over %v, inner max %d", s.layer, s.max)
}

func newModelStack(s *modelScript, rng *rand.Rand) *modelStack {
	stack := &modelStack{script: s, layer: modelLayer(rng.IntN(int(modelLayers))), ledger: newModelLedger(false, rng), max: 1 + rng.IntN(4)}
	p := s.mode.Strategy()
	p.MaxAttempts, p.Quota, p.Backoff, p.ThrottleBackoff = stack.max, stack.ledger, Constant{Wait: 10 * time.Millisecond}, nil
	p.Limiter = nil // whose queue could be longer than what the outer one estimated
	stack.inner = &Transport{Base: s, Strategy: p, ReplayBuffer: 1 << 20}
	if s.observed {
		stack.inner.Observe = func(e Event) { r := modelRequestOf(e.Request); r.observe(&r.inner, e) }
	}
	return stack
}

// A layerError is an error of a layer's own.
type layerError struct{ text string }

func (e *layerError) Error() string { return "layer: " + e.text }

// RoundTrip is the layer. It does what it does to a copy of the request.
func (s *modelStack) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	switch s.layer {
	case layerHeader:
		out.Header.Set("Layer", "1")
	case layerHost:
		out.URL.Host = "moved.test"
	case layerPath:
		out.URL.Path = "/moved"
	case layerQuery:
		out.URL.RawQuery = "moved=1"
	case layerToken:
		s.fetchToken(req)
	}
	resp, err := s.inner.RoundTrip(out)
	if err != nil {
		switch s.layer {
		case layerWrapping:
			err = fmt.Errorf("layer: %w", err)
		case layerOwnError:
			err = &layerError{err.Error()}
		}
	}
	return resp, err
}

const modelTokenPath = "/token"

// fetchToken asks for a token, which is refused once and then given. It needs
// a retry, which the request's own retries must not take away.
func (s *modelStack) fetchToken(req *http.Request) {
	r := modelRequestOf(req)
	host := "token.test"
	if r.id%2 == 0 {
		host = req.URL.Host
	}
	fetch := (&http.Request{
		Method: "GET", Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: host, Path: modelTokenPath},
	}).WithContext(req.Context())
	resp, err := s.inner.RoundTrip(fetch)
	retries := s.max
	if r.ownMax {
		retries = r.max
	}
	if err != nil {
		if req.Context().Err() == nil && r.deadline == 0 {
			r.wrong("a token is refused: %v", err)
		}
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 && retries > 1 && req.Context().Err() == nil && r.deadline == 0 {
		r.wrong("the token fetch gets %d", resp.StatusCode)
	}
}

// serveToken refuses each first of two requests for a token.
func (r *modelRequest) serveToken(req *http.Request) *http.Response {
	status := http.StatusOK
	if r.refused = !r.refused; r.refused {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(http.NoBody), Request: req, ContentLength: 0}
}

// checkStack checks the request where two Transports are stacked: that their
// attempts add and don't multiply, and that what may have been processed is
// not sent again.
func (r *modelRequest) checkStack(stack *modelStack) {
	inner := stack.max
	if r.ownMax {
		inner = r.max
	}
	if n, most := len(r.deliveries), r.max+inner-1; n > most {
		r.wrong("%d attempts of the innermost base, at most %d+%d-1 allowed", n, r.max, inner)
	}
	for _, d := range r.deliveries[:max(len(r.deliveries)-1, 0)] {
		if !r.safe() && !d.proven() {
			r.wrong("delivered again after attempt %d, which may have been processed", d.number)
		}
	}
	if n := len(r.deliveries); r.resp != nil && (n == 0 || r.resp.StatusCode != r.deliveries[n-1].fault.status) {
		r.wrong("the response is not that of the last attempt")
	}
}
