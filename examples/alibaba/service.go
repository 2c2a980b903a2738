package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/retrip-go/retrip/internal/faultlayer"
)

// The example's credentials, known to both sides.
const (
	accessKeyID     = "AKIDEXAMPLE"
	accessKeySecret = "the-secret-of-the-example"
)

// signatureAge is how far a signature's time may be from the server's.
const signatureAge = 15 * time.Minute

// A service is a KMS in this process. Requests pass a first layer of faults,
// for the network's, and the gateway, which checks signature and nonce; then a
// second layer, for the service's.
type service struct {
	network, faults *faultlayer.Layer
	ahead           time.Duration // how far its clock is ahead of ours
	server          *httptest.Server

	mu      sync.Mutex
	nonces  map[string]bool
	queries []string // of all requests
}

// newService starts a service whose clock is ahead of ours.
func newService(ahead time.Duration) *service {
	s := &service{ahead: ahead, nonces: make(map[string]bool)}
	s.faults = faultlayer.New(http.HandlerFunc(serveKMS))
	s.network = faultlayer.New(http.HandlerFunc(s.serveGateway))
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.queries = append(s.queries, r.URL.RawQuery)
		s.mu.Unlock()
		w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
		s.network.ServeHTTP(w, r)
	}))
	return s
}

func (s *service) now() time.Time { return time.Now().Add(s.ahead) }

// base is retrip's usual transport, but every host of the world is the
// service. It is all that tells this example from production.
func (s *service) base() *http.Transport {
	base := cleanhttp.DefaultPooledTransport()
	base.Proxy = nil
	base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.server.Listener.Addr().String())
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.server.Certificate())
	base.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"} // the name on httptest's certificate
	return base
}

// serveGateway lets a request through if its signature is good and its nonce
// new. What the service behind makes of it, the nonce is then used.
func (s *service) serveGateway(w http.ResponseWriter, r *http.Request) {
	code := verify(r, s.now())
	if nonce := r.Header.Get("X-Acs-Signature-Nonce"); code == "" {
		s.mu.Lock()
		if s.nonces[nonce] {
			code = "SignatureNonceUsed"
		}
		s.nonces[nonce] = true
		s.mu.Unlock()
	}
	if code != "" {
		failure(http.StatusBadRequest, code)(w, r)
		return
	}
	s.faults.ServeHTTP(w, r)
}

// verify returns the error code for a request whose signature is not good.
func verify(r *http.Request, now time.Time) (code string) {
	method, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	fields := make(map[string]string)
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	if method != algorithm || fields["Credential"] != accessKeyID {
		return "InvalidAccessKeyId.NotFound"
	}
	signed, err := time.Parse(acsDate, r.Header.Get("X-Acs-Date"))
	if err != nil || now.Sub(signed).Abs() > signatureAge {
		return "InvalidTimeStamp.Expired"
	}
	body, err := io.ReadAll(r.Body)
	payload := hexSum(body)
	if err != nil || payload != r.Header.Get("X-Acs-Content-Sha256") {
		return "SignatureDoesNotMatch"
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	request := strings.Join([]string{
		r.Method, r.URL.Path, canonicalQuery(r.URL.Query()), headers.String(), fields["SignedHeaders"], payload,
	}, "\n")
	mac := hmac.New(sha256.New, []byte(accessKeySecret))
	mac.Write([]byte(algorithm + "\n" + hexSum([]byte(request))))
	if fields["Signature"] != hex.EncodeToString(mac.Sum(nil)) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func canonicalQuery(query url.Values) string {
	return strings.NewReplacer("+", "%20", "*", "%2A").Replace(query.Encode())
}

func hexSum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// serveKMS does what KMS does, with one key.
func serveKMS(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	answer := map[string]string{"KeyId": query.Get("KeyId"), "RequestId": "example"}
	switch r.Header.Get("X-Acs-Action") {
	case "Encrypt":
		answer["CiphertextBlob"] = seal(query.Get("Plaintext"))
	case "Decrypt":
		plaintext, err := unseal(query.Get("CiphertextBlob"))
		if err != nil {
			failure(http.StatusBadRequest, "InvalidCiphertext")(w, r)
			return
		}
		answer["Plaintext"] = plaintext
	case "GenerateDataKey":
		key := base64.StdEncoding.EncodeToString(slices.Repeat([]byte("key "), 8))
		answer["Plaintext"], answer["CiphertextBlob"] = key, seal(key)
	default:
		failure(http.StatusNotFound, "InvalidAction.NotFound")(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone does not miss it
}

// masterKey encrypts with a new nonce each time.
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

func seal(plaintext string) string {
	return base64.StdEncoding.EncodeToString(masterKey.Seal(nil, nil, []byte(plaintext), nil))
}

func unseal(text string) (string, error) {
	ciphertext, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", err
	}
	plaintext, err := masterKey.Open(nil, nil, ciphertext, nil)
	return string(plaintext), err
}

// failure is an error as Alibaba Cloud's services send it.
func failure(status int, code string) faultlayer.Fault {
	return faultlayer.Answer(status, fmt.Sprintf(`{"Code":%q,"Message":"an error of this example","RequestId":"example"}`, code),
		"Content-Type", "application/json;charset=utf-8")
}
