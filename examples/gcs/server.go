package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A cloud is a server that speaks Cloud Storage and keeps its objects in
// memory, with a layer of faults before it.
type cloud struct {
	*httptest.Server
	faults *faultlayer.Layer
}

func newCloud() (*cloud, error) {
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		return nil, err
	}
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	c := &cloud{faults: faultlayer.New(fake.HTTPHandler())}
	c.Server = httptest.NewServer(c.faults)
	return c, nil
}

// busy is what Cloud Storage answers then, with pairs of header names and values.
func busy(header ...string) faultlayer.Fault {
	return faultlayer.Answer(http.StatusServiceUnavailable,
		`{"error":{"code":503,"message":"Try again.","errors":[{"reason":"backendError"}]}}`,
		append(header, "Content-Type", "application/json; charset=UTF-8")...)
}

// half sends half of the object and breaks off.
func half(object []byte) faultlayer.Fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		_, _ = w.Write(object[:len(object)/2])
		panic(http.ErrAbortHandler)
	}
}
