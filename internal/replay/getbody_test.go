package replay_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip/internal/replay"
)

func TestGetBodyOfAnotherLength(t *testing.T) {
	for again, want := range map[string]string{
		"short":               "returned 5 bytes where Request.ContentLength says 10",
		"longer than before":  "more than the 10 bytes of Request.ContentLength",
		content[:9] + "other": "more than the 10 bytes",
	} {
		u := newUpload(t, opaque(content), 0, func(req *http.Request) {
			req.ContentLength = 10
			req.GetBody = func() (io.ReadCloser, error) { return opaque(again), nil }
		})
		u.requireRead(content, u.begin().Body)
		got, err := io.ReadAll(u.again().Body)
		require.ErrorContains(t, err, want)
		var length *replay.LengthError
		require.ErrorAs(t, err, &length)
		require.LessOrEqual(t, len(got), 10)
	}
}

func TestGetBodyThatFails(t *testing.T) {
	for want, open := range map[string]func() (io.ReadCloser, error){
		"Request.GetBody failed: on fire":                  func() (io.ReadCloser, error) { return nil, errors.New("on fire") },
		"Request.GetBody returned a nil body and no error": func() (io.ReadCloser, error) { return nil, nil },
	} {
		u := newUpload(t, opaque(content), 0, reopened(open))
		u.Sent()
		require.NoError(t, u.Hold())
		require.EqualError(t, u.Reopen(), want)
		u.Finish()
	}
}

// Of a request with GetBody, Prepare may close the body it finds, keep it, or put
// it into another: it is closed once.
func TestPrepareAndABodyOfTheCaller(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(*http.Request)
		closes  int // by us, before the base closes what it was sent
	}{
		"untouched": {func(*http.Request) {}, 0},
		"wrapped": {func(out *http.Request) {
			out.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(out.Body), out.Body}
		}, 0},
		"replaced":          {func(out *http.Request) { out.Body = io.NopCloser(strings.NewReader(content)) }, 0},
		"replaced, closed":  {func(out *http.Request) { _ = out.Body.Close(); out.Body = io.NopCloser(strings.NewReader(content)) }, 1},
		"taken away":        {func(out *http.Request) { out.Body = nil }, 1},
		"taken away, empty": {func(out *http.Request) { out.Body = http.NoBody }, 1},
	} {
		src := opaque(content)
		u := newUpload(t, src, 0, reopened(func() (io.ReadCloser, error) { return nil, nil }))
		out := u.begin()
		u.Lend(out)
		tt.prepare(out)
		u.Choose(out, nil)
		u.Sent()
		require.Equal(t, tt.closes, src.Closes(), name)
		if out.Body != nil && out.Body != http.NoBody {
			u.requireRead(content, out.Body)
			require.NoError(t, out.Body.Close())
		}
		u.Finish()
		require.Equal(t, 1, src.Closes(), name)
		if name == "untouched" {
			require.Same(t, src, out.Body, "the base gets it as it is")
		}
	}
}
