package retrip

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// skewThreshold is the difference of clocks that a skew error must come
	// with to be believed: aws-sdk-go-v2, aws/retry, strictly more than 4 min.
	skewThreshold = 4 * time.Minute
	// maxTrustedTrip is the longest exchange whose middle says anything about
	// the server's clock: aws-sdk-go-v2, 15 minutes.
	maxTrustedTrip = 15 * time.Minute
	// maxSkew is the largest difference taken for a wrong clock. Our choice: by
	// more than a day, it is rather the server's that is wrong.
	maxSkew = 24 * time.Hour
)

// skew is the offset of a server's clock from ours, positive if its clock is
// ahead. Concurrent requests each keep the offset they were signed with; what
// is here is for the next.
type skew struct{ ns atomic.Int64 }

func (s *skew) offset() time.Duration      { return time.Duration(s.ns.Load()) }
func (s *skew) store(offset time.Duration) { s.ns.Store(int64(offset)) }

// measureSkew compares the Date of a response with the middle of the exchange.
// It trusts only a server that has proved who it is, and no reply out of a
// cache, whose Date is old.
func measureSkew(a Attempt) (offset time.Duration, ok bool) {
	if a.Response == nil || a.Response.TLS == nil || a.Response.Header.Get("Age") != "" {
		return 0, false
	}
	date, err := http.ParseTime(a.Response.Header.Get("Date"))
	trip := a.Done.Sub(a.Sent)
	if err != nil || trip > maxTrustedTrip {
		return 0, false
	}
	offset = date.Sub(a.Sent.Add(trip / 2))
	return offset, offset.Abs() <= maxSkew
}

// explainsRefusal reports whether an attempt signed with one offset was
// refused because the true offset is another one.
func explainsRefusal(signed, measured time.Duration) bool {
	return (measured - signed).Abs() > skewThreshold
}
