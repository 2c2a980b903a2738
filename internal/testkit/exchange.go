package testkit

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Epoch is where the virtual time of testing/synctest begins.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Exchange answers over TLS after so many seconds, with a Date that is so many
// seconds after the Epoch, if any, and with the headers that have a value.
func Exchange(took float64, date *float64, code int, headers map[string]string) Step {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(time.Duration(took * 1e9))
		resp, err := Status(code)(req)
		resp.TLS = &tls.ConnectionState{} // the clock is measured over TLS only
		if date != nil {
			resp.Header.Set("Date", Epoch.Add(time.Duration(*date*1e9)).UTC().Format(http.TimeFormat))
		}
		for name, value := range headers {
			if value != "" {
				resp.Header.Set(name, value)
			}
		}
		return resp, err
	}
}
