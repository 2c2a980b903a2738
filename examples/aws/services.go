package main

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// serveJSON serves what speaks AWS's JSON protocol: the header X-Amz-Target
// names the operation, the bodies are JSON.
func (c *cloud) serveJSON(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	// What the operations here have in their input, taken together.
	var in struct {
		TableName       string
		Item, Key       map[string]json.RawMessage
		WaitTimeSeconds int
		Plaintext       []byte
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		jsonError(http.StatusBadRequest, "SerializationException")(w, r)
		return
	}
	var out any
	switch operation {
	case "PutItem":
		c.tables.Store(in.TableName+string(in.Item["id"]), in.Item)
		out = struct{}{}
	case "GetItem":
		item, _ := c.tables.Load(in.TableName + string(in.Key["id"]))
		out = map[string]any{"Item": item}
	case "ReceiveMessage":
		select { // this is what makes it a long poll
		case text := <-c.queue:
			out = map[string]any{"Messages": []any{message(text)}}
		case <-time.After(time.Duration(in.WaitTimeSeconds) * time.Second):
			out = struct{}{}
		case <-r.Context().Done():
			return
		}
	case "Encrypt":
		out = map[string][]byte{"CiphertextBlob": seal(in.Plaintext)}
	case "GenerateDataKey":
		key := bytes.Repeat([]byte("key "), 8)
		out = map[string][]byte{"Plaintext": key, "CiphertextBlob": seal(key)}
	default:
		jsonError(http.StatusBadRequest, "UnknownOperationException")(w, r)
		return
	}
	text, err := json.Marshal(out)
	if err != nil {
		jsonError(http.StatusInternalServerError, "InternalFailure")(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10)) // DynamoDB's clients check it
	_, _ = w.Write(text)
}

// message is one of SQS's, with the MD5 by which its clients check it.
func message(text string) map[string]string {
	sum := md5.Sum([]byte(text))
	return map[string]string{"MessageId": "1", "ReceiptHandle": "1", "Body": text, "MD5OfBody": hex.EncodeToString(sum[:])}
}

// masterKey encrypts for KMS, with a new nonce each time.
var masterKey = func() cipher.AEAD {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	key, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return key
}()

func seal(plaintext []byte) []byte { return masterKey.Seal(nil, nil, plaintext, nil) }
func unseal(ciphertext []byte) (string, error) {
	plaintext, err := masterKey.Open(nil, nil, ciphertext, nil)
	return string(plaintext), err
}

// serveLambda runs the one function there is, for which the path and the body
// are all it needs to know.
func (c *cloud) serveLambda(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || path.Base(r.URL.Path) != "invocations" {
		headerError(http.StatusBadRequest, "InvalidRequestContentException")(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `"Hello, %s!"`, in.Name)
}

// serveGateway is an API of one's own behind IAM authorization: an echo.
func (c *cloud) serveGateway(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(w, r.Body)
}

// serveS3 leaves the buckets and objects to gofakes3. That does not read
// aws-chunked bodies with an unsigned payload, in which the SDK's uploads over
// TLS come; so they are unpacked for it, and their checksum kept as S3 does.
func (c *cloud) serveS3(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Encoding") == "aws-chunked" {
		content, checksum, err := unchunk(r.Body)
		if err != nil || strconv.Itoa(len(content)) != r.Header.Get("X-Amz-Decoded-Content-Length") {
			xmlError(http.StatusBadRequest, "IncompleteBody")(w, r)
			return
		}
		if checksum != crc32Base64(content) {
			xmlError(http.StatusBadRequest, "BadDigest")(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
		r.ContentLength = int64(len(content))
		r.Header.Set("Content-Length", strconv.Itoa(len(content)))
		r.Header.Set("X-Amz-Checksum-Crc32", checksum)
		r.Header.Del("Content-Encoding")
	}
	c.files.ServeHTTP(w, r)
}

// unchunk reads an aws-chunked body with a CRC-32 for a trailer.
func unchunk(body io.Reader) (content []byte, checksum string, err error) {
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, "", err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return nil, "", err
		}
		if size == 0 {
			break
		}
		chunk := make([]byte, size+2) // and the line's end
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, "", err
		}
		content = append(content, chunk[:size]...)
	}
	trailer, err := in.ReadString('\n')
	if err != nil {
		return nil, "", err
	}
	name, value, _ := strings.Cut(strings.TrimSpace(trailer), ":")
	if name != "x-amz-checksum-crc32" {
		return nil, "", fmt.Errorf("the trailer is %q", name)
	}
	return content, value, nil
}

func crc32Base64(content []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(content)))
}
