package main

import (
	"bytes"
	"context"
	"errors"
	"io"

	"cloud.google.com/go/storage"
	"github.com/retrip-go/retrip"
	"google.golang.org/api/googleapi"
)

const (
	bucket = "bucket"
	name   = "object"

	atOnce = 0                            // the ChunkSize of an upload in one request
	chunk  = googleapi.MinUploadChunkSize // 256 KiB; the default is 16 MiB
)

// A call is one that a program makes with Google's client.
type call func(context.Context, *storage.Client) error

// write replaces the object, so that once more makes no difference.
func write(content []byte, chunkSize int) call {
	return func(ctx context.Context, client *storage.Client) error {
		w := client.Bucket(bucket).Object(name).NewWriter(retrip.WithIdempotent(ctx))
		w.ChunkSize = chunkSize
		_, err := w.Write(content)
		return errors.Join(err, w.Close())
	}
}

func read(content []byte) call {
	return func(ctx context.Context, client *storage.Client) error {
		r, err := client.Bucket(bucket).Object(name).NewReader(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("the object is not what was stored")
		}
		return err
	}
}
