package sim

import "time"

// An event is something that happens at a time. Events at the same time happen in
// the order in which they were planned.
type event struct {
	at   time.Duration
	seq  uint32
	id   int32 // of a request
	kind kind
}

type kind uint8

const (
	arrive kind = iota // a request begins
	end                // an attempt ends
	resend             // a retry is due
	sample             // the state of the quotas is noted
)

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && int32(e.seq-other.seq) < 0
}

// A heap has the next event at its top. Each node has four children: fewer levels,
// and the children lie in one cache line or two.
type heap struct {
	events []event
	seq    uint32
}

func (h *heap) push(e event) {
	h.seq++
	e.seq = h.seq
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

func (h *heap) pop() event {
	top := h.events[0]
	n := len(h.events) - 1
	last := h.events[n]
	h.events = h.events[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if h.events[c].before(&h.events[least]) {
				least = c
			}
		}
		if !h.events[least].before(&last) {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = last
	return top
}
