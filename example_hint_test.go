package retrip_test

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrip-go/retrip"
)

// HintHeader reads waits from a service's own header.
func ExampleHintHeader() {
	s := retrip.Standard()
	s.Hints = slices.Insert(s.Hints, 0, retrip.HintReader(
		retrip.HintHeader{Name: "X-Backoff-Millis", Format: retrip.Milliseconds}))
	fmt.Println(s.Hints[0])
	// Output: X-Backoff-Millis (milliseconds)
}

// X-RateLimit-Reset comes with every response, and asks for a wait only after a
// 429.
func ExampleHintWhen() {
	s := retrip.Standard()
	s.Hints = append(s.Hints, retrip.HintWhen(retrip.StatusIs(429),
		retrip.HintHeader{Name: "X-RateLimit-Reset", Format: retrip.EpochSeconds}))
	fmt.Println(s.Hints[len(s.Hints)-1])
	// Output: X-RateLimit-Reset (seconds since 1970), with status 429
}

// A wait in a JSON body.
func ExampleHintField() {
	hint, ok := retrip.HintField("error.retry_after").ReadHint(retrip.Attempt{
		Response: &http.Response{StatusCode: 429}, Body: []byte(`{"error":{"retry_after":1.5}}`),
	})
	fmt.Println(hint.Wait, ok)
	// Output: 1.5s true
}

// resetAt reads the moment at which a service's window ends, in its own format.
type resetAt struct{}

func (resetAt) ReadHint(a retrip.Attempt) (retrip.Hint, bool) {
	at, err := time.Parse(time.RFC3339, a.Response.Header.Get("X-Reset-At"))
	if err != nil {
		return retrip.Hint{}, false // no hint: the next reader is asked
	}
	return retrip.Hint{Wait: at.Sub(a.Done), From: "X-Reset-At"}, true
}

// A reader of one's own, behind those of the mode.
func ExampleHintReader() {
	s := retrip.Standard()
	s.Hints = append(s.Hints, resetAt{})
	hint, ok := s.Hints[len(s.Hints)-1].ReadHint(retrip.Attempt{
		Response: &http.Response{Header: http.Header{"X-Reset-At": {"2030-01-01T00:00:30Z"}}},
		Done:     time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	fmt.Println(hint.Wait, hint.From, ok)
	// Output: 30s X-Reset-At true
}

// A service that documents a minute's pause after a 429 and says nothing of it in
// its answers.
func ExampleHintReaderFunc() {
	s := retrip.Standard()
	minute := retrip.HintReaderFunc(func(retrip.Attempt) (retrip.Hint, bool) {
		return retrip.Hint{Wait: time.Minute, From: "the documentation"}, true
	})
	s.Hints = append(s.Hints, retrip.HintWhen(retrip.StatusIs(429), minute)) // behind Retry-After
	fmt.Println((&retrip.Transport{Strategy: s}).Validate())
	// Output: <nil>
}

// Where the server's wait is added to the backoff, retries that were given the
// same moment don't all come at it.
func ExampleHint() {
	s := quick()
	s.Hints = []retrip.HintReader{retrip.HintReaderFunc(func(retrip.Attempt) (retrip.Hint, bool) {
		return retrip.Hint{Wait: 2 * time.Millisecond, From: "our gateway", Additive: true}, true
	})}
	server := flaky(1)
	defer server.Close()
	transport := &retrip.Transport{Strategy: s, Observe: func(e retrip.Event) {
		if !e.Final {
			fmt.Println(e.Wait, "from", e.WaitFrom)
		}
	}}
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: 3ms from our gateway
}

// The same header in two units, as two services have it.
func ExampleHintFormat() {
	attempt := retrip.Attempt{Response: &http.Response{Header: http.Header{
		"Date": {"Tue, 01 Jan 2030 00:00:00 GMT"}, "X-Ratelimit-Reset": {"1893456030"},
	}}}
	for _, format := range []retrip.HintFormat{retrip.EpochSeconds, retrip.Seconds} {
		hint, _ := retrip.HintHeader{Name: "X-RateLimit-Reset", Format: format}.ReadHint(attempt)
		fmt.Printf("%v: %v\n", format, hint.Wait)
	}
	// Output:
	// seconds since 1970: 30s
	// seconds: 525960h0m30s
}
