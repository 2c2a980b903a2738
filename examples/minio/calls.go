package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/minio/minio-go/v7"
)

const (
	bucket = "bucket"
	name   = "object"
)

// A call is one that a program makes with minio-go.
type call func(context.Context, *minio.Client) error

var options = minio.PutObjectOptions{
	PartSize:             partSize,
	NumThreads:           1,    // so that the requests have an order that can be printed
	DisableContentSha256: true, // as over TLS; gofakes3 can't read parts that are signed in chunks
}

// putReader stores what a reader gives that can do nothing but read.
func putReader(content []byte) call {
	return func(ctx context.Context, client *minio.Client) error {
		r := struct{ io.Reader }{bytes.NewReader(content)}
		_, err := client.PutObject(ctx, bucket, name, r, int64(len(content)), options)
		return err
	}
}

func putFile(content []byte) call {
	return func(ctx context.Context, client *minio.Client) error {
		f, err := os.CreateTemp("", "retrip-minio-")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(content)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		_, err = client.FPutObject(ctx, bucket, name, f.Name(), options)
		return err
	}
}

func get(content []byte) call {
	return func(ctx context.Context, client *minio.Client) error {
		object, err := client.GetObject(ctx, bucket, name, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer object.Close()
		got, err := io.ReadAll(object) // which sends the request
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("the object is not what was stored")
		}
		return err
	}
}
