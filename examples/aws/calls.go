package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// The services, all of one configuration.
type services struct {
	dynamodb *dynamodb.Client
	s3       *s3.Client
	sqs      *sqs.Client
	kms      *kms.Client
	lambda   *lambda.Client
}

func newServices(config aws.Config) *services {
	return &services{
		dynamodb: dynamodb.NewFromConfig(config),
		s3:       s3.NewFromConfig(config),
		sqs:      sqs.NewFromConfig(config),
		kms:      kms.NewFromConfig(config),
		lambda:   lambda.NewFromConfig(config),
	}
}

// A call is one use of the SDK, and what goes wrong until it succeeds.
type call struct {
	name   string
	match  func(*http.Request) bool // the requests it makes
	faults []faultlayer.Fault
	do     func(context.Context, *services) (result string, err error)
	want   string
}

var calls = []call{{
	name:   "DynamoDB PutItem",
	match:  target("DynamoDB_20120810.PutItem"),
	faults: []faultlayer.Fault{jsonError(400, "ProvisionedThroughputExceededException"), jsonError(500, "InternalServerError")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		_, err := sdk.dynamodb.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: text("people"),
			Item: map[string]dynamodbtypes.AttributeValue{
				"id":   &dynamodbtypes.AttributeValueMemberN{Value: "1"},
				"name": &dynamodbtypes.AttributeValueMemberS{Value: "Ada"},
			},
		})
		return "stored", err
	},
	want: "stored",
}, {
	name:   "DynamoDB GetItem",
	match:  target("DynamoDB_20120810.GetItem"),
	faults: []faultlayer.Fault{faultlayer.Reset},
	do: func(ctx context.Context, sdk *services) (string, error) {
		out, err := sdk.dynamodb.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: text("people"),
			Key:       map[string]dynamodbtypes.AttributeValue{"id": &dynamodbtypes.AttributeValueMemberN{Value: "1"}},
		})
		if err != nil {
			return "", err
		}
		name, _ := out.Item["name"].(*dynamodbtypes.AttributeValueMemberS)
		if name == nil {
			return "", fmt.Errorf("the item is %v", out.Item)
		}
		return name.Value, nil
	},
	want: "Ada",
}, {
	name:   "S3 PutObject of a file",
	match:  request(http.MethodPut, "/2026.csv"),
	faults: []faultlayer.Fault{xmlError(503, "SlowDown"), faultlayer.Reset},
	do: func(ctx context.Context, sdk *services) (string, error) {
		file, err := writeFile(report)
		if err != nil {
			return "", err
		}
		defer file.Close()
		_, err = sdk.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: text(bucket), Key: text("2026.csv"), Body: file})
		return "stored", err
	},
	want: "stored",
}, {
	name:   "S3 PutObject, 2 MiB",
	match:  request(http.MethodPut, "/large"),
	faults: []faultlayer.Fault{xmlError(503, "SlowDown")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		large := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
		file, err := writeFile(large)
		if err != nil {
			return "", err
		}
		defer file.Close()
		_, err = sdk.s3.PutObject(ctx, &s3.PutObjectInput{
			Bucket: text(bucket), Key: text("large"), Body: file, ChecksumCRC32: text(crc32Base64(large)),
		}, reopening(file))
		return "stored", err
	},
	want: "stored",
}, {
	name:   "S3 CopyObject",
	match:  request(http.MethodPut, "/copy.csv"),
	faults: []faultlayer.Fault{xmlError(200, "InternalError")}, // begun with a 200, before S3 knew better
	do: func(ctx context.Context, sdk *services) (string, error) {
		_, err := sdk.s3.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: text(bucket), Key: text("copy.csv"), CopySource: text(bucket + "/2026.csv"),
		})
		return "copied", err
	},
	want: "copied",
}, {
	name:   "S3 GetObject",
	match:  request(http.MethodGet, "/copy.csv"),
	faults: []faultlayer.Fault{xmlError(500, "InternalError")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		out, err := sdk.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: text(bucket), Key: text("copy.csv")})
		if err != nil {
			return "", err
		}
		defer out.Body.Close()
		content, err := io.ReadAll(out.Body)
		if !bytes.Equal(content, report) {
			return "something else", err
		}
		return "the file", err
	},
	want: "the file",
}, {
	name:   "SQS ReceiveMessage",
	match:  target("AmazonSQS.ReceiveMessage"),
	faults: []faultlayer.Fault{faultlayer.Reset, jsonError(403, "RequestThrottled")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		out, err := sdk.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: text("https://sqs" + domain + "/000000000000/jobs"), WaitTimeSeconds: 20,
		})
		if err != nil || len(out.Messages) == 0 {
			return "no message", err
		}
		return *out.Messages[0].Body, nil
	},
	want: "do this",
}, {
	name:   "KMS Encrypt",
	match:  target("TrentService.Encrypt"),
	faults: []faultlayer.Fault{jsonError(400, "ThrottlingException")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		out, err := sdk.kms.Encrypt(ctx, &kms.EncryptInput{KeyId: text("alias/example"), Plaintext: []byte("a secret")})
		if err != nil {
			return "", err
		}
		return unseal(out.CiphertextBlob)
	},
	want: "a secret",
}, {
	name:   "KMS GenerateDataKey",
	match:  target("TrentService.GenerateDataKey"),
	faults: []faultlayer.Fault{jsonError(500, "KMSInternalException"), faultlayer.Reset},
	do: func(ctx context.Context, sdk *services) (string, error) {
		out, err := sdk.kms.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: text("alias/example"), NumberOfBytes: number(32)})
		if err != nil {
			return "", err
		}
		key, err := unseal(out.CiphertextBlob)
		if key != string(out.Plaintext) {
			return "two keys", err
		}
		return fmt.Sprintf("%d bytes", len(key)), err
	},
	want: "32 bytes",
}, {
	name:   "Lambda Invoke",
	match:  request(http.MethodPost, "/2015-03-31/functions/greet/invocations"),
	faults: []faultlayer.Fault{headerError(429, "TooManyRequestsException"), headerError(502, "EC2UnexpectedException")},
	do:     func(ctx context.Context, sdk *services) (string, error) { return invoke(ctx, sdk) },
	want:   `"Hello, Ada!"`,
}, {
	name:   "Lambda Invoke at most once",
	match:  request(http.MethodPost, "/2015-03-31/functions/greet/invocations"),
	faults: []faultlayer.Fault{headerError(429, "TooManyRequestsException"), headerError(500, "ServiceException")},
	do: func(ctx context.Context, sdk *services) (string, error) {
		answer, err := invoke(ctx, sdk, func(o *lambda.Options) { o.APIOptions = append(o.APIOptions, atMostOnce) })
		var failure *lambdatypes.ServiceException
		if errors.As(err, &failure) {
			return "an error", nil // it may have run
		}
		return answer, err
	},
	want: "an error",
}}

func invoke(ctx context.Context, sdk *services, options ...func(*lambda.Options)) (string, error) {
	out, err := sdk.lambda.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: text("greet"), Payload: []byte(`{"name":"Ada"}`),
	}, options...)
	if err != nil {
		return "", err
	}
	return string(out.Payload), nil
}

// report is what the file holds: enough for many reads and writes, and less
// than the 1 MiB that a transport keeps unless told otherwise.
var report = bytes.Repeat([]byte("one line of a long report\n"), 12<<10)

// writeFile makes a file that is gone as soon as it is closed.
func writeFile(content []byte) (*os.File, error) {
	file, err := os.CreateTemp("", "retrip-example-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	if _, err := file.Write(content); err != nil {
		return nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}

// target matches an operation of a service with a JSON protocol.
func target(name string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Header.Get("X-Amz-Target") == name }
}

func request(method, path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && r.URL.Path == path }
}

func text(s string) *string { return &s }
func number(n int32) *int32 { return &n }
