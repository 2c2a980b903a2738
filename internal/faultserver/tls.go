package faultserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"time"
)

// Secure plays p over TLS, with a certificate for 127.0.0.1 of the authority
// in RootCAs. protocols are those of ALPN, "h2" or "http/1.1".
func Secure(p Play, protocols ...string) Play {
	return secure(p, func() tls.Certificate { return known().issue("127.0.0.1") }, protocols)
}

// UnknownAuthority has a certificate of an authority that nobody knows.
func UnknownAuthority(c *Conn) {
	secure(Answer(200), func() tls.Certificate { return newAuthority().issue("127.0.0.1") }, nil)(c)
}

// WrongHost has a certificate of a known authority for another host.
func WrongHost(c *Conn) {
	secure(Answer(200), func() tls.Certificate { return known().issue("elsewhere.test") }, nil)(c)
}

// NoTLS answers a ClientHello with text.
func NoTLS(text string) Play {
	return func(c *Conn) {
		if _, err := c.in.Peek(1); err == nil {
			_, _ = c.Write([]byte(text))
			untilHungUpAfterFIN(c)
		}
	}
}

// HandshakeFailure answers a ClientHello with the alert of that name.
func HandshakeFailure(c *Conn) {
	if _, err := c.in.Peek(1); err != nil {
		return
	}
	const alert, fatal, handshakeFailure = 21, 2, 40
	_, _ = c.Write([]byte{alert, 3, 3, 0, 2, fatal, handshakeFailure})
	untilHungUpAfterFIN(c)
}

// RootCAs holds the authority of Secure and WrongHost.
func RootCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(known().cert)
	return pool
}

func secure(p Play, certificate func() tls.Certificate, protocols []string) Play {
	return func(c *Conn) {
		config := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: protocols}
		conn := tls.Server(c.Conn, config)
		if conn.Handshake() == nil {
			p(c.over(conn))
		}
		_ = conn.Close()
	}
}

var known = sync.OnceValue(newAuthority)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() *authority {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey()
	a := &authority{template, key}
	a.cert = a.sign(template, key)
	return a
}

func (a *authority) issue(host string) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key := newKey()
	return tls.Certificate{Certificate: [][]byte{a.sign(template, key).Raw}, PrivateKey: key}
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		panic(err)
	}
	return cert
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}
