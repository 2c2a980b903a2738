package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
)

const (
	container = "container"
	name      = "blob"
)

// A call is one that a program makes with azblob.
type call func(context.Context, *azblob.Client) error

func uploadBuffer(content []byte) call {
	return func(ctx context.Context, client *azblob.Client) error {
		_, err := client.UploadBuffer(ctx, container, name, content, nil)
		return err
	}
}

func uploadFile(content []byte) call {
	return withFile(content, func(ctx context.Context, client *azblob.Client, f *os.File) error {
		_, err := client.UploadFile(ctx, container, name, f, nil)
		return err
	})
}

func download(content []byte) call {
	return func(ctx context.Context, client *azblob.Client) error {
		resp, err := client.DownloadStream(ctx, container, name, nil)
		if err != nil {
			return err
		}
		body := resp.NewRetryReader(ctx, nil)
		defer body.Close()
		got, err := io.ReadAll(body)
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("the blob is not what was stored")
		}
		return err
	}
}

// withFile makes a call with a file of the content.
func withFile(content []byte, do func(context.Context, *azblob.Client, *os.File) error) call {
	return func(ctx context.Context, client *azblob.Client) error {
		f, err := os.CreateTemp("", "retrip-azure-")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		if _, err := f.Write(content); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return do(ctx, client, f)
	}
}
