package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const want = `
GET of a page whose server is overloaded for a moment
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        200 OK                   success    done
  returned: 200 OK, "hello"

GET that comes too early: the server says when to come back
  attempt  outcome                class      what next
  1        429 Too Many Requests  throttled  again in 1s (Retry-After)
  2        200 OK                 success    done
  returned: 200 OK, "now you may"

GET whose connection breaks
  attempt  outcome                         class      what next
  1        read: connection reset by peer  transient  again in <wait> (backoff)
  2        200 OK                          success    done
  returned: 200 OK, "back again"

GET that AWS throttles: a 400, and only its body says so
  attempt  outcome                  class      what next
  1        400 ThrottlingException  throttled  again in <wait> (backoff)
  2        200 OK                   success    done
  returned: 200 OK, "some items"

GET that hangs for longer than the attempt timeout
  attempt  outcome  class      what next
  1        timeout  transient  again in <wait> (backoff)
  2        200 OK   success    done
  returned: 200 OK, "quick this time"

POST that failed, perhaps after it had its effect: not sent twice
  attempt  outcome                    class      what next
  1        500 Internal Server Error  transient  stop: not idempotent
  returned: 500 Internal Server Error, "oops"

POST that was certainly not processed: sent again, with its body
  attempt  outcome                class      what next
  1        429 Too Many Requests  throttled  again in <wait> (backoff)
  2        200 OK                 success    done
  returned: 200 OK, "order one coffee"

GET of a server that is down
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        503 Service Unavailable  transient  stop: attempts exhausted
  returned: 503 Service Unavailable, "down until noon"

GET of a server that is down
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  stop: quota exhausted
  returned: 503 Service Unavailable, "down until noon"

9 requests in 18 attempts: 6 were saved by a retry, 3 returned the server's last answer.
`

// backoffs are the only times printed that chance has a part in.
var backoffs = regexp.MustCompile(`again in \S+ \(backoff\)`)

func TestOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(&out))
	got := backoffs.ReplaceAllString(out.String(), "again in <wait> (backoff)")
	require.Equal(t, strings.TrimPrefix(want, "\n"), got)
}
