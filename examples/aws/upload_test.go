package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/faultlayer"
)

// openFile returns a file with the content, which begins at offset in it: the
// SDK sends a file from where it stands.
func openFile(t *testing.T, content []byte, offset int64) *os.File {
	t.Helper()
	file, err := writeFile(append(bytes.Repeat([]byte("#"), int(offset)), content...))
	require.NoError(t, err)
	_, err = file.Seek(offset, io.SeekStart)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// chunked is how a body arrives that the SDK sends over TLS: in one chunk, with
// its checksum for a trailer.
func chunked(content []byte) []byte {
	return fmt.Appendf(nil, "%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n", len(content), content, crc32Base64(content))
}

// The ways of the SDK to send a file, and what arrives of it.
var uploads = []struct {
	name    string
	options func(*os.File) func(*s3.Options)
	input   func(*s3.PutObjectInput)
	body    []byte
	sha256  string // X-Amz-Content-Sha256
}{{
	name:    "aws-chunked with a trailer, over TLS",
	options: func(*os.File) func(*s3.Options) { return func(*s3.Options) {} },
	input:   func(*s3.PutObjectInput) {},
	body:    chunked(report),
	sha256:  "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
}, {
	name:    "as it is, with a checksum in the head, over TLS",
	options: reopening,
	input:   func(in *s3.PutObjectInput) { in.ChecksumCRC32 = text(crc32Base64(report)) },
	body:    report,
	sha256:  "UNSIGNED-PAYLOAD",
}, {
	name: "as it is, with a hash in the signature, over plain HTTP",
	options: func(*os.File) func(*s3.Options) {
		return func(o *s3.Options) { o.EndpointOptions.DisableHTTPS = true }
	},
	input:  func(*s3.PutObjectInput) {},
	body:   report,
	sha256: hexSum(report),
}}

// An upload is sent again as it was: framing, checksums, signature and bytes.
func TestUploads(t *testing.T) {
	t.Parallel()
	for _, upload := range uploads {
		t.Run(upload.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 0)
			services := b.services()
			b.faults.Fail(nil, xmlError(503, "SlowDown"), faultlayer.Reset)
			file := openFile(t, report, 123)
			in := &s3.PutObjectInput{Bucket: text(bucket), Key: text("a file"), Body: file}
			upload.input(in)
			_, err := services.s3.PutObject(t.Context(), in, upload.options(file))
			require.NoError(t, err)
			for _, hit := range b.requireHits(t, 3) {
				require.Equal(t, hexSum(upload.body), hit.Hash)
				require.Equal(t, strconv.Itoa(len(upload.body)), hit.Header.Get("Content-Length"))
				require.Equal(t, upload.sha256, hit.Header.Get("X-Amz-Content-Sha256"))
			}

			out, err := services.s3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: text(bucket), Key: text("a file")})
			require.NoError(t, err)
			defer out.Body.Close()
			stored, err := io.ReadAll(out.Body)
			require.NoError(t, err)
			require.True(t, bytes.Equal(report, stored))
		})
	}
}

// A server that answers before it has read the body gets it whole the next
// time, although the first attempt may still have been at it.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	for _, upload := range uploads {
		t.Run(upload.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 0)
			for range 3 {
				b.reset()
				b.faults.Fail(nil, faultlayer.Early(503), faultlayer.Early(503))
				file := openFile(t, report, 0)
				in := &s3.PutObjectInput{Bucket: text(bucket), Key: text("a file"), Body: file}
				upload.input(in)
				_, err := b.services().s3.PutObject(t.Context(), in, upload.options(file))
				require.NoError(t, err)
				require.EqualValues(t, 3, b.calls.Load())
				hits := b.faults.Hits()
				require.Len(t, hits, 3)
				for _, hit := range hits {
					require.Equal(t, hits[0].Header, hit.Header)
					if !hit.Failed {
						require.Equal(t, hexSum(upload.body), hit.Hash)
					}
				}
			}
		})
	}
}

// The SDK's requests have no GetBody, so a body above Transport.ReplayBuffer is
// sent once, unless the buffer is larger or the file can be opened again.
func TestLargeUploads(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16+1)
	put := func(ctx context.Context, b *bench, in *s3.PutObjectInput, options ...func(*s3.Options)) error {
		b.faults.Fail(nil, xmlError(503, "SlowDown"))
		in.Bucket, in.Key = text(bucket), text("large")
		_, err := b.services().s3.PutObject(ctx, in, options...)
		return err
	}

	t.Run("sent once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 0)
		ctx, trace := retrip.WithTrace(t.Context())
		err := put(ctx, b, &s3.PutObjectInput{Body: openFile(t, large, 0)})
		var failure smithy.APIError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "SlowDown", failure.ErrorCode())
		require.Equal(t, retrip.BodyNotReplayable, last(t, trace).Reason)
		b.requireHits(t, 1)
	})
	t.Run("kept in memory", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 0)
		b.transport().ReplayBuffer = 2 << 20
		require.NoError(t, put(t.Context(), b, &s3.PutObjectInput{Body: openFile(t, large, 0)}))
		require.Equal(t, hexSum(chunked(large)), b.requireHits(t, 2)[1].Hash)
	})
	t.Run("opened again", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 0)
		file := openFile(t, large, 123)
		in := &s3.PutObjectInput{Body: file, ChecksumCRC32: text(crc32Base64(large))}
		require.NoError(t, put(t.Context(), b, in, reopening(file)))
		require.Equal(t, hexSum(large), b.requireHits(t, 2)[1].Hash)
	})
	t.Run("not opened again as something else", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 0)
		file := openFile(t, large, 0)
		err := put(t.Context(), b, &s3.PutObjectInput{Body: file}, reopening(file))
		require.ErrorContains(t, err, "the body is not the file itself")
		require.Empty(t, b.faults.Hits())
	})
}
