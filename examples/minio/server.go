package main

import (
	"net/http"
	"net/http/httptest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// A storage is an S3 server that keeps its objects in memory, with a layer of
// faults before it.
type storage struct {
	*httptest.Server
	faults *faultlayer.Layer
}

func newStorage() (*storage, error) {
	memory := s3mem.New()
	if err := memory.CreateBucket(bucket); err != nil {
		return nil, err
	}
	s := &storage{faults: faultlayer.New(gofakes3.New(memory).Server())}
	s.Server = httptest.NewServer(s.faults)
	return s, nil
}

// slowDown is how S3 throttles.
var slowDown = faultlayer.Answer(http.StatusServiceUnavailable,
	`<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`,
	"Content-Type", "application/xml")
