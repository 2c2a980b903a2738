package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const want = `
GET from a server that is briefly overloaded
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        200 OK                   success    done
  returned: 200 OK, "hello"

GET over a rate limit: the server says when to retry
  attempt  outcome                class      what next
  1        429 Too Many Requests  throttled  again in 1s (Retry-After)
  2        200 OK                 success    done
  returned: 200 OK, "welcome back"

GET whose connection is reset
  attempt  outcome                         class      what next
  1        read: connection reset by peer  transient  again in <wait> (backoff)
  2        200 OK                          success    done
  returned: 200 OK, "back again"

GET that AWS throttles: a 400 with the reason in its body
  attempt  outcome                  class      what next
  1        400 ThrottlingException  throttled  again in <wait> (backoff)
  2        200 OK                   success    done
  returned: 200 OK, "some items"

GET that hangs for longer than the attempt timeout
  attempt  outcome  class      what next
  1        timeout  transient  again in <wait> (backoff)
  2        200 OK   success    done
  returned: 200 OK, "quick this time"

POST that may have been processed: not sent again
  attempt  outcome                    class      what next
  1        500 Internal Server Error  transient  stop: not idempotent
  returned: 500 Internal Server Error, "oops"

POST that was not processed: sent again with its body
  attempt  outcome                class      what next
  1        429 Too Many Requests  throttled  again in <wait> (backoff)
  2        200 OK                 success    done
  returned: 200 OK, "order one coffee"

GET from a server that is down
  attempt  outcome                  class      what next
  1        503 Service Unavailable  transient  again in <wait> (backoff)
  2        503 Service Unavailable  transient  again in <wait> (backoff)
  3        503 Service Unavailable  transient  stop: attempts exhausted
  returned: 503 Service Unavailable, "down until noon"

GET from a server that is down
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
