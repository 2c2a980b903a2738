package faultserver

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrip-go/retrip/internal/socketerr"
	"github.com/stretchr/testify/require"
)

// send puts a body through a plain net/http transport.
func send(t *testing.T, s *Server, secure bool, protocol string) (int, string, error) {
	t.Helper()
	p := new(http.Protocols)
	p.SetHTTP1(protocol == "")
	p.SetUnencryptedHTTP2(protocol == "h2c")
	p.SetHTTP2(protocol == "h2")
	base := &http.Transport{DialContext: s.Dial, Protocols: p, TLSClientConfig: &tls.Config{RootCAs: RootCAs()}}
	defer base.CloseIdleConnections()
	url := s.URL
	if secure {
		url = strings.Replace(url, "http:", "https:", 1)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("hello"))
	require.NoError(t, err)
	resp, err := base.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestEachConnectionHasItsPlay(t *testing.T) {
	s := Start(Refuse, ResetBeforeHeaders, CloseBeforeHeaders, Answer(503), Answer(200))
	defer s.Close()
	_, _, err := send(t, s, false, "")
	require.ErrorIs(t, err, socketerr.ConnRefused)
	_, _, err = send(t, s, false, "")
	require.ErrorIs(t, err, socketerr.ConnReset)
	_, _, err = send(t, s, false, "")
	require.ErrorIs(t, err, io.EOF)
	for _, want := range []int{503, 200, 200} {
		status, _, err := send(t, s, false, "")
		require.NoError(t, err)
		require.Equal(t, want, status)
	}
	require.Equal(t, 5, s.Conns(), "the refused one is none")
	require.Len(t, s.Requests(), 5)
	for i, r := range s.Requests() {
		require.Equal(t, i+1, r.Conn)
		require.Equal(t, "POST", r.Method)
		require.True(t, r.Whole)
		require.Equal(t, sha256.Sum256([]byte("hello")), r.Sum)
	}
}

func TestBrokenAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		play   Play
		status int
		err    string
	}{
		"garbage":      {Garbage, 0, "malformed HTTP response"},
		"no headers":   {SayAndReset("HTTP/1.1 200 OK\r\n"), 0, "connection broken"},
		"reset":        {SayAndReset("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), 200, "reset by peer"},
		"truncated":    {Say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), 200, "unexpected EOF"},
		"trickle":      {Trickle(200, 0), 200, ""},
		"early":        {Early(503, 1, ShutDown), 503, ""},
		"closed later": {ClosedIdle, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(tt.play)
			defer s.Close()
			status, _, err := send(t, s, false, "")
			require.Equal(t, tt.status, status)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
		})
	}
}

func TestTLSFaults(t *testing.T) {
	s := Start(UnknownAuthority, WrongHost, HandshakeFailure, NoTLS("SSH"), Secure(Answer(200), "http/1.1"))
	defer s.Close()
	_, _, err := send(t, s, true, "")
	require.True(t, errors.As(err, new(x509.UnknownAuthorityError)), err)
	_, _, err = send(t, s, true, "")
	require.True(t, errors.As(err, new(x509.HostnameError)), err)
	_, _, err = send(t, s, true, "")
	require.ErrorContains(t, err, "handshake failure")
	_, _, err = send(t, s, true, "")
	require.Error(t, err)
	status, _, err := send(t, s, true, "")
	require.NoError(t, err)
	require.Equal(t, 200, status)
}

func TestHTTP2Frames(t *testing.T) {
	play := HTTP2{Whole: func(s *Stream) {
		switch s.Nth {
		case 1:
			s.Reset(InternalError)
		case 2:
			s.Headers(200)
			s.Data("x", false)
			s.Reset(Cancel)
		case 3:
			s.GoAway(s.ID, EnhanceYourCalm)
			s.HangUp()
		default:
			s.Answer(200)
		}
	}}.Play
	for protocol, play := range map[string]Play{"h2c": play, "h2": Secure(play, "h2")} {
		s := Start(play)
		_, _, err := send(t, s, protocol == "h2", protocol)
		require.ErrorContains(t, err, "INTERNAL_ERROR")
		_, _, err = send(t, s, protocol == "h2", protocol)
		require.ErrorContains(t, err, "CANCEL")
		_, _, err = send(t, s, protocol == "h2", protocol)
		require.ErrorContains(t, err, "ENHANCE_YOUR_CALM")
		status, body, err := send(t, s, protocol == "h2", protocol)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, "200", body)
		for _, r := range s.Requests() {
			require.Equal(t, sha256.Sum256([]byte("hello")), r.Sum)
		}
		s.Close()
	}
}
