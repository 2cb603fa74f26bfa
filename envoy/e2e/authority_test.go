//go:build realenvoy

package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// authority signs certificates, in files of a folder of its own.
type authority struct {
	dir    string
	file   string // its own certificate
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), key: newKey(t), serial: 1}
	a.file = filepath.Join(a.dir, "ca.pem")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issued is a certificate and its key, in files. The zero value is none.
type issued struct {
	cert, key string
	serial    int64
}

// subject sets whom a certificate is for.
type subject func(*x509.Certificate)

func name(dns string) subject {
	return func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, dns) }
}

func spiffe(id string) subject {
	u, err := url.Parse(id)
	if err != nil {
		panic(err)
	}
	return func(c *x509.Certificate) { c.URIs = append(c.URIs, u) }
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, file string, subjects ...subject) issued {
	t.Helper()
	a.serial++
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: file},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, s := range subjects {
		s(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out := issued{filepath.Join(a.dir, file+".pem"), filepath.Join(a.dir, file+".key"), a.serial}
	writePEM(t, out.cert, "CERTIFICATE", der)
	writePEM(t, out.key, "PRIVATE KEY", private)
	return out
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dial connects with TLS, as a client that trusts the authority.
func (i issued) dial(t *testing.T, ca *authority, address, sni string) *tls.Conn {
	t.Helper()
	conn, err := i.try(ca, address, sni)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// try returns an error also where the server refuses the client after the handshake, as
// TLS 1.3 has it: so it is 1.2 here.
func (i issued) try(ca *authority, address, sni string) (*tls.Conn, error) {
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	config := &tls.Config{RootCAs: roots, ServerName: sni, MaxVersion: tls.VersionTLS12}
	if i.cert != "" {
		pair, err := tls.LoadX509KeyPair(i.cert, i.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", address, config)
}

// downstreamTLS is how a listener of Envoy's demands certificates of its clients.
func downstreamTLS(server issued, ca *authority) node {
	return node{"name": "envoy.transport_sockets.tls", "typed_config": node{
		"@type":                      "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"require_client_certificate": true,
		"common_tls_context": node{
			"tls_certificates": []any{node{
				"certificate_chain": node{"filename": server.cert}, "private_key": node{"filename": server.key},
			}},
			"validation_context": node{"trusted_ca": node{"filename": ca.file}},
		},
	}}
}
