package retrip

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The key that a request has unless the user sets another.

func TestHostKey(t *testing.T) {
	tests := map[string]string{
		"http://example.com/":                  "example.com",
		"http://EXAMPLE.com:80/":               "example.com",
		"https://example.com:443/x":            "example.com",
		"https://example.com:80/":              "example.com:80",
		"http://user:secret@example.com:8080/": "example.com:8080",
		"http://[::1]:80/":                     "[::1]",
		"http://[FE80::1]/":                    "[fe80::1]",
		"http://example.com:080/":              "example.com",
		"http://example.com:0080/":             "example.com",
		"https://Example.com:00443/":           "example.com",
		"http://example.com:08080/":            "example.com:8080",
		"http://example.com:0/":                "example.com:0",
		"http://example.com:00/":               "example.com:0",
		"http://example.com:/":                 "example.com",
		"http://example.com./":                 "example.com",
		"http://example.com.:8080/":            "example.com:8080",
		"http://[0:0:0:0:0:0:0:1]:8080/":       "[::1]:8080",
		"http://[2001:DB8::0A]/":               "[2001:db8::a]",
		"http://[::ffff:192.0.2.1]/":           "192.0.2.1",
		"http://[::FFFF:c000:201]:81/":         "192.0.2.1:81",
		"http://[fe80::01%25Eth0]/":            "[fe80::1%Eth0]",
		"https://[::1]:0443/":                  "[::1]",
		"ftp://example.com:80/":                "example.com:80",
		"http://ap\u0130.example/":             "ap\u0130.example", // another host than api.example
	}
	for target, want := range tests {
		u, err := url.Parse(target)
		require.NoError(t, err)
		require.Equal(t, want, HostKey(&http.Request{URL: u}), target)
	}
}

// A key is the key of itself, or the shorter way to it would lead elsewhere. A
// URL that no parser made must not end in a panic either.
func FuzzHostKey(f *testing.F) {
	for _, host := range []string{"", ":", "::", ":80", "a..:080", "a::80", "[", "]:1", "[]:0", "[::1]", "[::1].", "[::ffff:1.2.3.4%x]", "a:b:80", "[1.2.3.4]:80", ".", ".:8"} {
		f.Add(host, "http")
	}
	f.Fuzz(func(t *testing.T, host, scheme string) {
		key := HostKey(&http.Request{URL: &url.URL{Scheme: scheme, Host: host}})
		again := HostKey(&http.Request{URL: &url.URL{Scheme: scheme, Host: key}})
		if key != again && !strings.HasSuffix(key, ":80") && !strings.HasSuffix(key, ":443") {
			t.Errorf("%q gives %q, which gives %q", host, key, again)
		}
	})
}

// However a URL spells a server, its requests have one quota.
func TestOneServerHasOneQuota(t *testing.T) {
	for _, spellings := range [][]string{
		{"http://b.example", "http://B.example:80", "http://b.example:080", "http://b.example:", "http://b.example.", "http://b.example.:0080"},
		{"https://[::1]:8443", "https://[::01]:8443", "https://[0:0:0:0:0:0:0:1]:08443"},
		{"http://192.0.2.1", "http://[::ffff:192.0.2.1]:80"},
	} {
		made := map[string]bool{}
		transport := &Transport{Base: script(status(503)), PerKey: func(key string) *Strategy {
			made[key] = true
			return noWait()
		}}
		for range 2 {
			for _, spelling := range spellings {
				send(t, transport, spelling)
			}
		}
		require.Len(t, made, 1, spellings)
	}
}

// A key that needs no change costs no memory, with a port or without.
func TestHostKeyAllocatesNothing(t *testing.T) {
	countsAllocations(t)
	for _, host := range []string{"example.com", "example.com:8080", "example.com:080", "[::1]", "[::1]:8080", "[fe80::1]:80", "example.com."} {
		req := &http.Request{URL: &url.URL{Scheme: "http", Host: host}}
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = HostKey(req) }), host)
	}
}
